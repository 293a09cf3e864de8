"""Usage of many containers over time, on one grid.

Owns what becomes of points: each stands at its time, once, whatever is told twice; what is no amount of anything is
left out and counted.
"""

from collections.abc import Container, Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from elastipod.pods import ContainerKey
from recommender.histogram import Floats
from recommender.sources.past import Unknown
from recommender.sources.prometheus.answers import Series, name_in
from recommender.sources.prometheus.planning import Span
from recommender.sources.prometheus.points import points, without_gaps
from recommender.sources.prometheus.queries import Names

Amounts = NDArray[np.float32]

MOST_CORES: Final = 100_000.0
MOST_BYTES: Final = 1e15
_READ_BYTES: Final = 1024**2
"""So much text is read at once: as much as stays at hand while it is."""


class Instance(Struct, frozen=True, gc=False, order=True):
    """A container of a pod, as its series names it."""

    namespace: str
    pod: str
    container: str


@dataclass(frozen=True, slots=True)
class Wanted:
    """Whose instance it is, and which of its times are wanted."""

    key: ContainerKey
    unknown: Unknown
    living_uid: str = ""
    series: int = 1
    """How many there are of it: one for each run of the container, and for each way it is scraped."""
    request_bytes: int = 0
    """How much memory its container asks for; 0 where that is not known."""


@dataclass(slots=True)
class Dropped:
    """What was told and not taken, by why."""

    bad_values: int = 0
    """No number, or negative."""
    too_large: int = 0
    """More than any node has, or than is within reason."""
    off_grid: int = 0
    nameless: int = 0
    unwanted: int = 0
    """Series of containers that nobody asked about."""

    def add(self, other: "Dropped") -> None:
        self.bad_values += other.bad_values
        self.too_large += other.too_large
        self.off_grid += other.off_grid
        self.nameless += other.nameless
        self.unwanted += other.unwanted


class Grid:
    """One resource of some containers: a row each, a column for each time; NaN where nothing is known."""

    def __init__(self, span: Span, names: Names, most: float, wanted: Container[Instance]) -> None:
        self.span = span
        self.dropped = Dropped()
        self.warnings: set[str] = set()
        """What the server said of its answers: that something of them may be missing."""
        self._names = names
        self._most = most
        self._wanted = wanted
        self._rows: dict[Instance, int] = {}
        self._amounts: Amounts = np.zeros((0, span.points), dtype=np.float32)
        self._unread: list[tuple[int, bytes]] = []
        self._unread_bytes = 0

    @property
    def instances(self) -> list[Instance]:
        """Whose the rows are."""
        return list(self._rows)

    def rows(self) -> Iterator[tuple[Instance, Amounts]]:
        yield from zip(self._rows, self.amounts, strict=True)

    @property
    def amounts(self) -> Amounts:
        """All rows."""
        self._read()
        return self._amounts[: len(self._rows)]

    def take(self, series: Series) -> None:
        """Write down a series of an answer."""
        instance = instance_of(series.metric, self._names)
        if instance is None:
            self.dropped.nameless += 1
            return
        if instance not in self._wanted:
            self.dropped.unwanted += 1
            return
        text = bytes(series.values)
        self._unread.append((self._rows.setdefault(instance, len(self._rows)), text))
        self._unread_bytes += len(text)
        if self._unread_bytes > _READ_BYTES:
            self._read()

    def _read(self) -> None:
        """Read the points of the series that were taken."""
        unread, self._unread, self._unread_bytes = self._unread, [], 0
        more = len(self._rows) - len(self._amounts)
        if more > 0:
            more = max(more, len(self._amounts) // 2)
            empty = np.full((more, self.span.points), np.nan, dtype=np.float32)
            self._amounts = np.concatenate((self._amounts, empty))
        found = without_gaps([text for _, text in unread], self.span.step)
        for (row, text), plain in zip(unread, found, strict=True):
            if plain is None or not self._write_plain(self._amounts[row], *plain):
                self._write(self._amounts[row], text)

    def _write_plain(self, row: Amounts, first: int, values: Floats) -> bool:
        """Write down amounts at times of the grid without a gap; whether these are such."""
        place, rest = divmod(first - self.span.start, self.span.step)
        if rest or place < 0 or place + len(values) > self.span.points or values.max() > self._most:
            return False
        # Of two that are told for the same time the higher counts.
        here = row[place : place + len(values)]
        np.fmax(here, values, out=here, casting="same_kind")
        return True

    def _write(self, row: Amounts, text: bytes) -> None:
        span = self.span
        try:
            times, values = points(text)
        except ValueError:
            self.dropped.bad_values += 1
            return
        with np.errstate(invalid="ignore"):
            is_good = (values >= 0) & (values <= self._most)
            is_too_large = np.isfinite(values) & (values > self._most)
            columns = (times - span.start) / span.step
            fits = (columns >= 0) & (columns < span.points) & (columns == np.floor(columns))
        taken = is_good & fits
        self.dropped.bad_values += int((~is_good & ~is_too_large).sum())
        self.dropped.too_large += int(is_too_large.sum())
        self.dropped.off_grid += int((is_good & ~fits).sum())
        np.fmax.at(row, columns[taken].astype(np.int64), values[taken].astype(np.float32))


def instance_of(labels: dict[str, str], names: Names) -> Instance | None:
    """The container that a series is of; None where it names none."""
    found = Instance(name_in(labels, names.namespace), name_in(labels, names.pod), name_in(labels, names.container))
    is_named = found.namespace and found.pod and found.container not in ("", "POD")
    return found if is_named else None
