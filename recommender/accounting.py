"""What the cluster reserves, uses and could save, added up now and then for /metrics and /savings.

Owns when that is done, gathering what it is made of, and what is told of it: all of it of one instant. It takes at most
a hundredth of the time, however large the cluster is. What the numbers mean is savings.py's matter.
"""

import asyncio
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

import msgspec

from elastipod.clock import Clock
from elastipod.kube.disruptions import DisruptionLimit, letting_none_go
from elastipod.pods import Node, Pod
from elastipod.telemetry import get_logger
from recommender.exposition import USAGE_WINDOW, accounts_text, realisable_text
from recommender.podexposition import nodes_text, pods_text, prices_text
from recommender.prices import PriceTable
from recommender.ranges import Resource
from recommender.realisable import Realisable, realisable
from recommender.recent import USAGE_WORDS
from recommender.recommending import Recommendations
from recommender.report.told import Paid, Sums, told
from recommender.savings import Account, Snapshot, Totals, accounts, dearest, totals
from recommender.settings import RecommenderSettings
from recommender.snapshots import Snapshots, take_down, with_usage

log = get_logger(__name__)

T = TypeVar("T")

SAVINGS_PATH: Final = "/savings"
_NO_USAGE: Final = (
    "What is used is not known: no pod is measured. `elastipod status` names what the recommender is without."
)
_NO_NODES: Final = (
    "No node is known, so each pod has the price of a node of which nothing is known, and which nodes could be given "
    "back is not known: that takes the right to list nodes."
)
_NO_BUDGETS: Final = (
    "Which nodes could be given back is not known: that takes every pod of the cluster and every PodDisruptionBudget, "
    "and the right to list them."
)
_NOT_YET: Final = "Which nodes could be given back is not worked out yet."
_REST: Final = 99
"""So many times as long as something took, it is not done again."""


class Accounting:
    """The newest accounts, as texts; empty before the first."""

    def __init__(
        self,
        known: Recommendations,
        clock: Clock,
        settings: RecommenderSettings,
        prices: PriceTable,
        *,
        in_thread: bool = False,
    ) -> None:
        self._known, self._clock, self._settings, self._prices = known, clock, settings, prices
        interval = settings.accounting_interval_seconds
        self._adding = Seldom("accounts", clock, interval, self._added, in_thread=in_thread)
        self._packing = Seldom("nodes that could be spared", clock, interval, self._packed, in_thread=in_thread)
        self._snapshots = Snapshots(settings)
        self._snapshot: Snapshot | None = None
        self._accounts: _Accounts | None = None
        self._realisable: Realisable | None = None
        self._realisable_text = b""
        self._text: bytes | None = None
        self._is_asked_for = False
        self._savings: bytes | None = None
        self._unknown = ""
        """Why it can not be known which nodes would be empty."""
        self._is_over = False

    @property
    def text(self) -> bytes:
        """For /metrics; from when it was first asked for it is written with the accounts, and for nobody before."""
        self._is_asked_for = True
        if self._text is None and (found := self._accounts) is not None:
            self._text = self._written(found)
        return (self._text or b"") + self._realisable_text

    async def run(self, nodes: dict[str, Node], limits: Collection[DisruptionLimit] | None) -> None:
        """Add up what is due; waits only where there is no thread.

        `limits` are all PodDisruptionBudgets; None where they, or some of the pods, are not known: then nobody can tell
        which nodes would be empty.
        """
        await self._adding.run(lambda: self._add_up(nodes))
        snapshot, self._snapshot = self._snapshot, None
        unknown = _NO_NODES if not nodes else _NO_BUDGETS if limits is None else ""
        if unknown != self._unknown:
            self._unknown, self._savings = unknown, None
            if unknown:
                # What held while it could be known holds no more.
                self._realisable, self._realisable_text = None, b""
        if limits is not None and snapshot is not None and nodes:
            await self._packing.run(lambda: self._pack(snapshot, letting_none_go(limits)))

    def stop(self) -> None:
        """Do not go on with what takes long: a process does not end before its threads do."""
        self._is_over = True

    def answer(self, path: str) -> bytes | None:
        """JSON for /savings; None before the first accounts, and for all else."""
        if path != SAVINGS_PATH or self._accounts is None:
            return None
        if self._savings is None:
            self._savings = self._told(self._accounts)
        return self._savings

    async def finished(self) -> None:
        """Wait for what is under way."""
        await self._adding.finished()
        await self._packing.finished()

    def _written(self, found: "_Accounts") -> bytes:
        return accounts_text(found.told, found.left_out, self._prices.currency) + found.more

    def _told(self, found: "_Accounts") -> bytes:
        savings = told(
            found.at,
            self._prices.currency,
            self._prices.words,
            found.told,
            self._realisable,
            window_seconds=found.window_seconds,
            usage=USAGE_WORDS,
            notes=self._notes(found),
            left_out=found.left_out,
            totals={one: _sums(of) for one, of in found.totals.items()} if found.left_out else None,
        )
        return msgspec.json.encode(savings)

    def _notes(self, found: "_Accounts") -> Iterator[str]:
        """What is missing in it, and why."""
        if found.unpriced:
            yield found.unpriced
        if found.told and all(of.used is None for of in found.totals.values()):
            yield _NO_USAGE
        if self._realisable is None:
            yield self._unknown or _NOT_YET

    def _add_up(self, nodes: dict[str, Node]) -> Callable[[], tuple["_Accounts", Snapshot, bytes | None]]:
        """Take down what is known now; what it comes to is worked out by what is given back."""
        facts, is_asked_for = take_down(self._known, nodes, self._clock.now()), self._is_asked_for

        def add_up() -> tuple[_Accounts, Snapshot, bytes | None]:
            snapshot = self._snapshots.of(facts)
            those = accounts(snapshot, self._prices)
            shown = with_usage(dearest(those, self._settings.most_accounted_containers), facts)
            left_out = (len(those) - len(shown)) // len(Resource)
            window_seconds = facts.recent.seconds
            more = USAGE_WINDOW.only(window_seconds).encode()
            more += prices_text(nodes.values(), self._prices) + nodes_text(snapshot)
            unpriced = self._prices.note_on(nodes.values())
            more += pods_text(snapshot, self._settings.most_pods_told)
            found = _Accounts(facts.at, shown, left_out, totals(those), window_seconds, more, unpriced)
            return found, snapshot, self._written(found) if is_asked_for else None

        return add_up

    def _added(self, found: tuple["_Accounts", Snapshot, bytes | None]) -> None:
        self._accounts, self._snapshot, self._text = found
        self._savings = None

    def _pack(self, snapshot: Snapshot, is_protected: Callable[[Pod], bool]) -> Callable[[], Realisable | None]:
        def asked(pod: Pod) -> bool:
            if self._is_over:
                raise _Over
            return is_protected(pod)

        def pack() -> Realisable | None:
            try:
                return realisable(snapshot, self._prices, is_protected=asked)
            except _Over:
                return None

        return pack

    def _packed(self, found: Realisable | None) -> None:
        if found is not None:
            self._realisable, self._savings = found, None
            self._realisable_text = realisable_text(found, self._prices.currency)


