"""The updater: reads the cluster, decides, asks for resizes.

Owns the order of a run and the ways between the decisions. A run costs what changed: the pods that a change concerns
are decided about anew, and nothing else.
"""

import asyncio
import heapq
import random
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Final

from elastipod.clock import Clock
from elastipod.kube.connection import Connection
from elastipod.pods import Pod, ResizeProgress
from elastipod.policy import Ceiling
from elastipod.quantities import format_cpu, show_memory
from elastipod.reasons import Reason
from elastipod.telemetry import Metrics, get_logger
from updater.attempt import (
    Event,
    Failed,
    Found,
    Gone,
    Instruction,
    LookAgainAt,
    PlanAgain,
    PutBack,
    Send,
    State,
    Tell,
    TimeCame,
    Wanted,
)
from updater.attempts import ResizeAttempts
from updater.budget import DisruptionBudget, Replicas
from updater.events import Teller
from updater.explaining import explain_pod
from updater.fleet import Fleet
from updater.giving import Giving, Need
from updater.grants import Grant
from updater.ledger import fits
from updater.plan import Decision, Resize, decide, decide_for, in_order, restarts
from updater.precheck import growth, obstacle, quota_need
from updater.sender import Sender
from updater.settings import UpdaterSettings
from updater.tuning import donor_rules, patience, plan_rules
from updater.usage import UsageBook
from updater.watching import Watching
from updater.wishes import Facts

log = get_logger(__name__)

_LOOK_SECONDS: Final = 5.0
"""How often donors and those who wait for room are looked at."""
_ANSWER_SECONDS: Final = 1.0
"""How long a run waits for answers; slower ones come in beside later runs."""
_PUT_BACK_AGAIN_SECONDS: Final = 10.0
_TOLD: Final = frozenset(
    {
        *(Reason.BAD_VALUE, Reason.CONFLICT, Reason.LIMIT_RANGE, Reason.QOS_CLASS),
        *(Reason.BEST_EFFORT, Reason.UNSUPPORTED_POD, Reason.UNSUPPORTED_NODE),
    }
)
"""Why a pod is never asked for that a person can mend."""


