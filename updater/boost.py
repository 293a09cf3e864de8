"""More CPU while a pod starts, as a VerticalPodAutoscaler asks for it.

Owns the reading of `startupBoost`. What becomes of it is boosted.py's matter.
"""

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Struct

from elastipod.api import Autoscaler
from elastipod.quantities import QuantityError, parse_cpu


class Boost(Struct, frozen=True, gc=False):
    """What an autoscaler asks for: so many times the CPU, or so much more, until so long after the pod is ready."""

    factor: int = 1
    more_millicores: int = 0
    seconds: float = 0.0
    moves_limits: bool = True

    def of(self, cpu_millicores: int) -> int:
        """The CPU with the boost."""
        return cpu_millicores * self.factor + self.more_millicores


def boosts_of(autoscaler: Autoscaler, problems: list[str]) -> Mapping[str, Boost | None]:
    """By the container policy that speaks of a container, and by no name for all without; see Advice.boost.

    Never raises: what is wrong is named in `problems`, and nothing is boosted by it.
    """
    spec = autoscaler.spec
    policies = (spec.resource_policy and spec.resource_policy.container_policies) or []
    if spec.startup_boost is None and all(policy.startup_boost is None for policy in policies):
        return {}

    def read(found: Any, where: str) -> Boost | None:
        try:
            return boost_of(found)
        except QuantityError as error:
            problems.append(f"{where}.{error}")
            return None

    for_all = read(spec.startup_boost, "spec")
    boosts = {"": for_all}
    for policy in reversed(policies):
        where = f"spec.resourcePolicy.containerPolicies for container {policy.container_name!r}"
        own = for_all if policy.startup_boost is None else read(policy.startup_boost, where)
        if own is not None and policy.controlled_values == "RequestsOnly":
            own = msgspec.structs.replace(own, moves_limits=False)
        boosts[policy.container_name] = None if policy.mode == "Off" else own
    return boosts


def boost_of(found: Any) -> Boost | None:
    """A `startupBoost` as it stands in an autoscaler; None where it asks for nothing. Raises QuantityError."""
    cpu = found.get("cpu") if isinstance(found, dict) else None
    if cpu is None:
        return None
    if not isinstance(cpu, dict):
        raise QuantityError("startupBoost.cpu must be an object with type, factor or quantity, and durationSeconds")
    seconds = cpu.get("durationSeconds") or 0
    if not isinstance(seconds, int) or seconds < 0:
        raise QuantityError("startupBoost.cpu.durationSeconds must be a whole number of seconds")
    match cpu.get("type"):
        case "Factor":
            factor = cpu.get("factor")
            if not isinstance(factor, int) or not 1 <= factor <= 1000:
                raise QuantityError("startupBoost.cpu.factor must be a whole number from 1 to 1000")
            return Boost(factor=factor, seconds=seconds)
        case "Quantity":
            more = parse_cpu(str(cpu.get("quantity")))
            if more < 0:
                raise QuantityError("startupBoost.cpu.quantity must not be negative")
            return Boost(more_millicores=more, seconds=seconds)
    raise QuantityError("startupBoost.cpu.type must be Factor or Quantity")
