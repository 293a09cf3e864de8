"""A request and a limit, each its own answer.

Owns what becomes of the limit when a request is found. The request says what is reserved and decides slack; the limit
says what is enforced and decides kills. So where a policy allows, the limit follows the most of a week, and not the
request. A status has no word for a limit: its upper bound is what carries it.
"""

from typing import Final

import numpy as np

from elastipod.limitmodes import LimitMode, LimitModes
from recommender.estimators.histogram import Estimate, Estimates
from recommender.histogram import Floats, HistogramBank
from recommender.history import History
from recommender.settings import RecommenderSettings

LIMIT_MARGIN: Final = 1.3
"""An independent limit is the week's peak times this."""


def limit(mode: LimitMode, request: Floats, week_peak: Floats, ratio: Floats) -> Floats:
    """The limit of each row, never below its request; NaN is "no limit".

    `ratio` is limit to request as the owner stated them; NaN where there is no limit to keep.
    """
    match mode:
        case LimitMode.PROPORTIONAL:
            return np.asarray(request * np.maximum(ratio, 1.0))
        case LimitMode.INDEPENDENT:
            return np.asarray(np.fmax(request, week_peak * LIMIT_MARGIN))
        case LimitMode.UNSET:
            return np.full(request.shape, np.nan)


class Apart:
    """The rows whose limits are apart from their requests."""

    def __init__(self, settings: RecommenderSettings) -> None:
        self._settings = settings
        self._modes: dict[int, LimitModes] = {}

    def want(self, row: int, modes: LimitModes) -> None:
        """Find the limits of this row by these modes."""
        if LimitMode.INDEPENDENT in (modes.cpu, modes.memory):
            self._modes[row] = modes
        else:
            self.let_go(row)

    def let_go(self, row: int) -> None:
        """This row's limits follow its requests, or it is gone."""
        self._modes.pop(row, None)

    def bounded(self, estimates: Estimates, history: History, now: float) -> Estimates:
        """The estimates with the limit as upper bound where a limit is independent: what was used most, and a third.

        It is taken from the histogram, as far back as a checkpoint tells: a restart lowers no limit.
        """
        if not self._modes:
            return estimates
        settings = self._settings
        faded = 2.0 ** (-settings.history_seconds / settings.half_life_seconds)
        return Estimates(
            _bounded(estimates.cpu, history.cpu, self._apart("cpu"), now, faded * settings.cpu_sample_weight),
            _bounded(estimates.memory, history.memory, self._apart("memory"), now, faded),
            estimates.confidence,
        )

    def _apart(self, resource: str) -> list[int]:
        return [row for row, modes in self._modes.items() if modes.of(resource) is LimitMode.INDEPENDENT]


def _bounded(estimate: Estimate, bank: HistogramBank, rows: list[int], now: float, least_weight: float) -> Estimate:
    if not rows:
        return estimate
    values = estimate.values.copy()
    most = bank.highest(np.array(rows), now, least_weight)
    values[rows, 2] = np.fmax(values[rows, 2], most * LIMIT_MARGIN)
    return Estimate(values)
