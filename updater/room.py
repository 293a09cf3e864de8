"""Who can give what a waiting pod needs, and when a donor gets back what it gave.

Owns the choice of donors: pods that do not use what they hold. A donor keeps its usage and recent memory peak with a
margin; those that are disturbed least give first. Nothing is taken unless it is enough.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from elastipod.headroom import least_limit
from elastipod.pods import Container, Pod
from elastipod.quantities import Resources
from updater.sizes import Size, size_of
from updater.steps import Usage

_LEAST_CPU = 10
_LEAST_MEMORY = 16 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class DonorRules:
    """The donor part of the settings."""

    margin_fraction: float = 0.25
    restore_fraction: float = 0.9
    shrink_fraction: float = 0.2
    usage_margin_fraction: float = 0.1
    fresh_seconds: float = 15.0
    settled_seconds: float = 60.0


@dataclass(frozen=True, slots=True)
class Gift:
    """What one pod gives: its containers' new sizes, and how much room that makes."""

    key: str
    sizes: Mapping[str, Size]
    room: Resources


@dataclass(frozen=True, slots=True)
class _Offer:
    pod: Pod
    container: Container
    cpu: int
    memory: int
    disturbs: int
    """0: only a request moves. 1: a CPU limit goes down with it. 2: a memory limit goes down with it."""


def make_room(
    need: Resources,
    donors: Iterable[Pod],
    usage: Mapping[str, Mapping[str, Usage]],
    now: float,
    rules: DonorRules | None = None,
) -> list[Gift] | None:
    """Gifts that together make the room needed; None where that can not be had.

    `donors` are the pods that may give: of the node, willing, with no resize under way.
    """
    rules = rules or DonorRules()
    offers = [
        offer
        for pod in donors
        for offer in _offers(pod, usage.get(pod.key, {}), now, rules)
        if offer.cpu or offer.memory
    ]
    # By least disturbance; then lower priority; then the one with most to give, so that few are asked.
    offers.sort(
        key=lambda one: (
            one.disturbs,
            one.pod.priority,
            -_share(one, need),
            one.pod.key,
            one.container.name,
        )
    )
    cpu, memory = need.cpu, need.memory
    taken: dict[str, dict[str, tuple[Container, int, int]]] = {}
    for offer in offers:
        give_cpu, give_memory = min(offer.cpu, max(cpu, 0)), min(offer.memory, max(memory, 0))
        if not give_cpu and not give_memory:
            continue
        cpu, memory = cpu - give_cpu, memory - give_memory
        of_pod, name = taken.setdefault(offer.pod.key, {}), offer.container.name
        _, before_cpu, before_memory = of_pod.get(name, (offer.container, 0, 0))
        of_pod[name] = (offer.container, before_cpu + give_cpu, before_memory + give_memory)
    if cpu > 0 or memory > 0:
        return None
    return [
        Gift(
            key,
            {name: less(*given) for name, given in of_pod.items()},
            Resources(sum(one[1] for one in of_pod.values()), sum(one[2] for one in of_pod.values())),
        )
        for key, of_pod in taken.items()
    ]


def less(container: Container, cpu: int, memory: int) -> Size:
    """The container's size after it gave this much; a limit that equals its request goes down with it."""
    size = size_of(container)
    requests = Resources(
        _minus(size.requests.cpu_millicores, cpu),
        _minus(size.requests.memory_bytes, memory),
    )
    limits = Resources(
        requests.cpu_millicores if _is_equal_cpu(container) else size.limits.cpu_millicores,
        requests.memory_bytes if _is_equal_memory(container) else size.limits.memory_bytes,
    )
    return Size(requests, limits)


def needs_back(
    pod: Pod, had: Mapping[str, Size], usage: Mapping[str, Usage], rules: DonorRules | None = None
) -> dict[str, Size]:
    """The containers of a donor whose usage comes near what they kept, with the size they had.

    A missing or old sample takes nothing away here, so it counts as it is.
    """
    rules = rules or DonorRules()
    found: dict[str, Size] = {}
    for name, size in had.items():
        container, used = pod.container(name), usage.get(name)
        if container is None:
            continue
        gave_cpu = size.requests.cpu > container.requests.cpu
        gave_memory = size.requests.memory > container.requests.memory
        ended = container.last_termination
        short_cpu = used is not None and used.cpu_millicores >= container.requests.cpu * rules.restore_fraction
        short_memory = used is not None and used.memory_bytes >= container.requests.memory * rules.restore_fraction
        killed = ended is not None and ended.is_oom_kill
        if (gave_cpu and short_cpu) or (gave_memory and (short_memory or killed)):
            found[name] = size
    return found


def choose_node(lacks: Mapping[str, Resources]) -> Sequence[str]:
    """Nodes in the order in which to look for donors: the one that lacks least first."""
    return sorted(lacks, key=lambda node: (lacks[node].memory / 2**30 + lacks[node].cpu / 1000, node))


def _offers(pod: Pod, usage: Mapping[str, Usage], now: float, rules: DonorRules) -> Iterable[_Offer]:
    for container in pod.sized_containers:
        used = usage.get(container.name)
        if used is None or now - used.at > rules.fresh_seconds or not container.is_running:
            continue
        if container.started_at is not None and now - container.started_at < rules.settled_seconds:
            continue
        keep = 1 + rules.margin_fraction
        cpu = memory = 0
        if not container.cpu_restart:
            cpu = max(container.requests.cpu - max(_ceil(used.cpu_millicores * keep), _LEAST_CPU), 0)
        peak = max(used.memory_bytes, used.memory_peak_bytes)
        if not container.memory_restart:
            memory = max(container.requests.memory - max(_ceil(peak * keep), _LEAST_MEMORY), 0)
        if _is_equal_memory(container):
            # The limit goes down as well: only as far as one step may, and never to where a spike is met.
            memory = min(memory, int(container.requests.memory * rules.shrink_fraction))
            memory = max(min(memory, container.requests.memory - least_limit(peak)), 0)
        kind = 2 if _is_equal_memory(container) and memory else int(_is_equal_cpu(container) and cpu > 0)
        if kind == 2 and cpu:
            yield _Offer(pod, container, cpu, 0, int(_is_equal_cpu(container)))
            yield _Offer(pod, container, 0, memory, 2)
        else:
            yield _Offer(pod, container, cpu, memory, kind)


def _share(offer: _Offer, need: Resources) -> float:
    """How much of the need an offer covers."""
    cpu = min(offer.cpu / need.cpu, 1.0) if need.cpu > 0 else 0.0
    memory = min(offer.memory / need.memory, 1.0) if need.memory > 0 else 0.0
    return cpu + memory


def _is_equal_cpu(container: Container) -> bool:
    return container.limits.cpu_millicores is not None and container.limits.cpu == container.requests.cpu


def _is_equal_memory(container: Container) -> bool:
    return container.limits.memory_bytes is not None and container.limits.memory == container.requests.memory


def _minus(amount: int | None, less_by: int) -> int | None:
    return None if amount is None else amount - less_by


def _ceil(amount: float) -> int:
    return int(-(-amount // 1))
