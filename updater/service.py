"""The updater: reads the cluster, decides, asks for resizes.

Owns the order of a run and the ways between the decisions. A run costs what changed: the pods that a change concerns
are decided about anew, and nothing else. What is sent is requests.py's matter, who gives whom room helping.py's.
"""

import asyncio
import heapq
import random
from typing import Any, Final

from elastipod.clock import Clock
from elastipod.kube.connection import Connection
from elastipod.pods import Pod, ResizeProgress
from elastipod.policy import Ceiling
from elastipod.reasons import Reason
from elastipod.telemetry import Metrics, get_logger
from updater.attempt import (
    Event,
    Found,
    Gone,
    Instruction,
    LookAgainAt,
    PlanAgain,
    PutBack,
    Seen,
    Send,
    Tell,
    TimeCame,
)
from updater.attempts import ResizeAttempts
from updater.explaining import explain_pod
from updater.exposition import fleet_text
from updater.facts import Facts
from updater.fleet import Fleet
from updater.giving import Giving
from updater.helping import Helping
from updater.plan import Decision, Resize, decide, decide_for, in_order
from updater.relapses import Relapses
from updater.requests import Requests
from updater.settings import UpdaterSettings
from updater.tuning import donor_rules, patience, plan_rules
from updater.usage import UsageBook
from updater.watching import Watching

log = get_logger(__name__)

_LOOK_SECONDS: Final = 5.0
"""How often donors and those who wait for room are looked at."""
_ANSWER_SECONDS: Final = 0.05
"""How long a run waits for answers, and so the next change for its run; slower ones come in beside later runs."""
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
        self._helping = Helping(self.fleet, self.attempts, self.giving, self._usage, clock, self.settings)
        self.watching = Watching(connection, clock, self.fleet, self.handle, self.wake.set)
        self._requests = Requests(connection, clock, self.settings, self.fleet, self.handle, self.watching.refresh_pod)
        self._relapses = Relapses(self._rules.cool_down_seconds)
        self._timers: list[tuple[float, str]] = []
        self._looked_at = float("-inf")
        metrics = metrics or Metrics()
        self._outcomes = metrics.counter("resizes", "Resize attempts by what became of them", "outcome")
        self._seconds = metrics.histogram(
            "resize_seconds",
            "Seconds from when a size was first wanted to when it was in force",
            buckets=(0.1, 0.5, 1, 2, 5, 15, 60, 300, 900, 3600, 21_600),
        )
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
        self._requests.stop()

    def handle(self, event: Event) -> None:
        """Something happened to a pod, a node or a rule."""
        now = self._clock.now()
        if isinstance(event, Gone):
            self._forget(event.key, event.uid)
        elif isinstance(event, Seen):
            barred_until = self._relapses.seen(event.pod, now)
            if barred_until is not None:
                heapq.heappush(self._timers, (barred_until, event.pod.key))
        for instruction in self.attempts.handle(event, now):
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
                    self._requests.put_back(key, pod.uid)
                    self.wake.set()
            case Tell(key, reason, message):
                self._tell(key, reason, message)
            case Send():
                pass

    def _tell(self, key: str, reason: Reason, message: str) -> None:
        self._outcomes.labels(outcome=reason.value).inc()
        # That a resize was granted is told; one that went straight from there has no news.
        tell = log.debug if reason is Reason.DONE and not message else log.info
        tell("resize", pod=key, outcome=reason.value, message=message)
        attempt = self.attempts.get(key)
        if attempt is None or not attempt.is_under_way:
            self._requests.ended(key)
        if reason is Reason.DONE:
            if attempt is not None:
                self._seconds.observe(self._clock.now() - attempt.first_at)
            if attempt is not None and attempt.resize.is_last_step and self.giving.wish(key) is not None:
                self.giving.settled(key)
            return
        pod = self.fleet.pods.get(key)
        if pod is not None and reason is not Reason.COOLING_DOWN:
            self._requests.tell(pod, reason, message)

    def _forget(self, key: str, uid: str) -> None:
        self.decisions.pop(key, None)
        self._requests.forget(key, uid)
        self.giving.forget(key)
        self._usage.forget(key)
        self._relapses.forget(key)

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
            await self._helping.look_at_donors()
        unsure = self.ask_for(self.plan(now), now)
        if unsure:
            await self._usage.refresh(unsure)
            self.fleet.dirty.update(unsure & self.fleet.pods.keys())
            self.ask_for(self.plan(now), now)
        await self._helping.help_the_waiting(now)
        if self.fleet.dirty:
            # Donors whose wishes were set just now.
            self.ask_for(self.plan(now), now)
        self._requests.put_specs_back()
        await self._requests.wait(_ANSWER_SECONDS)

    def plan(self, now: float) -> list[Decision]:
        """Decide anew about all pods that a change concerns; those that want a resize, in order."""
        dirty, self.fleet.dirty = self.fleet.dirty, set()
        wanting: dict[str, Decision] = {}
        for key in dirty:
            pod, attempt = self.fleet.pods.get(key), self.attempts.get(key)
            if pod is None or (attempt is not None and attempt.awaits_answer and attempt.uid == pod.uid):
                # What comes of the answer has it decided about.
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
            elif pod.resize_pending is None and not self._requests.puts_back(key):
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
        facts = self._completed(key, facts, now)
        if wish is None:
            return decide(pod, facts, now, self._rules)
        decision = decide_for(pod, wish, facts, now, self._rules)
        if decision.resize is None and not decision.needs_usage:
            self.giving.settled(key)
        return decision

    def _completed(self, key: str, facts: Facts, now: float) -> Facts:
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
            facts.modes,
            self.attempts.answers.sent_at(key),
            self.attempts.is_on_the_way(key),
            self.giving.given(key),
            self._usage.of(key),
            self._relapses.had(key, now),
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
        wanted, grant = self._requests.weigh(pod, resize)
        for instruction in self.attempts.handle(wanted, now):
            if isinstance(instruction, Send):
                self._relapses.asked(pod, resize.sizes)
                self._requests.send(pod, resize, grant)
            else:
                self._follow(instruction)

    # The rest.

    def _count_waiting(self) -> None:
        counts: dict[str, int] = {}
        for one in self.attempts.unfinished().values():
            counts[one.reason.value] = counts.get(one.reason.value, 0) + 1
        self._waiting.clear()
        for reason, count in counts.items():
            self._waiting.labels(reason=reason).set(count)

    def shown(self) -> bytes:
        """Nodes, and resizes that wait, for /metrics."""
        return fleet_text(self.fleet, self.attempts, self._clock.now())

    def explain(self, key: str) -> dict[str, Any] | None:
        """What is known, decided and waited for about one pod (`namespace/name`)."""
        pod = self.fleet.pods.get(key)
        if pod is None:
            return None
        return explain_pod(
            pod, self.fleet, self.decisions.get(key), self.attempts.get(key), self.giving, self._clock.now()
        )