class Updater:
    """A part of elastipod: `watch` keeps the view fresh, `run_once` acts on what changed since the last run."""

    name = "updater"

    def __init__(
        self,
        connection: Connection,
        clock: Clock,
        settings: UpdaterSettings | None = None,
        metrics: Metrics | None = None,
        spread: random.Random | None = None,
    ) -> None:
        self.settings = settings or UpdaterSettings()
        self.interval_seconds = self.settings.interval_seconds
        self.wake = asyncio.Event()
        self.fleet = Fleet(self.settings.recommender_names, self.settings.namespaces_off)
        self.attempts = ResizeAttempts(patience(self.settings), spread)
        self.decisions: dict[str, Decision] = {}
        self._clock = clock
        self._rules = plan_rules(self.settings)
        self._usage = UsageBook(connection, clock, self.settings.peak_window_seconds)
        self.giving = Giving(
            self.fleet, self._usage, donor_rules(self.settings), Ceiling(may_donate=self.settings.donate)
        )
        self._teller = Teller(connection, clock)
        self._sender = Sender(connection, clock, self._teller, self.fleet.pods.get, self.settings.most_requests_at_once)
        self.watching = Watching(connection, clock, self.fleet, self.handle, self.wake.set)
        self._budget = DisruptionBudget(self.settings.disruption_fraction)
        self._timers: list[tuple[float, str]] = []
        self._put_back: dict[str, tuple[str, float]] = {}
        self._restarting: dict[str, str] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._looked_at = float("-inf")
        self._has_recovered = False
        metrics = metrics or Metrics()
        self._outcomes = metrics.counter("resizes", "Resize attempts by what became of them", "outcome")
        self._waiting = metrics.gauge("resizes_waiting", "Resizes that wait, by reason", "reason")

    # What happens.

    async def watch(self) -> None:
        """Keep the view fresh, for ever."""
        try:
            await self.watching.run()
        finally:
            self.stop()

    def stop(self) -> None:
        """Drop requests that have no answer yet; what became of them shows in the cluster."""
        for task in self._tasks:
            task.cancel()

    def handle(self, event: Event) -> None:
        """Something happened to a pod, a node or a rule."""
        if isinstance(event, Gone):
            self._forget(event.key, event.uid)
        for instruction in self.attempts.handle(event, self._clock.now()):
            self._follow(instruction)
        self.wake.set()

    def _follow(self, instruction: Instruction) -> None:
        match instruction:
            case PlanAgain(key):
                if key in self.fleet.pods:
                    self.fleet.dirty.add(key)
                    self.wake.set()
            case LookAgainAt(key, at):
                heapq.heappush(self._timers, (at, key))
            case PutBack(key):
                pod = self.fleet.pods.get(key)
                if pod is not None:
                    self._put_back[key] = (pod.uid, 0.0)
                    self.wake.set()
            case Tell(key, reason, message):
                self._tell(key, reason, message)
            case Send():
                pass

    def _tell(self, key: str, reason: Reason, message: str) -> None:
        self._outcomes.labels(outcome=reason.value).inc()
        log.info("resize", pod=key, outcome=reason.value, message=message)
        attempt = self.attempts.get(key)
        if attempt is None or not attempt.is_under_way:
            self._restarting.pop(key, None)
        if reason is Reason.DONE:
            if attempt is not None and attempt.resize.is_last_step and self.giving.wish(key) is not None:
                self.giving.settled(key)
            return
        pod = self.fleet.pods.get(key)
        if pod is not None and reason is not Reason.COOLING_DOWN:
            self._start(self._teller.tell, pod, reason, message)

    def _forget(self, key: str, uid: str) -> None:
        self.fleet.ledger.grants.void(uid)
        self.decisions.pop(key, None)
        self._put_back.pop(key, None)
        self._restarting.pop(key, None)
        self.giving.forget(key)
        self._usage.forget(key)
        self._teller.forget(uid)

    # A run.

    async def run_once(self) -> None:
        """Decide about what changed, and act."""
        if not self.watching.is_ready() or self.watching.age_seconds() > self.settings.stale_seconds:
            return
        await self.act()

    async def act(self) -> None:
        """Decide and act on what is known, whether or not it comes from the reflectors."""
        now = self._clock.now()
        self._time_comes(now)
        if now - self._looked_at >= _LOOK_SECONDS:
            self._looked_at = now
            self._count_waiting()
            await self._look_at_donors()
        unsure = self.ask_for(self.plan(now), now)
        if unsure:
            await self._usage.refresh(unsure)
            self.fleet.dirty.update(unsure & self.fleet.pods.keys())
            self.ask_for(self.plan(now), now)
        await self._help_the_waiting(now)
        if self.fleet.dirty:
            # Donors whose wishes were set just now.
            self.ask_for(self.plan(now), now)
        self._put_specs_back()
        if self._tasks:
            await asyncio.wait(set(self._tasks), timeout=_ANSWER_SECONDS)

    def plan(self, now: float) -> list[Decision]:
        """Decide anew about all pods that a change concerns; those that want a resize, in order."""
        dirty, self.fleet.dirty = self.fleet.dirty, set()
        wanting: dict[str, Decision] = {}
        for key in dirty:
            pod = self.fleet.pods.get(key)
            if pod is None:
                continue
            decision = self._decide(key, pod, now)
            before = self.decisions.get(key)
            self.decisions[key] = decision
            if decision.reason in _TOLD and (before is None or not before.says_the_same(decision)):
                self._tell(key, decision.reason, decision.message)
            if decision.look_again_at is not None:
                heapq.heappush(self._timers, (decision.look_again_at, key))
            if decision.resize is not None or decision.needs_usage:
                wanting[key] = decision
            elif pod.resize_pending is None and key not in self._put_back:
                self.attempts.no_longer_wanted(key)
        order = in_order(
            (one.resize for one in wanting.values() if one.resize is not None),
            {key: self.fleet.pods[key].priority for key in wanting},
        )
        first = [wanting.pop(resize.key) for resize in order]
        return first + [wanting[key] for key in sorted(wanting)]

    def _decide(self, key: str, pod: Pod, now: float) -> Decision:
        wish = self.giving.wish(key)
        facts = self.fleet.facts(key)
        if facts.advice is None and not facts.stated and wish is None:
            return decide(pod, facts, now, self._rules)
        attempt = self.attempts.get(key)
        is_asked = pod.resize_progress not in (ResizeProgress.NONE, ResizeProgress.UNSEEN)
        if is_asked and (attempt is None or (attempt.gives_way and pod.resize_pending is not None)):
            self._adopt(pod, facts)
        facts = self._completed(key, facts)
        if wish is None:
            return decide(pod, facts, now, self._rules)
        decision = decide_for(pod, wish, facts, now, self._rules)
        if decision.resize is None and not decision.needs_usage:
            self.giving.settled(key)
        return decision

    def _completed(self, key: str, facts: Facts) -> Facts:
        """The facts with what the attempts and the usage add."""
        return Facts(
            facts.advice,
            facts.conflict,
            facts.foreign,
            facts.stated,
            facts.stated_problem,
            facts.asked,
            facts.limit_ranges,
            facts.bounds,
            self.attempts.answers.sent_at(key),
            self.attempts.is_on_the_way(key),
            self.giving.given(key),
            self._usage.of(key),
        )

    def _adopt(self, pod: Pod, facts: Facts) -> None:
        """Take up a resize that is under way and that nobody here knows of, where the pod is ours to size."""
        if facts.stated or (facts.advice is not None and facts.advice.mode.may_resize):
            for instruction in self.attempts.handle(Found(pod), self._clock.now()):
                self._follow(instruction)

    def _time_comes(self, now: float) -> None:
        while self._timers and self._timers[0][0] <= now:
            _, key = heapq.heappop(self._timers)
            for instruction in self.attempts.handle(TimeCame(key), now):
                self._follow(instruction)

    # Acting.

    def ask_for(self, decisions: list[Decision], now: float) -> set[str]:
        """Ask for what is decided, as far as there is room; the pods whose usage has to be known first."""
        unsure: set[str] = set()
        for decision in decisions:
            pod = self.fleet.pods.get(decision.key)
            if pod is None:
                continue
            if decision.needs_usage and not self._usage.is_fresh(decision.key, self.settings.usage_fresh_seconds):
                unsure.add(decision.key)
            if decision.resize is not None:
                self._ask(pod, decision.resize, now)
        return unsure

    def _ask(self, pod: Pod, resize: Resize, now: float) -> None:
        for_scheduler, for_kubelet = growth(pod, resize.sizes)
        quota = quota_need(pod, resize.sizes) if self.fleet.quotas(pod.namespace) else {}
        against = self._against(pod, resize, quota)
        room = self.fleet.ledger.room(pod.node_name)
        has_room = room is not None and fits(room, for_scheduler, for_kubelet)
        message = "" if room is None else f"free on {room.node}: {_show(room.free.cpu, room.free.memory)}"
        wanted = Wanted(resize, pod.node_name, pod.generation, has_room, message=message)
        if against is not None:
            wanted = Wanted(resize, pod.node_name, pod.generation, has_room, *against)
        for instruction in self.attempts.handle(wanted, now):
            if isinstance(instruction, Send):
                grant = Grant(pod.node_name, pod.namespace, for_scheduler, for_kubelet, quota, pod.generation)
                self.fleet.ledger.grants.give(pod.uid, grant)
                if restarts(pod, resize.sizes):
                    self._restarting[pod.key] = pod.uid
                self._start(self._send, pod, resize)
            else:
                self._follow(instruction)

    def _against(self, pod: Pod, resize: Resize, quota: Mapping[str, int]) -> tuple[Reason, str] | None:
        """What besides room stands against a resize now."""
        found = obstacle(
            pod,
            resize.sizes,
            self.fleet.ledger.nodes.get(pod.node_name),
            quota,
            self.fleet.quotas(pod.namespace),
            self.fleet.ledger.grants.of_quota(pod.namespace),
        )
        if found is None and restarts(pod, resize.sizes):
            return self._disruption(pod, resize)
        return found

    def _disruption(self, pod: Pod, resize: Resize) -> tuple[Reason, str] | None:
        workload = self.fleet.workload(pod.key)
        if workload is None:
            return None
        pods = self.fleet.pods_of(workload)
        advice, _, _ = self.fleet.claim(pod.key)
        stated = advice.min_replicas if advice is not None else None
        replicas = Replicas(
            max(self.fleet.replicas(workload) or 0, len(pods)),
            frozenset(one.key for one in pods if one.is_ready),
            self.settings.min_replicas if stated is None else stated,
            frozenset(self._restarting),
        )
        asked = resize.reason is Reason.ASKED_BY_PERSON
        return self._budget.obstacle(pod.key, replicas, self.fleet.budgets(pod), asked=asked)

    async def _send(self, pod: Pod, resize: Resize) -> None:
        event = await self._sender.send(pod, resize)
        grants = self.fleet.ledger.grants
        if isinstance(event, (Failed, Gone)):
            grants.void(pod.uid)
            self._restarting.pop(pod.key, None)
        self.handle(event)

    def _put_specs_back(self) -> None:
        now = self._clock.now()
        for key, (uid, not_before) in list(self._put_back.items()):
            if now >= not_before:
                del self._put_back[key]
                self._start(self._put_spec_back, key, uid)

    async def _put_spec_back(self, key: str, uid: str) -> None:
        event = await self._sender.put_back(key, uid)
        if isinstance(event, Failed):
            # Nothing may keep reserving what was given up.
            self._put_back[key] = (uid, self._clock.now() + _PUT_BACK_AGAIN_SECONDS)
        elif event is not None:
            self.handle(event)

    # Giving.

    def _busy(self) -> set[str]:
        """Pods that have a resize under way or wait for one."""
        return {key for key, one in self.attempts.unfinished().items() if one.is_under_way or one.waits_for_room}

    async def _look_at_donors(self) -> None:
        if not self._has_recovered:
            self._has_recovered = True
            self.giving.recover(self._clock.now())
        self.giving.expire(self._clock.now())
        if self.giving.debts:
            await self._usage.refresh(self.giving.debts)
            self.giving.recall(self._busy())

    async def _help_the_waiting(self, now: float) -> None:
        waiting = self.attempts.short_of_room()
        if not waiting and not self.fleet.pending:
            return
        busy = self._busy()
        for key in sorted(waiting, key=self._rank):
            attempt, pod = waiting.get(key), self.fleet.pods.get(key)
            if attempt is None or pod is None:
                continue
            sizes = attempt.resize.sizes if attempt.state is not State.DEFERRED else {}
            need = self.giving.need_of_resize(pod, growth(pod, sizes), now)
            if need is not None:
                await self._collect([need], busy, now)
        for needs in self.giving.needs_of_pending(now):
            await self._collect(needs, busy, now)

    async def _collect(self, needs: list[Need], busy: set[str], now: float) -> None:
        """Gifts for the first of these needs that can be met."""
        for need in needs:
            donors = self.giving.donors(need, busy)
            stale = [one.key for one in donors if not self._usage.is_fresh(one.key, self.settings.usage_fresh_seconds)]
            await self._usage.refresh(stale)
            if self.giving.promise(need, donors, self._clock.now()):
                return
        self.giving.tried(needs[0].key, now)

    def _rank(self, key: str) -> tuple[int, int, str]:
        attempt, pod = self.attempts.get(key), self.fleet.pods.get(key)
        urgency = attempt.resize.urgency if attempt is not None else 9
        return urgency, -(pod.priority if pod is not None else 0), key

    # The rest.

    def _start(self, act: Callable[..., Coroutine[Any, Any, None]], *about: Any) -> None:
        task = asyncio.get_running_loop().create_task(_guarded(act, *about))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _count_waiting(self) -> None:
        counts: dict[str, int] = {}
        for one in self.attempts.unfinished().values():
            counts[one.reason.value] = counts.get(one.reason.value, 0) + 1
        self._waiting.clear()
        for reason, count in counts.items():
            self._waiting.labels(reason=reason).set(count)

    def explain(self, key: str) -> dict[str, Any] | None:
        """What is known, decided and waited for about one pod (`namespace/name`)."""
        pod = self.fleet.pods.get(key)
        if pod is None:
            return None
        return explain_pod(
            pod, self.fleet, self.decisions.get(key), self.attempts.get(key), self.giving, self._clock.now()
        )


async def _guarded(act: Callable[..., Coroutine[Any, Any, None]], *about: Any) -> None:
    try:
        await act(*about)
    except Exception:
        # One pod's failure must not end the part.
        log.exception("a request failed unexpectedly")


def _show(cpu: int, memory: int) -> str:
    return f"cpu {format_cpu(cpu)}, memory {show_memory(memory)}"
