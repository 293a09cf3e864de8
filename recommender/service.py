"""The recommender at work: reads usage and pods, recommends, writes statuses and checkpoints.

Owns the order of a run. What is learned and decided is recommending.py's matter; which statuses are written,
publishing.py's; which checkpoints are due, saving.py's.
"""

import asyncio
from collections.abc import Iterable
from typing import Any, Final

from elastipod.backoff import Backoff
from elastipod.clock import Clock
from elastipod.kube.connection import Connection
from elastipod.kube.errors import KubeError
from elastipod.owners import Owned
from elastipod.pods import ContainerKey, Workload
from elastipod.telemetry import Metrics, get_logger
from recommender.accounting import Accounting
from recommender.claims import Claim
from recommender.fetching import Fetching
from recommender.fitting import Fitting
from recommender.news import killed
from recommender.numbers import Numbers
from recommender.oomkills import oom_kills
from recommender.prices import PriceTable
from recommender.publishing import Publishing
from recommender.recommending import Recommendations
from recommender.replaying import Replaying
from recommender.samples import OomKill
from recommender.saving import Saving
from recommender.settings import RecommenderSettings
from recommender.sources.metrics_api import MetricsApiSource, SourceError, UsageReading, UsageSource
from recommender.sources.past import HistorySource
from recommender.store import CheckpointStore
from recommender.telling import Teller
from recommender.timeline import Timeline
from recommender.turns import IN_ONE_GO, in_parts, in_turns
from recommender.watching import Watches

log = get_logger(__name__)


_RETRY: Final = Backoff(first_seconds=1.0, most_seconds=30.0)


