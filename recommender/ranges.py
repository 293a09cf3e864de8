"""What a recommendation is made of: a range per resource, and what cut it.

Owns the values and their order, lower bound <= target <= upper bound. What may cut them is capping.py's and
podcapping.py's matter.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

from elastipod.limitmodes import LimitMode, LimitModes
from elastipod.quantities import NOTHING, Resources
from elastipod.reasons import Reason


class Resource(StrEnum):
    """What a recommendation speaks of."""

    CPU = "cpu"
    MEMORY = "memory"

    def of(self, amounts: Resources) -> int | None:
        """Its amount."""
        return amounts.cpu_millicores if self is Resource.CPU else amounts.memory_bytes


@dataclass(frozen=True, slots=True)
class Range:
    """One resource's recommendation, in millicores or bytes; `upper` None where no upper bound is shown."""

    lower: int
    target: int
    upper: int | None
    uncapped: int

    def between(self, least: int, most: int | None) -> "Range":
        """Within limits; where they contradict each other, the upper one holds."""
        highest = self.target if self.upper is None else self.upper
        if least <= self.lower and (most is None or highest <= most):
            return self

        def clamp(amount: int) -> int:
            amount = max(amount, least)
            return amount if most is None else min(amount, most)

        return replace(
            self,
            lower=clamp(self.lower),
            target=clamp(self.target),
            upper=None if self.upper is None else clamp(self.upper),
        )

    def in_units_of(self, unit: int) -> "Range":
        """Each amount rounded up."""
        upper = None if self.upper is None else _up(self.upper, unit)
        return Range(_up(self.lower, unit), _up(self.target, unit), upper, _up(self.uncapped, unit))


def _up(amount: int, unit: int) -> int:
    return -(-amount // unit) * unit


@dataclass(frozen=True, slots=True)
class Cap:
    """What changed or withheld a recommendation, to how much, and who said so."""

    resource: Resource
    reason: Reason
    amount: int
    by: str = ""
    """The object or statement, as people find it."""


@dataclass(frozen=True, slots=True)
class Capped:
    """One container's recommendation; None for a resource that none is made for."""

    container: str
    cpu: Range | None
    memory: Range | None
    caps: tuple[Cap, ...] = ()
    least: Resources = NOTHING
    most: Resources = NOTHING
    """What a request of this container must be at least and at most, whatever the rest of its pod is."""
    moves_limits: bool = True
    """Whether limits are moved at all."""
    limit_modes: LimitModes = field(default_factory=LimitModes)

    def limit_follows(self, resource: Resource) -> bool:
        """Whether the limit follows its request in proportion."""
        return self.moves_limits and self.limit_modes.of(resource) is LimitMode.PROPORTIONAL

    def limit_apart(self, resource: Resource) -> int | None:
        """The limit that is apart from its request; None where there is none, or not yet."""
        span = self.of(resource)
        is_apart = self.moves_limits and self.limit_modes.of(resource) is LimitMode.INDEPENDENT
        return span.upper if span is not None and is_apart else None

    def of(self, resource: Resource) -> Range | None:
        return self.cpu if resource is Resource.CPU else self.memory

    def with_span(self, resource: Resource, span: Range | None) -> "Capped":
        """With this in place of what is recommended of a resource."""
        return replace(self, cpu=span) if resource is Resource.CPU else replace(self, memory=span)

    def changed(self, span: Range, why: Cap) -> "Capped":
        """With this in place of what was recommended, and why."""
        return replace(self.with_span(why.resource, span), caps=(*self.caps, why))

    def in_whole_cores(self) -> "Capped":
        """With CPU rounded up; what caps it afterwards may still leave a fraction, as upstream."""
        return self if self.cpu is None else replace(self, cpu=self.cpu.in_units_of(1000))

    def withheld(self, why: Cap) -> "Capped":
        """With nothing recommended of a resource, and why."""
        return replace(self.with_span(why.resource, None), caps=(*self.caps, why))


def range_of(values: Sequence[float], unit: float) -> Range | None:
    """Lower bound, target and upper bound in whole units, rounded up; None where there is no data."""
    lower, target, upper = values
    if not math.isfinite(target):
        return None
    whole_target = max(math.ceil(target * unit), 0)
    whole_lower = min(math.ceil(lower * unit) if math.isfinite(lower) else 0, whole_target)
    whole_upper = max(math.ceil(upper * unit), whole_target) if math.isfinite(upper) else None
    return Range(whole_lower, whole_target, whole_upper, whole_target)
