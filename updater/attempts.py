"""When to ask again for a resize that did not happen, and when to stop asking.

Owns one attempt per pod as a state machine: events in, instructions out. Sends nothing, and does not read the clock.

    Wanted -> Reserved -> Requested -> (Deferred | InProgress | Infeasible | Refused) -> Done | Abandoned
"""

import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import assert_never

from msgspec.structs import replace

from elastipod.backoff import Backoff
from elastipod.pods import Pod, ResizeProgress
from elastipod.reasons import Reason
from updater.answers import Answers
from updater.attempt import (
    Accepted,
    Attempt,
    Event,
    Failed,
    Found,
    Gone,
    Instruction,
    LookAgainAt,
    PlanAgain,
    PutBack,
    RoomFreed,
    RulesChanged,
    Seen,
    Send,
    State,
    Tell,
    TimeCame,
    Wanted,
)
from updater.facts import Urgency
from updater.patches import is_in_force
from updater.plan import Resize
from updater.sizes import size_of


@dataclass(frozen=True, slots=True)
class Patience:
    """How long each state may last."""

    retry: Backoff = field(default_factory=lambda: Backoff(5.0, 300.0, jitter=0.2))
    deferred_seconds: float = 600.0
    in_progress_seconds: float = 3600.0
    infeasible_seconds: float = 21_600.0
    stand_off_seconds: float = 1800.0
    most_per_minute: int = 2
    unseen_seconds: float = 120.0
    """A kubelet that has not looked at a request after this long is thought to be away."""


