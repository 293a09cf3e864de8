"""What is remembered of containers in living pods: Windows.

Owns, for all instances at once, their places, the newest sample of each, and the memory interval that runs. An
*instance* is a container in one pod, its *row* that of the container in the history.
"""

from collections.abc import Iterable, Mapping

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from recommender.histogram import Floats, Ints


class InstanceKey(Struct, frozen=True, gc=False):
    """A container in one pod."""

    pod_uid: str
    container: str


class MemoryWindow(Struct, frozen=True, gc=False):
    """The running memory interval of one instance."""

    pod_uid: str
    ends_at: float
    peak_bytes: float


class Windows:
    """The instances of all containers."""

    def __init__(self) -> None:
        self._places: dict[InstanceKey, int] = {}
        self._free: list[int] = []
        self._instance_at: list[InstanceKey | None] = []
        self._row_of: NDArray[np.int64] = np.zeros(0, dtype=np.int64)
        self._ends = np.zeros(0)
        self._peaks = np.zeros(0)
        self._stamps = np.zeros(0)
        self._used = np.zeros((0, 3))
        """The newest sample of each: when it came, cores, bytes."""
        self._saved: dict[int, dict[str, MemoryWindow]] = {}
        """By row and pod, windows that no living instance has taken up."""

    def __len__(self) -> int:
        return len(self._places)

    def ensure(self, instance: InstanceKey, row: int) -> int:
        """The place of an instance, new where it has none; a saved window of it is taken up again."""
        place = self._places.get(instance)
        if place is not None:
            self._row_of[place] = row
            return place
        place = self._free.pop() if self._free else len(self._places)
        self._places[instance] = place
        if place == len(self._instance_at):
            self._instance_at.append(None)
        self._instance_at[place] = instance
        if place >= len(self._peaks):
            more = max(place + 1, len(self._peaks) * 5 // 4 + 64) - len(self._peaks)
            self._row_of = np.pad(self._row_of, (0, more))
            self._ends = np.pad(self._ends, (0, more))
            self._peaks = np.pad(self._peaks, (0, more))
            self._stamps = np.pad(self._stamps, (0, more))
            self._used = np.pad(self._used, ((0, more), (0, 0)))
        self._row_of[place] = row
        self._open(place, self._saved.get(row, {}).pop(instance.pod_uid, None))
        self._stamps[place] = np.nan
        self._used[place] = np.nan
        return place

    def forget(self, instance: InstanceKey) -> None:
        """The pod is gone."""
        place = self._places.pop(instance, None)
        if place is not None:
            self._free.append(place)
            self._instance_at[place] = None

    def clear(self, row: int) -> None:
        """The row is nobody's any more."""
        self._saved.pop(row, None)

    def settle(self) -> None:
        """Let go of saved windows that no living instance has taken up."""
        self._saved.clear()

    def rows_of(self, places: Ints) -> Ints:
        """The rows of instances."""
        found: Ints = self._row_of[places]
        return found

    def is_new(self, places: Ints, stamps: Floats) -> NDArray[np.bool_]:
        """Whether samples with these stamps are not those that were seen last."""
        return np.asarray(stamps != self._stamps[places])

    def see(self, places: Ints, stamps: Floats, told: Floats) -> None:
        """These are the newest samples of instances: when they came, cores, bytes."""
        self._stamps[places] = stamps
        self._used[places] = told

    def used(self) -> Floats:
        """Per instance, its newest sample: when it came, cores, bytes; NaN where there is none."""
        return self._used.copy()

    def peak(self, instance: InstanceKey) -> float:
        """The most memory in the window that runs; 0 where none does."""
        place = self._places.get(instance)
        return 0.0 if place is None or np.isnan(self._peaks[place]) else float(self._peaks[place])

    def take(
        self, places: Ints, memory_bytes: Floats, intervals: Floats, now: float
    ) -> tuple[Ints, Floats, Floats, Floats]:
        """Take memory into the windows that run, or open new ones. What that changes of the histogram of peaks.

        Rows, amounts, weights (below 0 for a peak that a higher one replaces) and times.
        """
        rows = self._row_of[places]
        ends, peaks = self._ends[places], self._peaks[places]
        opens = ~(now < ends)
        # The next window follows on the last one, whole intervals later.
        steps = np.floor((now - np.where(np.isnan(ends), now, ends)) / intervals) + 1
        new_ends = np.where(opens, np.where(np.isnan(ends), now, ends) + steps * intervals, ends)
        grows = ~opens & (memory_bytes > peaks)
        takes_back = np.flatnonzero(grows)
        counts = np.flatnonzero(opens | grows)
        self._ends[places[counts]] = new_ends[counts]
        self._peaks[places[counts]] = memory_bytes[counts]
        return (
            np.concatenate((rows[takes_back], rows[counts])),
            np.concatenate((peaks[takes_back], memory_bytes[counts])),
            np.concatenate((np.full(len(takes_back), -1.0), np.ones(len(counts)))),
            np.concatenate((ends[takes_back], new_ends[counts])),
        )

    def of_rows(self, rows: Iterable[int]) -> dict[int, list[MemoryWindow]]:
        """The windows of rows, those that were saved and not taken up too, with one look at the instances."""
        found = {row: list(self._saved.get(row, {}).values()) for row in rows}
        for instance, place in self._instances_of(list(found)):
            if not np.isnan(self._peaks[place]):
                found[int(self._row_of[place])].append(
                    MemoryWindow(instance.pod_uid, float(self._ends[place]), float(self._peaks[place]))
                )
        return found

    def restore(self, saved: Mapping[int, Iterable[MemoryWindow]]) -> None:
        """Know these windows of rows, in place of what was known, with one look at the instances."""
        for row, windows in saved.items():
            self._saved[row] = {window.pod_uid: window for window in windows}
        for instance, place in self._instances_of(list(saved)):
            self._open(place, self._saved[int(self._row_of[place])].pop(instance.pod_uid, None))

    def _open(self, place: int, window: MemoryWindow | None) -> None:
        self._ends[place] = window.ends_at if window else np.nan
        self._peaks[place] = window.peak_bytes if window else np.nan

    def _instances_of(self, rows: list[int]) -> list[tuple[InstanceKey, int]]:
        """The living instances of rows, and their places."""
        places = np.flatnonzero(np.isin(self._row_of[: len(self._instance_at)], rows))
        return [(one, place) for place in places.tolist() if (one := self._instance_at[place]) is not None]
