"""A run's looks at donors and at those who wait for room.

Owns their order, and that nobody is asked to give by usage that is no longer fresh. Who is helped on which node and
what donors are owed is giving.py's matter.
"""

from elastipod.clock import Clock
from updater.attempt import State
from updater.attempts import ResizeAttempts
from updater.fleet import Fleet
from updater.giving import Giving, Need
from updater.precheck import growth
from updater.settings import UpdaterSettings
from updater.usage import UsageBook


class Helping:
    """Sets the wishes of donors; the next plan of the run asks for them."""

    def __init__(
        self,
        fleet: Fleet,
        attempts: ResizeAttempts,
        giving: Giving,
        usage: UsageBook,
        clock: Clock,
        settings: UpdaterSettings,
    ) -> None:
        self._fleet = fleet
        self._attempts = attempts
        self._giving = giving
        self._usage = usage
        self._clock = clock
        self._settings = settings
        self._has_recovered = False

    async def look_at_donors(self) -> None:
        """Call back what a donor needs itself, and let go what was promised too long ago."""
        if not self._has_recovered:
            self._has_recovered = True
            self._giving.recover(self._clock.now())
        self._giving.expire(self._clock.now())
        if self._giving.debts:
            await self._usage.refresh(self._giving.debts)
            self._giving.recall(self._busy())

    async def help_the_waiting(self, now: float) -> None:
        """Gifts for resizes and pending pods that wait for room, the most urgent first."""
        waiting = self._attempts.short_of_room()
        if not waiting and not self._fleet.pending:
            return
        busy = self._busy()
        for key in sorted(waiting, key=self._rank):
            attempt, pod = waiting.get(key), self._fleet.pods.get(key)
            if attempt is None or pod is None:
                continue
            sizes = attempt.resize.sizes if attempt.state is not State.DEFERRED else {}
            need = self._giving.need_of_resize(pod, growth(pod, sizes), now)
            if need is not None:
                await self._collect([need], busy, now)
        for needs in self._giving.needs_of_pending(now):
            await self._collect(needs, busy, now)

    async def _collect(self, needs: list[Need], busy: set[str], now: float) -> None:
        """Gifts for the first of these needs that can be met."""
        for need in needs:
            donors = self._giving.donors(need, busy)
            stale = [one.key for one in donors if not self._usage.is_fresh(one.key, self._settings.usage_fresh_seconds)]
            await self._usage.refresh(stale)
            if self._giving.promise(need, donors, self._clock.now()):
                return
        self._giving.tried(needs[0].key, now)

    def _rank(self, key: str) -> tuple[int, int, str]:
        attempt, pod = self._attempts.get(key), self._fleet.pods.get(key)
        urgency = attempt.resize.urgency if attempt is not None else 9
        return urgency, -(pod.priority if pod is not None else 0), key

    def _busy(self) -> set[str]:
        """Pods that have a resize under way or wait for one."""
        return {key for key, one in self._attempts.unfinished().items() if one.is_under_way or one.waits_for_room}
