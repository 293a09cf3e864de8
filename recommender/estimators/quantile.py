"""What a container will use in its next interval, as quantiles learnt from the own fleet.

Owns the features, the lessons that are kept of the fleet, and the models: gradient-boosted quantiles (scikit-learn) of
log(next use / use now). All features are scale-free, so one fleet's models serve its small and large containers alike.
Nothing is stored: a fit takes seconds.
"""

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from recommender.estimators.peaks import DAY, HOUR, MINUTE, WEEK, Peaks
from recommender.histogram import Floats

QUANTILES: Final = (0.8, 0.9, 0.95, 0.98, 0.995)

_LEAST: Final = 1e-3
"""Less use than this counts as so much: ratios of next to nothing say nothing."""
_PEAKS: Final = (15 * MINUTE, HOUR, 3 * HOUR, 6 * HOUR, DAY, 3 * DAY, WEEK)
_LEASTS: Final = (15 * MINUTE, HOUR)
_LAGS: Final = (1, 2, 3, 6)
_SWINGS: Final = (HOUR / 2, 3 * HOUR, DAY)
_HOURS_AGO: Final = (23, 167)
"""The hours that begin now, a day and a week ago."""
_BLOCKS_AGO: Final = (11, 286, 287, 288)
"""The 5 minutes that follow now, an hour ago; and a day ago with those beside them."""
FEATURES: Final = len(_PEAKS) + len(_LEASTS) + len(_LAGS) + len(_SWINGS) + len(_HOURS_AGO) + 4

_MOST_LESSONS: Final = 20_000
_FEWEST_LESSONS: Final = 1_000
_FIRST_FIT: Final = 3 * HOUR
Table = NDArray[np.float32]


class Features:
    """What is known of each row now, as numbers that do not change with its size."""

    def __init__(self, rows: int) -> None:
        # Logarithms: a millionth more or less of a size is nothing.
        self._peaks = Peaks(rows, looks_back=True, dtype=np.float32)
        self._past = np.full((max(_LAGS) + 1, rows), np.nan, dtype=np.float32)
        self._swings = np.zeros((len(_SWINGS), rows), dtype=np.float32)
        self._mean = np.full(rows, np.nan)
        self._seen_at: float | None = None

    def see(self, used: Floats, at: float) -> None:
        """Take a sample of every row; NaN is "not seen"."""
        now = np.log(np.maximum(used, _LEAST))
        elapsed = 0.0 if self._seen_at is None else at - self._seen_at
        self._seen_at = at
        self._peaks.see(now, at)
        step = np.nan_to_num(np.abs(now - self._past[0]))
        for which, seconds in enumerate(_SWINGS):
            self._swings[which] += (step - self._swings[which]) * -np.expm1(-elapsed / seconds)
        self._mean = np.where(
            np.isnan(self._mean), now, self._mean + np.nan_to_num(now - self._mean) * -np.expm1(-elapsed / DAY)
        )
        self._past = np.roll(self._past, 1, axis=0)
        self._past[0] = now

    def arrays(self) -> list[NDArray[Any]]:
        """All that is kept of rows; a row is the last place of each."""
        return [*self._peaks.arrays(), self._past, self._swings, self._mean]

    def highest(self, windows: Sequence[float]) -> Floats:
        """The most that was used in windows that end now, a line each."""
        return np.asarray(np.exp(self._peaks.peaks(windows)))

    def clear(self, row: int) -> None:
        """Make a row empty, for its next owner."""
        self._peaks.clear(row)
        self._past[:, row] = self._mean[row] = np.nan
        self._swings[:, row] = 0.0

    def table(self) -> Table:
        """A line per row; what is not known yet is 0, "as now"."""
        now = self._past[0]
        hour_ago, *day_ago = self._peaks.short_peaks(_BLOCKS_AGO)
        columns = [
            *(self._peaks.peaks(_PEAKS) - now),
            *(self._peaks.leasts(_LEASTS) - now),
            *(now - self._past[list(_LAGS)]),
            *self._swings,
            *(self._peaks.hour_peaks(_HOURS_AGO) - now),
            hour_ago - now,
            day_ago[1] - now,
            np.fmax.reduce(day_ago) - now,
            self._mean - now,
        ]
        table: Table = np.nan_to_num(np.stack(columns, axis=1)).astype(np.float32)
        return table


