"""What holds for one pod: the nearest statement, within what the administrator allows.

Owns the order of statements (pod, then ElasticPolicies from the narrowest selector to the widest, then the cluster's
default) and the ceiling. A statement that can not be understood is named and does not count.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from elastipod.api import SPIKE_ANNOTATION, ElasticPolicy
from elastipod.pods import Pod, Workload
from elastipod.quantities import QuantityError, stated_memory

DONATE_ANNOTATION: Final = "elastipod.io/donate"
"""On a pod: `true` or `false`, whether it may give room it does not use."""


class SpikeMode(StrEnum):
    """What happens when a container's memory leaps towards its limit."""

    OFF = "Off"
    PAUSE = "Pause"


@dataclass(frozen=True, slots=True)
class Ceiling:
    """What the administrator allows at most, and what holds where nobody says anything."""

    spike: SpikeMode = SpikeMode.PAUSE
    default_spike: SpikeMode = SpikeMode.OFF
    spike_max_bytes: int | None = None
    may_donate: bool = True


@dataclass(frozen=True, slots=True)
class EffectivePolicy:
    """What holds for a pod, who said so, and what could not be understood."""

    spike: SpikeMode
    spike_max_bytes: int | None = None
    """No spike raises a container's memory limit above this; None where nobody set a bound."""
    donate: bool | None = None
    """Whether the pod may give room; None where nobody said, so that whoever asks has its own default."""
    spike_source: str = "default"
    donate_source: str = "default"
    problems: tuple[str, ...] = ()
    """Statements set aside, each with its place and what to write instead."""


def effective_policy(
    pod: Pod,
    workload: Workload,
    policies: Iterable[ElasticPolicy],
    ceiling: Ceiling,
    workload_labels: Mapping[str, str] | None = None,
) -> EffectivePolicy:
    """What holds for the pod of a workload. Policies of other namespaces are left out."""
    labels = {**(workload_labels or {}), **pod.labels}
    chosen = by_narrowness(policy for policy in policies if selects(policy, workload, labels))
    problems: list[str] = []
    spike, spike_source = _spike(pod, chosen, problems)
    donate, donate_source = _donate(pod, chosen, problems)
    if spike is None:
        spike = ceiling.default_spike
    if ceiling.spike is SpikeMode.OFF and spike is not SpikeMode.OFF:
        spike, spike_source = SpikeMode.OFF, "ceiling"
    if donate and not ceiling.may_donate:
        donate, donate_source = False, "ceiling"
    return EffectivePolicy(
        spike,
        _spike_bound(chosen, ceiling.spike_max_bytes, problems),
        donate,
        spike_source,
        donate_source,
        tuple(problems),
    )


def selects(policy: ElasticPolicy, workload: Workload, labels: Mapping[str, str]) -> bool:
    """Whether a policy speaks of a workload with these labels; what the selector leaves out does not narrow."""
    if policy.metadata.namespace != workload.namespace:
        return False
    selector = policy.spec.selector
    if selector is None:
        return True
    if selector.kind is not None and selector.kind not in (workload.kind, workload.plain_kind):
        return False
    if selector.name is not None and selector.name != workload.name:
        return False
    return all(labels.get(key) == value for key, value in (selector.match_labels or {}).items())


def by_narrowness(policies: Iterable[ElasticPolicy]) -> list[ElasticPolicy]:
    """From the narrowest selector to the widest."""
    return sorted(policies, key=lambda policy: (-_narrowness(policy), policy.metadata.name))


def _narrowness(policy: ElasticPolicy) -> int:
    """A name is narrower than labels, labels are narrower than a kind."""
    selector = policy.spec.selector
    if selector is None:
        return 0
    return 4 * (selector.name is not None) + 2 * bool(selector.match_labels) + (selector.kind is not None)


def _spike(pod: Pod, chosen: list[ElasticPolicy], problems: list[str]) -> tuple[SpikeMode | None, str]:
    statements = [(pod.annotations.get(SPIKE_ANNOTATION), f"annotation {SPIKE_ANNOTATION}")]
    statements += [
        (policy.spec.memory_spike.mode, f"ElasticPolicy {policy.metadata.name} spec.memorySpike.mode")
        for policy in chosen
        if policy.spec.memory_spike is not None
    ]
    for text, source in statements:
        if text is None:
            continue
        try:
            return SpikeMode(text), source
        except ValueError:
            problems.append(f"{source} is {text[:40]!r}: write Pause or Off")
    return None, "default"


def _donate(pod: Pod, chosen: list[ElasticPolicy], problems: list[str]) -> tuple[bool | None, str]:
    text = pod.annotations.get(DONATE_ANNOTATION)
    stated = next(((one.spec.donate, one.metadata.name) for one in chosen if one.spec.donate is not None), None)
    if text == "false":
        return False, f"annotation {DONATE_ANNOTATION}"
    if text is not None and text != "true":
        # Whoever wrote something there did not mean yes for sure.
        problems.append(f"annotation {DONATE_ANNOTATION} is {text[:40]!r}: write true or false")
        return False, f"annotation {DONATE_ANNOTATION}"
    if text == "true":
        return True, f"annotation {DONATE_ANNOTATION}"
    return (None, "default") if stated is None else (stated[0], f"ElasticPolicy {stated[1]} spec.donate")


def _spike_bound(chosen: list[ElasticPolicy], most: int | None, problems: list[str]) -> int | None:
    """The nearest bound, never above the ceiling's."""
    for policy in chosen:
        spike = policy.spec.memory_spike
        if spike is None or spike.max_allowed is None:
            continue
        try:
            bound = stated_memory(str(spike.max_allowed))
            if bound < 0:
                raise QuantityError(f"{bound} is negative: write an amount such as 2Gi")
        except QuantityError as error:
            problems.append(f"ElasticPolicy {policy.metadata.name} spec.memorySpike.maxAllowed: {error}")
            continue
        return bound if most is None else min(bound, most)
    return most