class Recommender:
    """Usage in, recommendations out."""

    name = "recommender"

    def __init__(
        self,
        connection: Connection,
        clock: Clock,
        settings: RecommenderSettings,
        *,
        source: UsageSource | None = None,
        past: HistorySource | None = None,
        metrics: Metrics | None = None,
        prices: PriceTable | None = None,
        sees_all_pods: bool = True,
        in_thread: bool = False,
    ) -> None:
        """`past` keeps usage of times before our start. `in_thread` computes in a thread, so that the process answers
        meanwhile; a simulation must not."""
        metrics = metrics or Metrics()
        self.interval_seconds = settings.interval_seconds
        self.wake = asyncio.Event()
        self.recommendations = Recommendations(settings)
        self._clock = clock
        self._settings = settings
        self._in_thread = in_thread
        self._source = source or MetricsApiSource(connection, settings.namespace)
        self._store = CheckpointStore(connection, settings)
        self._fetching = None if past is None else Fetching(past, clock, self.wake)
        self._fitting = Fitting(self.recommendations.estimating.speaking, in_thread=in_thread)
        self._replaying = Replaying(self.recommendations.estimating, in_thread=in_thread)
        self._telling = Teller(connection, clock, metrics)
        self._unasked: set[Workload] = set()
        self._timeline = Timeline(clock)
        self._read_at: float | None = None
        self._skewed: set[str] = set()
        self._failed = asyncio.Event()
        self._failures = 0
        self._watches = Watches(connection, clock, settings, self.wake)
        self.accounting = Accounting(self.recommendations, clock, settings, prices or PriceTable(), in_thread=in_thread)
        self._sees_all_pods = sees_all_pods and not settings.namespace
        self._numbers = Numbers(self.recommendations, clock, settings, metrics)
        self._saving = Saving(self._store, self.recommendations, clock, settings, metrics, self._failed)
        self._publishing = Publishing(connection, self.recommendations, self._saving, self._telling, settings, metrics)

    async def watch(self) -> None:
        """Keep what is known of the cluster fresh, for ever."""
        fetching = [] if self._fetching is None else [self._fetching.run(self._watches.largest_node)]
        await asyncio.gather(self._watches.run(), self._try_again(), self._telling.run(), *fetching)

    async def run_once(self) -> None:
        """Read usage, learn, decide, write what matters.

        Saved history that could not be read or written is tried again before the next interval; a status waits for its
        own, since it may have been written all the same.
        """
        if not self._watches.is_synced:
            # The first runs come before the first lists; the watches wake us when there is something.
            return
        now = self._timeline.now()
        gone = await self._take_changes()
        loaded = await self._load(now)
        await self._take_pods(loaded, now)
        # Later than the pods that name them: a Job may be over and taken away before we heard of its pod.
        async for owned in in_turns(gone):
            self.recommendations.members.set_owned(owned, None)
        if self._fetching is not None:
            await self._take_past(self._fetching, loaded, now)
        reading = await self._read_usage()
        known = self.recommendations

        def think() -> set[str]:
            for samples in (*reading.earlier, reading.samples):
                known.learn(samples, now)
            return known.decide(now)

        dirty = await asyncio.to_thread(think) if self._in_thread else think()
        await self._replaying.run(now)
        await self._fitting.run(now)
        self._tell_clocks()
        await self._publishing.publish(dirty, now)
        self._numbers.count(reading)
        await self._saving.save(now)
        await self._saving.collect(now)
        await self.accounting.run(
            self._watches.nodes(), self._watches.disruption_limits() if self._sees_all_pods else None
        )
        self._failures = self._failures + 1 if self._failed.is_set() else 0

    async def _try_again(self) -> None:
        while True:
            await self._failed.wait()
            await self._clock.sleep(_RETRY.delay_seconds(max(self._failures, 1)))
            self._failed.clear()
            self.wake.set()

    async def save(self) -> None:
        """Save every container's history now, as before a planned stop."""
        self.accounting.stop()
        await self._saving.save_all(self._timeline.now())

    def explain(self, key: str) -> dict[str, Any] | None:
        """What is known of a pod (`namespace/name`): samples, evidence, recommendation, caps."""
        workload = self.recommendations.members.workload(key)
        if workload is None:
            return None
        facts = self.recommendations.explain(workload, self._timeline.now())
        return {"pod": key, **facts, "next_run_seconds": self.interval_seconds}

    # One run, step by step.

    async def _take_changes(self) -> list[Owned]:
        """Owners, claims, LimitRanges, quotas, horizontal autoscalers and nodes as they are now; the owners gone."""
        known, watches = self.recommendations, self._watches
        owners, watches.owners = watches.owners, []
        async for old, new in in_turns(owners):
            if new is not None:
                known.members.set_owned(old, new)
        claims, watches.claims = watches.claims, {}
        urgent, watches.urgent = watches.urgent, set()
        async for key, claim in in_turns(claims.items()):
            is_ours = claim is not None and claim.recommender in self._settings.recommender_names
            known.set_claim(key, claim if is_ours else None)
            known.set_foreign(key, None if is_ours else claim)
            if not is_ours:
                self._publishing.forget(key)
            elif key in urgent:
                self._publishing.hurry([key])
        namespaces, watches.namespaces = watches.namespaces, set()
        if namespaces:
            known.set_limits(watches.limit_ranges(namespaces), watches.quotas(namespaces))
        policies, watches.policies = watches.policies, set()
        if policies:
            known.set_policies(watches.policies_of(policies))
        if watches.scalers_changed:
            watches.scalers_changed = False
            known.set_holds(watches.holds())
        if watches.nodes_changed:
            watches.nodes_changed = False
            known.set_nodes(watches.nodes(), watches.largest_node())
        return [old for old, new in owners if old is not None and new is None]

    async def _load(self, now: float) -> list[Claim]:
        """Look for saved histories of claims that are new to us; until that succeeds no advice for them."""
        fresh = self.recommendations.unloaded()
        loaded: list[Claim] = []
        try:
            if fresh:
                async for claim, saved in self._store.load(fresh, now):
                    self.recommendations.loaded(
                        claim.key, saved.histories, saved.unusable, keeps_status=not saved.is_of_other_workload
                    )
                    if claim.target is not None:
                        self._saving.loaded(claim.target, saved.histories)
                    loaded.append(claim)
                    if len(loaded) % IN_ONE_GO == 0:
                        await asyncio.sleep(0)
        except KubeError as error:
            waiting = self.recommendations.unloaded_keys()
            log.warning("saved history can not be read, so the claims wait", claims=len(waiting), error=str(error))
            self.recommendations.mark(waiting)
            self._failed.set()
        return loaded

    async def _take_pods(self, loaded: list[Claim], now: float) -> None:
        """Kills first, while what their pods had used is still at hand; then the pods as they are now."""
        known = self.recommendations
        told, self._watches.kills = self._watches.kills, []
        kills = [kill for old, new in told for kill in oom_kills(old, new, known.members.resolve(new), now)]
        self._learn_kills(kills, now)
        changed, self._watches.pods = self._watches.pods, {}
        async for key, pod in in_turns(changed.items()):
            known.members.set_pod(key, pod)
        async for claim in in_turns(loaded):
            if claim.target is not None:
                before_us = [
                    kill for pod in known.members.pods(claim.target) for kill in oom_kills(None, pod, claim.target, now)
                ]
                self._learn_kills(before_us, now)
        if loaded:
            known.history.settle()

    async def _take_past(self, fetching: Fetching, loaded: list[Claim], now: float) -> None:
        """Ask for past usage that nothing is known of, and count what came."""
        known, judgement = self.recommendations, self.recommendations.judgement
        told = judgement.fetching_problem if judgement.fetching else ""
        self._unasked.update(one.target for one in loaded if one.target and not fetching.knows(one.target))
        async for target in in_turns(sorted(self._unasked)):
            request = known.past_wanted(target, now)
            if not known.claims_of(target):
                self._unasked.discard(target)
            elif request is not None:
                self._unasked.discard(target)
                fetching.want(request)
                if request.is_waited_for:
                    judgement.fetching.add(target)
                    known.mark(known.claims_of(target))
        found, fetching.found = fetching.found, {}
        steps, fetching.steps = fetching.steps, {}
        self._replaying.want(steps)
        async for part in in_turns(in_parts(found.items()), 1):
            known.fill(dict(part))
        self._saving.want(found)
        settled, fetching.settled = fetching.settled & judgement.fetching, set()
        judgement.fetching -= settled
        judgement.fetching_problem, judgement.past_lacks = fetching.problem, fetching.problems
        for target in judgement.fetching if bool(told) != bool(fetching.problem) else settled:
            self._publishing.hurry(known.claims_of(target))
            known.mark(known.claims_of(target))

    def _learn_kills(self, kills: Iterable[OomKill], now: float) -> None:
        for kill in kills:
            if now - kill.at > self._settings.history_seconds or not self.recommendations.learn_kill(kill):
                continue
            self._numbers.killed(kill)
            self._saving.want([ContainerKey(kill.workload, kill.container)])
            claims = self.recommendations.claims_of(kill.workload)
            self._publishing.hurry(claims)
            self._tell_kill(kill, claims)
            log.info(
                "container was killed for memory",
                workload=str(kill.workload),
                container=kill.container,
                limit_bytes=kill.limit_bytes,
            )

    def _tell_kill(self, kill: OomKill, claims: Iterable[str]) -> None:
        history = self.recommendations.history
        row = history.row(ContainerKey(kill.workload, kill.container))
        for key in claims:
            claim = self.recommendations.claim(key)
            if claim is not None and row is not None:
                self._telling.tell(claim, [killed(kill, float(history.oom_floor[row]))])

    async def _read_usage(self) -> UsageReading:
        """Usage, unless it was read a moment ago; a source that fails lowers nothing."""
        at = self._clock.monotonic()
        if self._read_at is not None and at - self._read_at < 0.9 * self.interval_seconds:
            return UsageReading()
        try:
            reading = await self._source.read()
        except (KubeError, SourceError) as error:
            if not self.recommendations.judgement.source_problem:
                log.warning("no usage can be read", error=str(error))
            self.recommendations.judgement.source_problem = str(error)[:200]
            return UsageReading()
        self._read_at = at
        if reading.samples or not self.recommendations.history.open_instances:
            self._numbers.heard()
        self.recommendations.judgement.source_problem = reading.problem[:200]
        return reading

    def _tell_clocks(self) -> None:
        """Name each node whose clock is off, once."""
        for node, ahead in self.recommendations.learning.clocks.items():
            if node not in self._skewed:
                log.warning(
                    "a node's clock is off; its samples count by when they arrive",
                    node=node,
                    ahead_seconds=round(ahead),
                )
        self._skewed = set(self.recommendations.learning.clocks)
