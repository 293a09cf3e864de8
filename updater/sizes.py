"""The size a pod should have, before anything bounds it.

Owns two sources: what a VerticalPodAutoscaler recommends (read once per version into an Advice) and what a person or a
workload states in the annotation `elastipod.io/resources` (parsed strictly). What becomes of it is plan.py's matter.
"""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final

import msgspec
from msgspec import Struct

from elastipod.api import RESOURCES_ANNOTATION, Autoscaler, UpdateMode, resources
from elastipod.nodeclass import class_key, node_class, parted
from elastipod.optout import NOBODY, OptOut
from elastipod.pods import OWN_PREFIX, Container, Node
from elastipod.quantities import NOTHING, QuantityError, Resources, parse_cpu, stated_memory
from updater.boost import Boost, boosts_of

ASKED_ANNOTATION: Final = f"{OWN_PREFIX}resources-asked-at"
"""Beside the size: when a person asked for it with `elastipod resize`."""

_MOST_CPU: Final = 10_000_000
_MOST_MEMORY: Final = 2**50
_MOST_KEPT: Final = 2_048
"""A longer text is not worth a place in a cache."""


class BadSize(ValueError):
    """A stated size that can not be used; the message names the field and what to write."""


class Size(Struct, frozen=True, gc=False):
    """Requests and limits of one container; None where nothing is said."""

    requests: Resources = NOTHING
    limits: Resources = NOTHING

    def or_else(self, other: "Size") -> "Size":
        """This size, and the other's amounts where this says nothing."""
        return Size(self.requests.or_else(other.requests), self.limits.or_else(other.limits))


Sizes = Mapping[str, Size]
"""By container name."""


def size_of(container: Container) -> Size:
    """What the spec says."""
    return Size(container.requests, container.limits)


class ContainerAdvice(Struct, frozen=True, gc=False):
    """What a VerticalPodAutoscaler says of one container."""

    target: Resources
    lower: Resources
    upper: Resources
    min_allowed: Resources = NOTHING
    max_allowed: Resources = NOTHING
    moves_limits: bool = True
    """controlledValues RequestsAndLimits; False for RequestsOnly."""


class Advice(Struct, frozen=True, gc=False):
    """What a VerticalPodAutoscaler says of the pods of its target."""

    name: str
    mode: UpdateMode
    recommender: str
    containers: dict[str, ContainerAdvice] = {}
    min_replicas: int | None = None
    problems: tuple[str, ...] = ()
    """Fields that could not be understood; the containers they speak of are left alone."""
    boosts: Mapping[str, Boost | None] = {}
    """More CPU at the start, by the container's policy: its own, else `*`, else what holds for all, by no name."""
    by_class: Mapping[str, dict[str, ContainerAdvice]] = {}
    """By the key of a class of nodes, what it says of the containers of a pod there; of other pods `containers`."""

    def on_node(self, node: Node | None) -> "Advice":
        """What it says of a pod on a node; as it is where there is nothing for the node's class."""
        containers = self.by_class.get(class_key(node_class(node))) if self.by_class and node is not None else None
        return self if containers is None else msgspec.structs.replace(self, containers=containers)

    def without(self, out: OptOut) -> "Advice":
        """As it is for a pod that is not to be sized, or some of whose containers are not."""
        if out == NOBODY:
            return self
        if out.by:
            return msgspec.structs.replace(self, mode=UpdateMode.OFF)

        def left(found: Mapping[str, ContainerAdvice]) -> dict[str, ContainerAdvice]:
            return {name: one for name, one in found.items() if name not in out.containers}

        return msgspec.structs.replace(
            self,
            containers=left(self.containers),
            boosts={**self.boosts, **dict.fromkeys(out.containers)},
            by_class={key: left(found) for key, found in self.by_class.items()},
        )

    def boost(self, container: str) -> Boost | None:
        """What a container gets while its pod starts."""
        return next((self.boosts[name] for name in (container, "*", "") if name in self.boosts), None)


