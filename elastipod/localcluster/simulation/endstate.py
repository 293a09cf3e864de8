"""The end of a run, and how it may differ from the end of another run of the same seed.

Owns what is compared. The script is the same in both, so what people wish for is: each service has as many pods, in the
same phases, and each job is over or is not. A service that is still sized automatically has a size near the other
run's: which samples the recommender saw, and when, moves its percentiles and the step at which a size is near enough,
so that amounts within `SPREAD` of each other count as equal. Not compared, since timing alone decides it legitimately:

* the sizes of services whose policy was switched off or deleted: they keep what they had by then;
* how many of a job's pods failed: a spike kills one where the actuator was dead, and the job makes another;
* pods on their own: a quota may have refused one for what others had at that moment.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Final

from msgspec import Struct

from elastipod.kube.podrows import decode_pod
from elastipod.kube.resources import AUTOSCALERS, DEPLOYMENTS, JOBS, REPLICA_SETS
from elastipod.localcluster.api.kinds import POD, kind_of
from elastipod.localcluster.api.store import Store

SPREAD: Final = 1.6
_SIZING: Final = ("InPlace", "InPlaceOrRecreate", "Auto")


class ServiceEnd(Struct, frozen=True):
    """A deployment's pods at the end."""

    phases: tuple[str, ...] = ()
    requests: tuple[tuple[str, int, int], ...] = ()
    """Container, millicores and bytes, smallest first."""
    is_sized: bool = False
    """Whether a policy still sizes it."""


class EndState(Struct, frozen=True):
    """What there is at the end of a run."""

    services: Mapping[str, ServiceEnd] = {}
    jobs_at_work: tuple[str, ...] = ()

    @property
    def running(self) -> int:
        """How many pods of services run."""
        return sum(one.phases.count("Running") for one in self.services.values())


def end_state(store: Store) -> EndState:
    """The end as the API server has it."""
    pods = defaultdict(list)
    for entry in store.of_kind(POD):
        pod = decode_pod(entry.raw)
        if pod.owner is not None and pod.owner.kind == REPLICA_SETS.kind:
            pods[f"{pod.namespace}/{pod.owner.name.rpartition('-')[0]}"].append(pod)
    sized = {
        f"{one.namespace}/{one.json['spec']['targetRef']['name']}"
        for one in store.of_kind(kind_of(AUTOSCALERS))
        if (one.json["spec"].get("updatePolicy") or {}).get("updateMode", "Auto") in _SIZING
    }
    services = {}
    for entry in store.of_kind(kind_of(DEPLOYMENTS)):
        name = f"{entry.namespace}/{entry.name}"
        requests = [
            (one.name, one.requests.cpu, one.requests.memory) for pod in pods[name] for one in pod.sized_containers
        ]
        phases = sorted(str(pod.phase) for pod in pods[name])
        services[name] = ServiceEnd(tuple(phases), tuple(sorted(requests)), name in sized)
    jobs = [one for one in store.of_kind(kind_of(JOBS)) if not _is_over(one.json.get("status") or {})]
    return EndState(services, tuple(sorted(f"{one.namespace}/{one.name}" for one in jobs)))


def differences(end: EndState, other: EndState) -> Iterator[str]:
    """What differs though it may not."""
    if end.jobs_at_work != other.jobs_at_work:
        yield f"jobs at work: {end.jobs_at_work} and {other.jobs_at_work}"
    for name in sorted({*end.services, *other.services}):
        one, two = (state.services.get(name, ServiceEnd()) for state in (end, other))
        if (one.phases, one.is_sized) != (two.phases, two.is_sized):
            yield f"{name}: {one.phases}, sized {one.is_sized} and {two.phases}, sized {two.is_sized}"
        elif one.is_sized and not all(map(_are_near, one.requests, two.requests)):
            yield f"{name}: {one.requests} and {two.requests}"


def _are_near(one: tuple[str, int, int], two: tuple[str, int, int]) -> bool:
    return one[0] == two[0] and all(a <= b * SPREAD and b <= a * SPREAD for a, b in zip(one[1:], two[1:], strict=True))


def _is_over(status: Mapping[str, object]) -> bool:
    conditions = status.get("conditions")
    found = conditions if isinstance(conditions, list) else []
    return any(one.get("type") in ("Complete", "Failed") and one.get("status") == "True" for one in found)