class ResizeAttempts:
    """All attempts, by pod key."""

    def __init__(self, patience: Patience | None = None, spread: random.Random | None = None) -> None:
        self._patience = patience or Patience()
        self._spread = spread or random.Random(0)
        self._attempts: dict[str, Attempt] = {}
        self._unfinished: dict[str, Attempt] = {}
        self._short_of_room: dict[str, Attempt] = {}
        self.answers = Answers(self._patience.most_per_minute)

    def get(self, key: str) -> Attempt | None:
        """How the pod's resize stands."""
        return self._attempts.get(key)

    def unfinished(self) -> Mapping[str, Attempt]:
        """Every attempt that is not done, by pod key."""
        return self._unfinished

    def short_of_room(self) -> Mapping[str, Attempt]:
        """Every attempt that its node has no room for, by our own view or the kubelet's."""
        return self._short_of_room

    def is_on_the_way(self, key: str) -> bool:
        """Whether a step was taken and its goal is not reached yet."""
        attempt = self._attempts.get(key)
        return attempt is not None and attempt.state is State.DONE and not attempt.resize.is_last_step

    def handle(self, event: Event, now: float) -> list[Instruction]:
        """What is to be done after an event."""
        match event:
            case Wanted():
                found = self._wanted(event, now)
            case Accepted():
                found = self._accepted(event, now)
            case Failed():
                found = self._failed(event, now)
            case Seen(pod):
                found = self._seen(pod, now)
            case Found(pod):
                found = self._found(pod, now)
            case Gone(key, uid):
                found = self._gone(key, uid)
            case RoomFreed():
                found = self._room_freed(event)
            case RulesChanged(namespace):
                found = self._rules_changed(namespace)
            case TimeCame(key):
                found = self._time_came(key, now)
            case _:
                assert_never(event)
        return found

    def no_longer_wanted(self, key: str) -> None:
        """The plan has nothing to ask of this pod any more; an attempt that waits is over."""
        attempt = self._attempts.get(key)
        if attempt is not None and attempt.state in (State.WANTED, State.REFUSED, State.INFEASIBLE, State.ABANDONED):
            self._drop(key)

    def _wanted(self, event: Wanted, now: float) -> list[Instruction]:
        resize, key = event.resize, event.resize.key
        old = self._attempts.get(key)
        if old is not None and old.uid != resize.uid:
            self._gone(key, old.uid)
            old = None
        if old is not None and _is_busy(old, resize):
            return []
        attempt = _fresh(event, old, now)
        against = self.answers.against(resize, event.node, now)
        if against is not None:
            until, why = against
            state = State.INFEASIBLE if why is Reason.INFEASIBLE else State.REFUSED
            message = old.message if old is not None else ""
            return self._wait(attempt, state, why, now, until, message)
        if event.refusal is not None:
            state = State.INFEASIBLE if event.refusal is Reason.INFEASIBLE else State.REFUSED
            return self._wait(attempt, state, event.refusal, now, None, event.message)
        if not event.fits:
            return self._wait(attempt, State.WANTED, Reason.NO_ROOM, now, None, event.message)
        pause = self.answers.pause_until(key, now)
        if pause is not None:
            return self._wait(attempt, State.WANTED, Reason.COOLING_DOWN, now, pause)
        self._put(attempt, State.RESERVED, resize.reason, now)
        return [Send(key)]

    def _accepted(self, event: Accepted, now: float) -> list[Instruction]:
        self.answers.sent(event.key, event.uid, event.sizes, now)
        attempt = self._attempts.get(event.key)
        if attempt is None or attempt.uid != event.uid or attempt.state is not State.RESERVED:
            return []
        at = now + self._patience.unseen_seconds
        self._put(attempt, State.REQUESTED, attempt.resize.reason, now, next_at=at, generation=event.generation)
        return [LookAgainAt(event.key, at)]

    def _failed(self, event: Failed, now: float) -> list[Instruction]:
        attempt = self._attempts.get(event.key)
        if attempt is None or attempt.state is not State.RESERVED:
            return []
        if event.reason is Reason.INFEASIBLE:
            return self._infeasible_now(attempt, event.message, now)
        if event.is_conflict and attempt.tries < 5:
            self._put(attempt, State.WANTED, event.reason, now, message=event.message, tries=attempt.tries + 1)
            return [PlanAgain(event.key)]
        if event.reason is Reason.UNREACHABLE:
            self.answers.unanswered(attempt.resize)
        tries = attempt.tries + 1
        until = now + self._patience.retry.delay_seconds(tries, self._spread)
        if event.retry_after_seconds is not None:
            until = now + event.retry_after_seconds * (1 + 0.1 * self._spread.random())
        if event.is_permanent:
            until = now + self._patience.stand_off_seconds
            self.answers.refused(attempt.resize, event.reason, until)
        else:
            self.answers.hold_back(event.key, until, event.reason)
        self._put(attempt, State.REFUSED, event.reason, now, message=event.message, tries=tries, next_at=until)
        return [Tell(event.key, event.reason, event.message), LookAgainAt(event.key, until)]

    def _seen(self, pod: Pod, now: float) -> list[Instruction]:
        self.answers.settle(pod, now)
        attempt = self._attempts.get(pod.key)
        if attempt is not None and (pod.generation < attempt.generation or attempt.state is State.RESERVED):
            return []
        changed, is_raise = self.answers.change_by_another(pod)
        if changed:
            return self._overridden(pod, now, is_raise=is_raise)
        if attempt is None or attempt.uid != pod.uid:
            return []
        if attempt.state not in (State.REQUESTED, State.DEFERRED, State.IN_PROGRESS):
            return []
        return self._progressed(attempt, pod, now)

    def _found(self, pod: Pod, now: float) -> list[Instruction]:
        condition = pod.resize_pending or pod.resize_in_progress
        known = self._attempts.get(pod.key)
        if condition is None or (known is not None and not known.gives_way):
            return []
        sizes = {one.name: size_of(one) for one in pod.sized_containers}
        resize = Resize(pod.key, pod.uid, sizes, sizes, Reason.OUTSIDE_BOUNDS, Urgency.SAVING)
        since = condition.since or now
        attempt = Attempt(pod.key, pod.uid, pod.node_name, State.REQUESTED, resize, since, since, resize.reason)
        self._put(attempt, State.REQUESTED, resize.reason, since, generation=condition.observed_generation)
        return self._seen(pod, now)

    def _overridden(self, pod: Pod, now: float, *, is_raise: bool) -> list[Instruction]:
        # Memory raised on a spike is no quarrel: it is left alone for a short while only.
        seconds = min(self._patience.stand_off_seconds, 300.0) if is_raise else self._patience.stand_off_seconds
        self.answers.stand_off(pod.key, now + seconds)
        self._drop(pod.key)
        what = "memory was raised by another actor" if is_raise else "another actor changed the pod's resources"
        return [Tell(pod.key, Reason.OVERRIDDEN, what), PlanAgain(pod.key)]

    def _progressed(self, attempt: Attempt, pod: Pod, now: float) -> list[Instruction]:
        pending, progress = pod.resize_pending, pod.resize_in_progress
        if pending is not None and (
            not pending.observed_generation or pending.observed_generation >= attempt.generation
        ):
            if pod.resize_progress is ResizeProgress.INFEASIBLE:
                return self._infeasible_now(attempt, pending.message, now)
            return self._enter(attempt, State.DEFERRED, Reason.DEFERRED, pending.message, now)
        if progress is not None and progress.reason == "Error":
            return self._enter(attempt, State.IN_PROGRESS, Reason.RESIZE_ERROR, progress.message, now)
        if progress is not None and not is_in_force(pod, attempt.resize.sizes):
            return self._enter(attempt, State.IN_PROGRESS, Reason.IN_PROGRESS, progress.message, now)
        # A kubelet that tracks generations has looked; of an older one only the values tell.
        if pod.observed_generation:
            has_looked = pod.observed_generation >= attempt.generation
        else:
            has_looked = is_in_force(pod, attempt.resize.sizes)
        return self._done(attempt, now) if has_looked else []

    def _enter(self, attempt: Attempt, state: State, reason: Reason, message: str, now: float) -> list[Instruction]:
        if attempt.state is state and attempt.reason is reason:
            return []
        since = attempt.since if attempt.state is State.REQUESTED and attempt.tries == 0 else now
        is_slow = reason is Reason.IN_PROGRESS
        at = since + (self._patience.in_progress_seconds if is_slow else self._patience.deferred_seconds)
        self._put(attempt, state, reason, since, message=message, next_at=at)
        return [Tell(attempt.key, reason, message), LookAgainAt(attempt.key, at)]

    def _done(self, attempt: Attempt, now: float) -> list[Instruction]:
        self._put(attempt, State.DONE, Reason.DONE, now, tries=0)
        is_straight = attempt.reason is attempt.resize.reason
        message = "" if is_straight else f"was {attempt.reason.value} for {now - attempt.since:.0f} s"
        # What was wanted meanwhile, or the next step, is decided now.
        return [Tell(attempt.key, Reason.DONE, message), PlanAgain(attempt.key)]

    def _infeasible_now(self, attempt: Attempt, message: str, now: float) -> list[Instruction]:
        until = now + self._patience.infeasible_seconds
        self.answers.infeasible(attempt.resize, attempt.node, until)
        self._put(attempt, State.INFEASIBLE, Reason.INFEASIBLE, now, message=message, next_at=until)
        return [Tell(attempt.key, Reason.INFEASIBLE, message), PutBack(attempt.key), LookAgainAt(attempt.key, until)]

    def _gone(self, key: str, uid: str) -> list[Instruction]:
        self._drop(key)
        self.answers.forget(key, uid)
        return []

    def _room_freed(self, event: RoomFreed) -> list[Instruction]:
        if event.node_grew:
            self.answers.node_grew(event.node)
        waiting = [
            one
            for one in self._unfinished.values()
            if one.node == event.node
            and one.key != event.by
            and (one.waits_for_room or (event.node_grew and one.state is State.INFEASIBLE))
        ]
        for one in waiting:
            self.answers.room_freed(one.key)
        return [PlanAgain(one.key) for one in sorted(waiting, key=lambda one: (one.first_at, one.key))]

    def _rules_changed(self, namespace: str) -> list[Instruction]:
        prefix = f"{namespace}/"
        refused = [one for one in self._attempts.values() if one.key.startswith(prefix) and one.state is State.REFUSED]
        for one in refused:
            self.answers.rules_changed(one.uid, one.key)
        return [PlanAgain(one.key) for one in refused]

    def _time_came(self, key: str, now: float) -> list[Instruction]:
        attempt = self._attempts.get(key)
        if attempt is None or attempt.next_at is None:
            return [PlanAgain(key)]
        if now < attempt.next_at:
            return [PlanAgain(key)] if not attempt.is_under_way else []
        if attempt.state is State.REQUESTED:
            at = now + self._patience.unseen_seconds
            self._put(attempt, State.REQUESTED, Reason.TIMED_OUT, attempt.since, next_at=at)
            return [Tell(key, Reason.TIMED_OUT, "the kubelet has not looked at the request"), LookAgainAt(key, at)]
        if attempt.state in (State.DEFERRED, State.IN_PROGRESS):
            return self._give_up(attempt, now)
        return [PlanAgain(key)]

    def _give_up(self, attempt: Attempt, now: float) -> list[Instruction]:
        tries = attempt.tries + 1
        at = now + self._patience.retry.delay_seconds(tries + 3, self._spread)
        # One that was deferred still waits: freed room brings it back before its time.
        reason = Reason.DEFERRED if attempt.state is State.DEFERRED else Reason.TIMED_OUT
        message = "; ".join(part for part in (f"given up after {now - attempt.since:.0f} s", attempt.message) if part)
        self.answers.hold_back(attempt.key, at, reason)
        self._put(attempt, State.ABANDONED, reason, now, message=message, tries=tries, next_at=at)
        return [Tell(attempt.key, Reason.TIMED_OUT, message), PutBack(attempt.key), LookAgainAt(attempt.key, at)]

    def _wait(
        self, attempt: Attempt, state: State, reason: Reason, now: float, until: float | None, message: str = ""
    ) -> list[Instruction]:
        """Wait for an event, and for an instant besides: the stated one, or the next of this attempt's own pace."""
        old = self._attempts.get(attempt.key)
        same = old if old is not None and old.state is state and old.reason is reason else None
        tries = attempt.tries
        if until is None and same is not None and same.next_at is not None and now < same.next_at:
            until = same.next_at
        elif until is None:
            tries += 1
            until = now + self._patience.retry.delay_seconds(tries, self._spread)
        self._put(attempt, state, reason, same.since if same else now, message=message, tries=tries, next_at=until)
        told = [] if same else [Tell(attempt.key, reason, message)]
        return [*told, LookAgainAt(attempt.key, until)]

    def _drop(self, key: str) -> None:
        self._attempts.pop(key, None)
        self._unfinished.pop(key, None)
        self._short_of_room.pop(key, None)

    def _put(
        self,
        attempt: Attempt,
        state: State,
        reason: Reason,
        since: float,
        *,
        message: str = "",
        tries: int | None = None,
        next_at: float | None = None,
        generation: int | None = None,
    ) -> None:
        new = replace(
            attempt,
            state=state,
            reason=reason,
            since=since,
            message=message,
            tries=attempt.tries if tries is None else tries,
            next_at=next_at,
            generation=attempt.generation if generation is None else generation,
        )
        self._attempts[new.key] = new
        self._unfinished.pop(new.key, None)
        self._short_of_room.pop(new.key, None)
        if state is not State.DONE:
            self._unfinished[new.key] = new
        if reason is Reason.NO_ROOM or state is State.DEFERRED:
            self._short_of_room[new.key] = new


def _is_busy(old: Attempt, resize: Resize) -> bool:
    """Whether the newer wish has to wait for the answer to the older one, or is the same."""
    if old.awaits_answer:
        return True
    if old.state is State.IN_PROGRESS and old.reason is Reason.IN_PROGRESS:
        return resize.urgency is not Urgency.KILLED or old.resize.sizes == resize.sizes
    return old.is_under_way and old.resize.sizes == resize.sizes


def _fresh(event: Wanted, old: Attempt | None, now: float) -> Attempt:
    """An attempt for a wish; it goes on with the older one's pace where the goal is the same."""
    resize = event.resize
    goes_on = old is not None and old.state is not State.DONE and old.resize.goal == resize.goal
    return Attempt(
        resize.key,
        resize.uid,
        event.node,
        State.WANTED,
        resize,
        since=now,
        first_at=old.first_at if old is not None and goes_on else now,
        reason=resize.reason,
        tries=old.tries if old is not None and goes_on else 0,
        generation=event.generation,
    )
