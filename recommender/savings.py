"""What is reserved, used and recommended, in cores, bytes and money.

Owns the arithmetic and the three numbers that are kept apart: *waste* (reserved above what is recommended), *applied*
(reserved before less reserved now) and *realisable* (nodes that would be empty, packing.py's matter).
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from elastipod.pods import Container, ContainerKind, Pod, Workload
from elastipod.quantities import Resources


@dataclass(frozen=True, slots=True)
class Amount:
    """Cores and bytes; negative where a difference is."""

    cores: float = 0.0
    memory_bytes: float = 0.0

    def __add__(self, other: "Amount") -> "Amount":
        return Amount(self.cores + other.cores, self.memory_bytes + other.memory_bytes)

    def __sub__(self, other: "Amount") -> "Amount":
        return Amount(self.cores - other.cores, self.memory_bytes - other.memory_bytes)

    def above(self, other: "Amount") -> "Amount":
        """By how much this is more than another, per resource; nothing where it is less."""
        return Amount(max(self.cores - other.cores, 0.0), max(self.memory_bytes - other.memory_bytes, 0.0))


@dataclass(frozen=True, slots=True)
class Saving:
    """A workload's amounts over all its pods."""

    workload: Workload
    pods: int = 0
    reserved_before: Amount = Amount()
    reserved: Amount = Amount()
    used: Amount = Amount()
    recommended: Amount = Amount()

    @property
    def waste(self) -> Amount:
        """Reserved above what is recommended."""
        return self.reserved.above(self.recommended)

    @property
    def lacking(self) -> Amount:
        """Recommended above what is reserved."""
        return self.recommended.above(self.reserved)

    @property
    def applied(self) -> Amount:
        """What is reserved less than before; negative where it is more."""
        return self.reserved_before - self.reserved

    def __add__(self, other: "Saving") -> "Saving":
        return Saving(
            self.workload,
            self.pods + other.pods,
            self.reserved_before + other.reserved_before,
            self.reserved + other.reserved,
            self.used + other.used,
            self.recommended + other.recommended,
        )


def savings(
    pods: Iterable[tuple[Pod, Workload]],
    recommended: Mapping[tuple[Workload, str], Resources],
    used: Mapping[tuple[str, str, str], Amount],
    before: Mapping[tuple[str, str, str], Resources],
) -> list[Saving]:
    """Per workload, sorted by it. `used` and `before` are by namespace, pod and container; what is missing is as it is.

    A container without a recommendation counts as recommended what it reserves: nothing is promised for it.
    """
    found: dict[Workload, Saving] = {}
    for pod, workload in pods:
        if pod.is_terminal:
            continue
        saving = Saving(workload, 1)
        for container in pod.containers:
            if container.kind is not ContainerKind.INIT:
                saving += _container(pod, container, workload, recommended, used, before)
        found[workload] = found[workload] + saving if workload in found else saving
    return [found[workload] for workload in sorted(found)]


def _container(
    pod: Pod,
    container: Container,
    workload: Workload,
    recommended: Mapping[tuple[Workload, str], Resources],
    used: Mapping[tuple[str, str, str], Amount],
    before: Mapping[tuple[str, str, str], Resources],
) -> Saving:
    where = (pod.namespace, pod.name, container.name)
    wanted = recommended.get((workload, container.name), Resources()).or_else(container.requests)
    return Saving(
        workload,
        0,
        _amount(before.get(where, container.requests)),
        _amount(container.requests),
        used.get(where, Amount()),
        _amount(wanted),
    )


def _amount(resources: Resources) -> Amount:
    return Amount(resources.cpu / 1000, float(resources.memory))