class _Over(Exception):
    """Nobody waits for it any more."""


@dataclass(frozen=True, slots=True)
class _Accounts:
    """Accounts of one instant, as far as they are told of."""

    at: float
    told: list[Account]
    left_out: int
    totals: dict[Resource, Totals]
    """Also of those that are left out."""
    window_seconds: float
    """So much time usage is told of; 0 where it is of the instant only."""
    more: bytes
    """What /metrics tells besides: that window, prices, nodes and pods."""
    unpriced: str
    """Which nodes the price table has no row for."""


def _sums(found: Totals) -> Sums:
    costs = (found.requested, found.used, found.waste, found.lacking, found.applied)
    return Sums(*(None if one is None else Paid(one.amount, one.per_hour) for one in costs))


class Seldom(Generic[T]):
    """Something that is worked out now and then: at most every interval, and for at most a hundredth of the time."""

    def __init__(
        self, what: str, clock: Clock, interval_seconds: float, done: Callable[[T], None], *, in_thread: bool
    ) -> None:
        self._what, self._clock, self._interval, self._done = what, clock, interval_seconds, done
        self._in_thread = in_thread
        self._task: asyncio.Task[None] | None = None
        self._next_at = clock.monotonic()

    async def run(self, begin: Callable[[], Callable[[], T]]) -> None:
        """Begin what is due. `begin` is called now, and what it gives in a thread, where there is any."""
        now = self._clock.monotonic()
        if now < self._next_at or (self._task is not None and not self._task.done()):
            return
        # A run that comes a little early shall not wait for the next one.
        self._next_at = now + 0.9 * self._interval
        self._task = asyncio.create_task(self._work(begin(), now))
        if not self._in_thread:
            await self._task

    async def finished(self) -> None:
        """Wait for what is under way."""
        if self._task is not None:
            await self._task

    async def _work(self, work: Callable[[], T], began_at: float) -> None:
        try:
            found = await asyncio.to_thread(work) if self._in_thread else work()
        except Exception:
            log.exception("could not be worked out; what is at hand stays", what=self._what)
        else:
            self._done(found)
        now = self._clock.monotonic()
        self._next_at = max(self._next_at, now + _REST * (now - began_at))
