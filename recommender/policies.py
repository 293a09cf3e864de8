"""What a policy asks of one container's recommendation, as values.

Owns the reading of containerPolicies: each field by itself, so that a wrong one is named and the others still hold.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from elastipod.api import ContainerPolicy, ResourceList
from elastipod.quantities import NOTHING, QuantityError, Resources, parse_cpu, parse_nano, stated_memory

_MOST_SECONDS: Final = 2**31 - 1
"""As many as the field of upstream's API holds."""


@dataclass(frozen=True, slots=True)
class SizePolicy:
    """How a container may be sized."""

    is_off: bool = False
    min_allowed: Resources = NOTHING
    max_allowed: Resources = NOTHING
    controls_cpu: bool = True
    controls_memory: bool = True
    requests_only: bool = False
    oom_bump_ratio: float | None = None
    oom_min_bump_bytes: float | None = None
    memory_interval_seconds: float | None = None
    problems: tuple[str, ...] = field(default=(), compare=False)
    """What could not be understood, by the field's name."""


def size_policy(policy: ContainerPolicy | None) -> SizePolicy:
    """A container policy as a value. A field that makes no sense counts as not set and is named in `problems`."""
    if policy is None:
        return SizePolicy()
    problems: list[str] = []
    if policy.mode not in (None, "Auto", "Off"):
        problems.append(f"mode: {policy.mode!r} is neither Auto nor Off")
    if policy.controlled_values not in (None, "RequestsAndLimits", "RequestsOnly"):
        problems.append(f"controlledValues: {policy.controlled_values!r} is neither RequestsAndLimits nor RequestsOnly")
    controlled = policy.controlled_resources
    if controlled is not None:
        problems += [
            f"controlledResources: {name!r} is neither cpu nor memory"
            for name in controlled
            if name not in ("cpu", "memory")
        ]
    least = _amounts("minAllowed", policy.min_allowed, problems)
    most = _amounts("maxAllowed", policy.max_allowed, problems)
    for name, low, high in (
        ("cpu", least.cpu_millicores, most.cpu_millicores),
        ("memory", least.memory_bytes, most.memory_bytes),
    ):
        if low is not None and high is not None and low > high:
            problems.append(f"minAllowed.{name} is above maxAllowed.{name}; {name} gets no recommendation")
    ratio = _number("oomBumpUpRatio", policy.oom_bump_up_ratio, problems)
    if ratio is not None and ratio < 1:
        problems.append("oomBumpUpRatio: must be at least 1")
        ratio = None
    interval = policy.memory_aggregation_interval_seconds
    if interval is not None and not 1 <= interval <= _MOST_SECONDS:
        problems.append(f"memoryAggregationIntervalSeconds: must be 1 to {_MOST_SECONDS}")
        interval = None
    return SizePolicy(
        is_off=policy.mode == "Off",
        min_allowed=least,
        max_allowed=most,
        controls_cpu=controlled is None or "cpu" in controlled,
        controls_memory=controlled is None or "memory" in controlled,
        requests_only=policy.controlled_values == "RequestsOnly",
        oom_bump_ratio=ratio,
        oom_min_bump_bytes=_number("oomMinBumpUp", policy.oom_min_bump_up, problems),
        memory_interval_seconds=None if interval is None else float(interval),
        problems=tuple(problems),
    )


def _amounts(name: str, amounts: ResourceList | None, problems: list[str]) -> Resources:
    def read(resource: str, parse: Callable[[str], int]) -> int | None:
        text = (amounts or {}).get(resource)
        if text is None:
            return None
        try:
            amount = parse(str(text))
        except QuantityError as error:
            problems.append(f"{name}.{resource}: {error}")
            return None
        if amount < 0:
            problems.append(f"{name}.{resource}: {text} is below zero")
            return None
        return amount

    return Resources(read("cpu", parse_cpu), read("memory", stated_memory))


def _number(name: str, text: str | float | None, problems: list[str]) -> float | None:
    if text is None:
        return None
    try:
        number = parse_nano(str(text)) / 1e9
    except QuantityError as error:
        problems.append(f"{name}: {error}")
        return None
    if number < 0:
        problems.append(f"{name}: {text} is below zero")
        return None
    return number
