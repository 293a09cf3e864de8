"""What may not go on for too long, too often, or on too little knowledge."""

from collections import defaultdict, deque
from collections.abc import Iterable
from typing import Any, Final

from elastipod.kube.resources import AUTOSCALERS, PODS
from elastipod.localcluster.simulation.invariants import OURS, Invariant, Violation, World
from elastipod.localcluster.simulation.trace import Write
from elastipod.quantities import parse_cpu, parse_memory

_MOST_HELD_SECONDS: Final = 5.5
_MINUTE: Final = 60.0
_MOST_LATE_SECONDS: Final = 15.0
"""A write that was given up may land as late as this, and the next one follows the time it was sent."""
_LIVES: Final = 4
_RESCUE: Final = "rescue"
_SETTLING_SECONDS: Final = 75.0


class HoldsEnd(Invariant):
    """I4: nothing is held longer than its deadline and half a second."""

    name = "I4"

    def at_pause(self, world: World, /) -> Iterable[Violation]:
        for hold in world.holds():
            seconds = (world.now() if hold.ended_at is None else hold.ended_at) - hold.since
            if seconds > _MOST_HELD_SECONDS:
                yield self.broken(world, hold.container, f"held for {seconds:.2f} s")


class NothingShrinksUnseen(Invariant):
    """I7: while no usage is to be had, no target is lowered."""

    name = "I7"

    def after_write(self, world: World, write: Write, /) -> Iterable[Violation]:
        if write.part not in OURS or write.call.resource is not AUTOSCALERS or not write.is_accepted:
            return
        if write.before is None or write.after is None:
            return
        since = world.metrics_lost_since(write.after.namespace)
        if since is None or world.now() - since < _SETTLING_SECONDS:
            return
        before, after = _targets(write.before.json), _targets(write.after.json)
        for key, amount in before.items():
            if after.get(key, amount) < amount:
                lost = world.now() - since
                told = f"{key[1]} target {amount} was lowered to {after[key]}, {lost:.0f} s after the last sample"
                yield self.broken(world, f"{write.after.namespace}/{write.after.name}/{key[0]}", told)


class NothingRunsAway(Invariant):
    """I10: an object gets at most one status a minute and two resizes from a process, and refusals are not insisted on.

    A changed wish may be answered at once. A process that starts anew does not know what was written a moment before,
    so all lives of a part together may write some more.
    """

    name = "I10"

    def __init__(self, *, statuses: int = 1, resizes: int = 2, rescues: int = 4, refusals: int = 12) -> None:
        """`rescues` are resizes by the actuator: a spike is met with up to three raises and put right once."""
        self._most = {"status": statuses, "resize": resizes, _RESCUE: rescues, "refusal": refusals}
        self._recent: dict[tuple[str, ...], deque[float]] = defaultdict(deque)

    def after_write(self, world: World, write: Write, /) -> Iterable[Violation]:
        what = _counted(write)
        if not what:
            return
        thing = f"{write.call.resource.plural} {write.call.namespace}/{write.call.name}"
        wish = str(write.after.json["metadata"].get("generation")) if what == "status" and write.after else ""
        for who, times in ((write.actor, 1), (write.part, _LIVES)):
            recent = self._recent[who, what, thing, wish]
            recent.append(write.at)
            while recent[0] <= write.at - _MINUTE + _MOST_LATE_SECONDS:
                recent.popleft()
            if len(recent) > self._most[_RESCUE if what == "resize" and write.part == "actuator" else what] * times:
                yield self.broken(world, thing, f"{who} made {len(recent)} x {what} within a minute")


def _counted(write: Write) -> str:
    """What a write counts as; one that was refused, or changed nothing, was insisted on."""
    if write.part not in OURS or write.call.dry_run:
        return ""
    changed = write.is_accepted and write.before is not None and write.before is not write.after
    if write.call.resource is PODS and write.call.subresource == "resize":
        return "resize" if changed else "refusal"
    if write.call.resource is AUTOSCALERS:
        return "status" if changed else "refusal"
    return ""


def _targets(autoscaler: dict[str, Any]) -> dict[tuple[str, str], int]:
    """Uncapped targets by container and resource: what a person caps is not the recommender's doing."""
    found = {}
    recommendation = (autoscaler.get("status") or {}).get("recommendation") or {}
    for one in recommendation.get("containerRecommendations") or ():
        for resource, parse in (("cpu", parse_cpu), ("memory", parse_memory)):
            text = (one.get("uncappedTarget") or {}).get(resource)
            if text is not None:
                found[one["containerName"], resource] = parse(str(text))
    return found
