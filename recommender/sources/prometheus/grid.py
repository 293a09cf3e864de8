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

from recommender.histogram import Floats
from recommender.sources.prometheus.answers import Series, name_in, points
from recommender.sources.prometheus.planning import Span
from recommender.sources.prometheus.queries import Names

Row = NDArray[np.float32]

MOST_CORES: Final = 100_000.0
MOST_BYTES: Final = 1e15


class Instance(Struct, frozen=True, gc=False, order=True):
    """A container of a pod, as its series names it."""

    namespace: str
    pod: str
    container: str


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
        self._rows: dict[Instance, Row] = {}

    def rows(self) -> Iterator[tuple[Instance, Row]]:
        yield from self._rows.items()

    def take(self, series: Series) -> None:
        """Write down a series of an answer."""
        instance = instance_of(series.metric, self._names)
        if instance is None:
            self.dropped.nameless += 1
            return
        if instance not in self._wanted:
            self.dropped.unwanted += 1
            return
        try:
            times, values = points(series.values, self.span.step)
        except ValueError:
            self.dropped.bad_values += 1
            return
        row = self._rows.get(instance)
        if row is None:
            row = self._rows[instance] = np.full(self.span.points, np.nan, dtype=np.float32)
        self._write(row, times, values)

    def _write(self, row: Row, times: Floats, values: Floats) -> None:
        span = self.span
        if self._is_plain(times, values):
            place = int(times[0] - span.start) // span.step
            # Of two that are told for the same time the higher counts.
            row[place : place + len(values)] = np.fmax(row[place : place + len(values)], values.astype(np.float32))
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

    def _is_plain(self, times: Floats, values: Floats) -> bool:
        """Whether these are amounts at times of the grid without a gap, as nearly all are."""
        span, count = self.span, len(values)
        if not count or not span.start <= times[0] <= times[-1] <= span.end or (times[0] - span.start) % span.step:
            return False
        is_dense = times[-1] - times[0] == (count - 1) * span.step and (count < 3 or times[1] - times[0] == span.step)
        return bool(is_dense and values.min() >= 0 and values.max() <= self._most)


def instance_of(labels: dict[str, str], names: Names) -> Instance | None:
    """The container that a series is of; None where it names none."""
    found = Instance(name_in(labels, names.namespace), name_in(labels, names.pod), name_in(labels, names.container))
    is_named = found.namespace and found.pod and found.container not in ("", "POD")
    return found if is_named else None
