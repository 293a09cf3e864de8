"""Our estimators over recorded usage.

Owns the ways from a panel to what is in force: peaks, quantiles of the fleet, and what the rolling replay admits; with
the settings they are judged with, the same for every source.
"""

from typing import Final

import numpy as np

from elastipod.limitmodes import LimitMode
from recommender.estimators.admission import HISTOGRAM, Admission, AdmissionRule
from recommender.estimators.apart import limit
from recommender.estimators.candidates import CPU_MARGIN, HOLD, MARGINS, WINDOWS, moving, with_margins
from recommender.estimators.peaks import DAY, HOUR, Peaks
from recommender.estimators.quantile import QUANTILES, Features, Lessons, Models, Table, expected, is_fit_due
from recommender.histogram import Floats
from recommender.replay.peers import KILLED, trailing_peak
from recommender.replay.playing import Played, UpdateRule, play
from recommender.replay.series import Panel

TIGHT: Final = AdmissionRule(counts_over=False, fleet_days=2.0, share=0.9, least_record_seconds=DAY, band=0.05)
"""CPU: no more is left unserved than by the histogram."""
MEMORY: Final = AdmissionRule(
    counts_unserved=False,
    counts_over=False,
    kill_price=10.0,
    least_record_seconds=HOUR,
    half_life_seconds=365 * DAY,
    band=0.02,
)
"""Memory: a kill a day costs as much as ten times what is used."""

_BLOCK: Final = 256


def memory(panel: Panel, histogram: Played, rule: AdmissionRule = MEMORY) -> Played:
    """One size for request and limit: the peaks that the rolling replay admits."""
    levels = peaks(panel)
    return admitted(panel, with_margins(levels), histogram, rule, bump=KILLED)


def memory_guarded(panel: Panel) -> Played:
    """One size for request and limit: the last hour's peak +2 %, with the restart guard."""
    return play(panel, peaks(panel)[len(WINDOWS)] * MARGINS[0], UpdateRule(band=0.02, bump=KILLED))


def memory_apart(panel: Panel) -> tuple[Played, Played]:
    """A request for the last hour +2 %, and a limit apart: the last week's peak +30 %."""
    levels = peaks(panel)
    request = play(panel, levels[0] * MARGINS[0], UpdateRule(band=0.01))
    week = levels[len(WINDOWS) - 1]
    highest = limit(LimitMode.INDEPENDENT, levels[0] * MARGINS[0], week, np.full(week.shape, np.nan))
    return request, play(panel, highest, UpdateRule(band=0.02, bump=KILLED))


def cpu(panel: Panel, histogram: Played, quantiles: Floats, rule: AdmissionRule) -> Played:
    """The quantiles and peaks that the rolling replay admits."""
    told = moving(quantiles)
    held = np.stack([trailing_peak(one, panel.steps(HOLD)) for one in told])
    levels = peaks(panel)[: len(WINDOWS)] * CPU_MARGIN
    return admitted(panel, np.concatenate((told, held, levels)), histogram, rule)


def admitted(panel: Panel, candidates: Floats, histogram: Played, rule: AdmissionRule, *, bump: float = 0.0) -> Played:
    """What is in force where the rolling replay chooses at every step."""
    columns = np.arange(len(panel.names))
    admission = Admission(len(candidates), len(columns), rule)
    wanted = np.full(panel.values.shape, np.nan)
    # What the histogram has in force at the next step is what it makes of this one.
    histograms = np.concatenate((histogram.allocated[1:], histogram.allocated[-1:]))
    for step, used in enumerate(panel.values):
        admission.see(used, histogram.allocated[step], panel.step_seconds)
        admission.want(candidates[:, step])
        choice = admission.choice()
        wanted[step] = np.where(choice == HISTOGRAM, histograms[step], candidates[choice, step, columns])
    return play(panel, wanted, UpdateRule(band=rule.band, raise_band=rule.raise_band, bump=bump))


def peaks(panel: Panel) -> Floats:
    """The peaks of all windows at each step, and after them the same with the restart guard."""
    found = np.full((len(WINDOWS) + 2, *panel.values.shape), np.nan)
    seen = Peaks(len(panel.names))
    for step, used in enumerate(panel.values):
        seen.see(used, step * panel.step_seconds)
        found[: len(WINDOWS), step] = seen.peaks(WINDOWS)
        found[len(WINDOWS) :, step] = seen.guarded(WINDOWS[:2])
    return found


def fleet_quantiles(panel: Panel) -> Floats:
    """What the fleet's own models expect of each next step, by quantile; NaN before there are any.

    A model is fitted only with what was seen before, and speaks from then on.
    """
    features, lessons, models = Features(len(panel.names)), Lessons(), None
    found = np.full((len(QUANTILES), *panel.values.shape), np.nan)
    tables: list[Table] = []
    fitted: float | None = None
    for step, used in enumerate(panel.values):
        at = step * panel.step_seconds
        if tables:
            lessons.take(tables[-1], panel.values[step - 1], used)
        features.see(used, at)
        if is_fit_due(at, fitted):
            _speak(models, panel, tables, step, found)
            models, fitted = lessons.fit() or models, at
            tables = []
        tables.append(features.table())
        if len(tables) == _BLOCK:
            _speak(models, panel, tables[:-1], step, found)
            tables = tables[-1:]
    _speak(models, panel, tables, len(panel.values), found)
    return found


def _speak(models: Models | None, panel: Panel, tables: list[Table], end: int, found: Floats) -> None:
    """Write what models make of the tables of the steps before an end."""
    if models is None or not tables:
        return
    steps = slice(end - len(tables), end)
    told = expected(models, np.concatenate(tables), panel.values[steps].reshape(-1))
    found[:, steps] = told.reshape(len(QUANTILES), len(tables), -1)