def advice_of(autoscaler: Autoscaler) -> Advice:
    """An autoscaler as the updater reads it. Never raises: what is wrong is named in `problems`."""
    problems: list[str] = []
    update = autoscaler.spec.update_policy
    try:
        mode = autoscaler.mode
    except ValueError:
        problems.append(f"spec.updatePolicy.updateMode is {update and update.update_mode!r}: nothing is done")
        mode = UpdateMode.OFF
    containers: dict[str, ContainerAdvice] = {}
    on_classes: dict[str, dict[str, ContainerAdvice]] = {}
    recommendation = autoscaler.status.recommendation if autoscaler.status else None
    is_current = (
        autoscaler.status is not None and autoscaler.status.observed_generation == autoscaler.metadata.generation
    )
    for found in (recommendation and recommendation.container_recommendations) or ():
        where = f"status.recommendation for container {found.container_name!r}"
        container, node_key = parted(found.container_name)
        policy = autoscaler.container_policy(container)
        if policy is not None and policy.mode == "Off":
            continue
        try:
            target = resources(found.target)
            lower, upper = resources(found.lower_bound), resources(found.upper_bound)
            where = f"spec.resourcePolicy.containerPolicies for container {found.container_name!r}"
            least = resources(policy.min_allowed) if policy else NOTHING
            most = resources(policy.max_allowed) if policy else NOTHING
            _check_positive(target, lower, upper, least, most)
            if is_current:
                # The minimum is in it already, unless the largest node or a LimitRange allows less.
                least = NOTHING
        except QuantityError as error:
            problems.append(f"{where}: {error}")
            continue
        controlled = policy.controlled_resources if policy else None
        if controlled is not None:
            target = _only(target, controlled)
        into = on_classes.setdefault(node_key, {}) if node_key else containers
        into[container] = ContainerAdvice(
            target,
            lower,
            upper,
            least,
            most,
            moves_limits=policy is None or policy.controlled_values != "RequestsOnly",
        )
    boosts = boosts_of(autoscaler, problems)
    return Advice(
        autoscaler.metadata.name,
        mode,
        autoscaler.recommender,
        containers,
        update.min_replicas if update else None,
        tuple(problems),
        boosts,
        {key: containers | of for key, of in on_classes.items()},
    )


def stated_sizes(text: str) -> Mapping[str, Size]:
    """The sizes in an `elastipod.io/resources` annotation, by container name.

    `{"app": {"requests": {"cpu": "500m", "memory": "1Gi"}, "limits": {...}}}`. Raises BadSize naming the field.
    """
    return _known_sizes(text) if len(text) <= _MOST_KEPT else _parsed_sizes(text)


def _parsed_sizes(text: str) -> Mapping[str, Size]:
    try:
        found = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise BadSize(f"{RESOURCES_ANNOTATION} is not JSON: {error}") from None
    if not isinstance(found, dict) or not found:
        raise BadSize(f'{RESOURCES_ANNOTATION} must be an object: {{"container": {{"requests": {{"cpu": "500m"}}}}}}')
    return {name: _stated(name, size) for name, size in found.items()}


_known_sizes: Final = lru_cache(maxsize=4096)(_parsed_sizes)


def _stated(name: str, found: Any) -> Size:
    where = f"{RESOURCES_ANNOTATION}.{name[:63]}"
    if not isinstance(found, dict) or not found:
        raise BadSize(f"{where} must be an object with requests, limits or both")
    for key in found:
        if key not in ("requests", "limits"):
            raise BadSize(f"{where}.{key[:63]} is not known: write requests or limits")
    size = Size(
        _amounts(f"{where}.requests", found.get("requests", {})), _amounts(f"{where}.limits", found.get("limits", {}))
    )
    if size.requests.is_empty and size.limits.is_empty:
        raise BadSize(f"{where} states no amount: write cpu, memory or both")
    for resource, request, limit in (
        ("cpu", size.requests.cpu_millicores, size.limits.cpu_millicores),
        ("memory", size.requests.memory_bytes, size.limits.memory_bytes),
    ):
        if request is not None and limit is not None and request > limit:
            raise BadSize(f"{where}.requests.{resource} is above {where}.limits.{resource}")
    return size


def _amounts(where: str, found: Any) -> Resources:
    if not isinstance(found, dict):
        raise BadSize(f'{where} must be an object such as {{"cpu": "500m", "memory": "1Gi"}}')
    for key in found:
        if key not in ("cpu", "memory"):
            raise BadSize(f"{where}.{key[:63]} can not be resized: only cpu and memory can")
    cpu = _amount(f"{where}.cpu", found["cpu"], parse_cpu, _MOST_CPU) if "cpu" in found else None
    memory = _amount(f"{where}.memory", found["memory"], stated_memory, _MOST_MEMORY) if "memory" in found else None
    return Resources(cpu, memory)


def _amount(where: str, text: Any, parse: Any, most: int) -> int:
    if isinstance(text, bool) or not isinstance(text, str | int | float):
        raise BadSize(f"{where} must be a quantity such as 500m or 1Gi")
    try:
        amount: int = parse(str(text))
    except QuantityError as error:
        raise BadSize(f"{where}: {error}") from None
    if not 0 < amount <= most:
        raise BadSize(f"{where} is {str(text)[:40]}: it must be above 0 and not absurd")
    return amount


def _check_positive(*amounts: Resources) -> None:
    for one in amounts:
        if one.cpu < 0 or one.memory < 0:
            raise QuantityError("a negative amount")


def _only(amounts: Resources, controlled: list[str]) -> Resources:
    return Resources(
        amounts.cpu_millicores if "cpu" in controlled else None,
        amounts.memory_bytes if "memory" in controlled else None,
    )