class Lessons:
    """An even sample of all that the fleet has shown: features, and what came of them."""

    def __init__(self, seed: int = 0) -> None:
        self._choose = np.random.default_rng(seed)
        self._features = np.zeros((_MOST_LESSONS, FEATURES), dtype=np.float32)
        self._grown = np.zeros(_MOST_LESSONS, dtype=np.float32)
        self.seen = 0

    def take(self, features: Table, before: Floats, after: Floats) -> None:
        """Learn how use went on; rows that were not seen at both times teach nothing."""
        grown = np.log(np.maximum(after, _LEAST) / np.maximum(before, _LEAST))
        taught = np.flatnonzero(np.isfinite(grown))
        numbers = self.seen + np.arange(len(taught))
        self.seen += len(taught)
        # Each lesson ever seen is kept with the same chance.
        places = np.where(numbers < _MOST_LESSONS, numbers, self._choose.integers(0, numbers + 1))
        is_kept = places < _MOST_LESSONS
        self._features[places[is_kept]] = features[taught[is_kept]]
        self._grown[places[is_kept]] = grown[taught[is_kept]]

    @property
    def kept(self) -> int:
        """How many there are to learn from."""
        return min(self.seen, _MOST_LESSONS)

    def copy(self) -> "Lessons":
        """As they are now, for a fit that takes its time."""
        taken = Lessons()
        taken.seen = self.seen
        taken._features, taken._grown = self._features.copy(), self._grown.copy()
        return taken

    def fit(self, quantiles: Sequence[float] = QUANTILES) -> "Models | None":
        """Models of all that was learnt; None where that is too little."""
        count = self.kept
        if count < _FEWEST_LESSONS:
            return None
        return Models(self._features[:count], self._grown[:count], quantiles)


class Models:
    """A model for each quantile of growth."""

    def __init__(self, features: Table, grown: Table, quantiles: Sequence[float]) -> None:
        from sklearn.ensemble import HistGradientBoostingRegressor
        from threadpoolctl import threadpool_limits

        # scikit-learn can not bin a column with one value.
        self._columns = np.flatnonzero(np.ptp(features, axis=0) > 0)
        self._models: list[Any] = []
        # One thread: several would wait for each other by spinning where cores are shared.
        with threadpool_limits(1):
            for quantile in quantiles:
                model = HistGradientBoostingRegressor(
                    loss="quantile",
                    quantile=quantile,
                    max_iter=60,
                    max_leaf_nodes=15,
                    min_samples_leaf=30,
                    early_stopping=False,
                    random_state=0,
                )
                self._models.append(model.fit(features[:, self._columns], grown))

    def growth(self, features: Table) -> Floats:
        """Log growth by quantile, a line each; a higher quantile is never below a lower one."""
        from threadpoolctl import threadpool_limits

        with threadpool_limits(1):
            found = np.stack([model.predict(features[:, self._columns]) for model in self._models])
        rising: Floats = np.maximum.accumulate(found, axis=0)
        return rising


def expected(models: Models, features: Table, used: Floats) -> Floats:
    """What rows will use in their next interval at most, by quantile; NaN where nothing was seen."""
    return np.asarray(np.maximum(used, _LEAST) * np.exp(models.growth(features)))


def is_fit_due(history_seconds: float, last_fit_seconds: float | None) -> bool:
    """Whether models are to be fitted anew: after 3 hours, then with three times as much history or after a week."""
    if last_fit_seconds is None:
        return history_seconds >= _FIRST_FIT
    return history_seconds >= min(3 * last_fit_seconds, last_fit_seconds + WEEK)
