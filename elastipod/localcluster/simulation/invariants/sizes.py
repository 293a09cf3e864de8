"""Sizes that are allowed, fit, and are not taken from what is in use."""

import re
from collections.abc import Iterable
from typing import Final

from elastipod.kube.podrows import decode_pod
from elastipod.kube.resources import PODS
from elastipod.kube.rows import decode_limit_range, decode_quota
from elastipod.localcluster.api.kinds import LIMIT_RANGE, POD, RESOURCE_QUOTA
from elastipod.localcluster.simulation.invariants import OURS, CgroupWrite, Invariant, Violation, World
from elastipod.localcluster.simulation.trace import Write
from elastipod.pods import Container, Pod
from elastipod.quantities import Resources

_MARGIN: Final = 1.1
_FRESH_SECONDS: Final = 15.0
_KIBI: Final = 1024
_POD_GROUP: Final = re.compile(
    r"kubepods(\.slice)?(/[a-z-]+(\.slice)?)?/[a-z-]*pod[0-9a-f]{8}([-_][0-9a-f]{4}){3}[-_][0-9a-f]{12}(\.slice)?(/[\w.:-]+)?",
    re.ASCII,
)


def pods_of(write: Write) -> tuple[Pod | None, Pod] | None:
    """The pod before and after an accepted write to it; None for anything else."""
    if not write.is_accepted or write.call.resource is not PODS or write.after is None:
        return None
    return (None if write.before is None else decode_pod(write.before.raw)), decode_pod(write.after.raw)


class SizesAreAllowed(Invariant):
    """I1: request <= limit, the QoS class stays, LimitRange and quota hold."""

    name = "I1"

    def after_write(self, world: World, write: Write, /) -> Iterable[Violation]:
        pods = None if write.call.subresource == "status" else pods_of(write)
        if pods is None:
            return
        before, after = pods
        if before is not None and before.uid == after.uid and before.qos_class is not after.qos_class:
            yield self.broken(world, after.key, f"QoS class was {before.qos_class}, is {after.qos_class}")
        for container in after.containers:
            for resource, request, limit in _pairs(container):
                if request is not None and limit is not None and request > limit:
                    yield self.broken(
                        world, f"{after.key}/{container.name}", f"{resource} request {request} > limit {limit}"
                    )
        if write.call.subresource == "resize":
            yield from self._limit_ranges(world, after)
            yield from self._quotas(world, after)

    def _limit_ranges(self, world: World, pod: Pod) -> Iterable[Violation]:
        for entry in world.store.of_kind(LIMIT_RANGE, pod.namespace):
            for item in decode_limit_range(entry.raw).items:
                if item.type != "Container":
                    continue
                for container in pod.sized_containers:
                    thing = f"{pod.key}/{container.name}"
                    if _exceeds(container.limits, item.max) or _exceeds(container.requests, item.max):
                        yield self.broken(world, thing, f"{container.limits} is over the LimitRange's {item.max}")
                    if _exceeds(item.min, container.requests):
                        yield self.broken(world, thing, f"{container.requests} is under the LimitRange's {item.min}")

    def _quotas(self, world: World, pod: Pod) -> Iterable[Violation]:
        quotas = [decode_quota(entry.raw) for entry in world.store.of_kind(RESOURCE_QUOTA, pod.namespace)]
        if not quotas:
            return
        pods = [decode_pod(entry.raw) for entry in world.store.of_kind(POD, pod.namespace)]
        containers = [one for pod in pods if not pod.is_terminal for one in pod.sized_containers]
        used = {
            "requests.cpu": sum(one.requests.cpu for one in containers),
            "requests.memory": sum(one.requests.memory for one in containers),
            "limits.cpu": sum(one.limits.cpu for one in containers),
            "limits.memory": sum(one.limits.memory for one in containers),
        }
        for quota in quotas:
            for key, hard in quota.hard.items():
                if used.get(key, 0) > hard:
                    yield self.broken(world, f"{pod.namespace}/{quota.name}", f"{key} {used[key]} > {hard}")


class NodesHold(Invariant):
    """I2: the sum of what is allocated is no more than a node has, and is stored before it takes effect."""

    name = "I2"

    def __init__(self) -> None:
        self._due: set[str] = set()

    def after_write(self, _world: World, write: Write, /) -> Iterable[Violation]:
        # A node allocates before it says so, and says so by a status.
        if write.call.resource is PODS and write.after is not None:
            self._due.add(write.after.json["spec"].get("nodeName", ""))
        return ()

    def at_pause(self, world: World, /) -> Iterable[Violation]:
        if not self._due:
            return
        due, self._due = self._due, set()
        for node in world.nodes(due):
            if node.allocated.cpu > node.allocatable.cpu or node.allocated.memory > node.allocatable.memory:
                yield self.broken(world, node.name, f"allocated {node.allocated} > allocatable {node.allocatable}")
            for container in node.unstored:
                yield self.broken(world, container, f"runs at a size that {node.name} has not stored")


class UsedMemoryStays(Invariant):
    """I3: no memory limit is lowered below what was in use all of the last 15 s, and a tenth more."""

    name = "I3"

    def after_write(self, world: World, write: Write, /) -> Iterable[Violation]:
        if write.part not in OURS or write.call.subresource != "resize":
            return
        before, after = pods_of(write) or (None, None)
        if before is None or after is None:
            return
        for container in after.sized_containers:
            old = before.container(container.name)
            limit = container.limits.memory_bytes
            if old is None or limit is None or limit >= (old.limits.memory_bytes or 2**63):
                continue
            used = world.lowest_memory(after.uid, container.name, _FRESH_SECONDS)
            # Usage is told in whole KiB.
            if used is not None and limit < (used - _KIBI) * _MARGIN and _is_lowered_below_allocated(old, limit):
                yield self.broken(world, f"{after.key}/{container.name}", f"memory limit {limit} < {_MARGIN} x {used}")


class CgroupsOfPodsOnly(Invariant):
    """I13: cgroup files are written within pods' groups and nowhere else."""

    name = "I13"

    def after_cgroup_write(self, world: World, write: CgroupWrite, /) -> Iterable[Violation]:
        if not _POD_GROUP.fullmatch(write.group.strip("/")):
            yield self.broken(world, write.group or "/", f"{write.actor} wrote {write.value} to {write.file}")


def _is_lowered_below_allocated(old: Container, limit: int) -> bool:
    """Putting a spec back to what the container has takes nothing from it."""
    in_force = None if old.actual_limits is None else old.actual_limits.memory_bytes
    return in_force is None or limit < in_force


def _pairs(container: Container) -> Iterable[tuple[str, int | None, int | None]]:
    yield "cpu", container.requests.cpu_millicores, container.limits.cpu_millicores
    yield "memory", container.requests.memory_bytes, container.limits.memory_bytes


def _exceeds(amount: Resources, most: Resources) -> bool:
    return any(
        have is not None and allowed is not None and have > allowed
        for have, allowed in (
            (amount.cpu_millicores, most.cpu_millicores),
            (amount.memory_bytes, most.memory_bytes),
        )
    )
