"""Other systems' rules, and what one who knew the future would do, to compare with.

Owns their formulas and their ways to update, for all series of a panel at once. Floors are off.
"""

from collections.abc import Callable
from typing import Final

import numpy as np

from recommender.estimators.histogram import bounded
from recommender.estimators.peaks import DAY, HOUR
from recommender.histogram import CPU_FIRST_BUCKET, MEMORY_FIRST_BUCKET, Floats, HistogramBank, buckets_from
from recommender.replay.playing import Played, UpdateRule, play
from recommender.replay.series import Panel
from recommender.settings import RecommenderSettings

KILLED: Final = 0.2
"""After a kill for memory everyone gives this much more for an hour."""
_EPOCH: Final = 1e9
_VPA: Final = RecommenderSettings()


def vpa(panel: Panel, *, is_memory: bool) -> Played:
    """Vertical Pod Autoscaler, in place: p90 +15 %, changed outside its bounds, or by a tenth once 12 hours old."""
    percentiles = _memory_percentiles(panel) if is_memory else _cpu_percentiles(panel)
    confidence = np.cumsum(panel.seen, axis=0) * panel.step_seconds / DAY
    flat = np.asarray(confidence, dtype=np.float64).reshape(-1)
    bounds = bounded(percentiles.reshape(-1, 3), flat, _VPA).reshape(percentiles.shape)
    rule = UpdateRule(band=0.1, raise_band=0.1, young_seconds=12 * HOUR, bump=KILLED if is_memory else 0.0)
    return play(panel, bounds[..., 1], rule, (bounds[..., 0], bounds[..., 2]))


def krr(panel: Panel, *, is_memory: bool) -> Played:
    """Kubernetes Resource Recommender: of 14 days the peak +15 % for memory, p95 for CPU; after 3 hours, then daily."""
    window, daily = panel.steps(14 * DAY), panel.steps(DAY)
    wanted = np.full(panel.values.shape, np.nan)
    for step in range(panel.steps(3 * HOUR) - 1, len(wanted), daily):
        seen = panel.values[max(step + 1 - window, 0) : step + 1]
        has = np.isfinite(seen).any(axis=0)
        quantile = np.nanquantile(seen[:, has], 1.0 if is_memory else 0.95, axis=0)
        wanted[step : step + daily, has] = quantile * (1.15 if is_memory else 1.0)
    return play(panel, wanted, UpdateRule(bump=KILLED if is_memory else 0.0))


def autopilot(panel: Panel, *, is_memory: bool) -> Played:
    """Autopilot's moving window: the peak of 4 days for memory, p95 with half-life 12 h for CPU; +15 %."""
    if is_memory:
        target = trailing_peak(panel.values, panel.steps(2 * 48 * HOUR)) * 1.15
    else:
        target = _decayed(panel, 12 * HOUR, (0.95,))[..., 0] * 1.15
    wanted = trailing_peak(target, panel.steps(HOUR))
    return play(panel, wanted, UpdateRule(band=0.05, bump=KILLED if is_memory else 0.0))


def recent_peak(panel: Panel, *, seconds: float, is_memory: bool) -> Played:
    """The peak of a window +5 %."""
    wanted = trailing_peak(panel.values, panel.steps(seconds)) * 1.05
    return play(panel, wanted, UpdateRule(bump=KILLED if is_memory else 0.0))


def oracle(panel: Panel, *, seconds: float) -> Played:
    """The peak of the window to come, known beforehand: no rule that keeps a size so long can do better."""
    ahead = trailing_peak(panel.values[::-1], panel.steps(seconds))[::-1]
    changed = np.zeros(ahead.shape, dtype=bool)
    changed[1:] = ahead[1:] != ahead[:-1]
    return Played(ahead, changed)


PEERS: Final[dict[str, Callable[..., Played]]] = {"vpa": vpa, "krr": krr, "autopilot": autopilot}


def trailing_peak(values: Floats, steps: int) -> Floats:
    """The maximum of the last steps at each; NaN only where none of them was seen."""
    found, width = values, 1
    while width < steps:
        more = min(width, steps - width)
        shifted = np.full(values.shape, np.nan)
        shifted[more:] = found[:-more] if more < len(found) else shifted[more:]
        found = np.fmax(found, shifted)
        width += more
    return found


def _cpu_percentiles(panel: Panel) -> Floats:
    return _decayed(
        panel, _VPA.half_life_seconds, (_VPA.lower_percentile, _VPA.target_percentile, _VPA.upper_percentile)
    )


def _decayed(panel: Panel, half_life: float, percentiles: tuple[float, ...]) -> Floats:
    """Percentiles of use that halves in weight with age, at each step."""
    columns = panel.values.shape[1]
    bank = HistogramBank(buckets_from(CPU_FIRST_BUCKET), half_life, percentiles)
    bank.reserve(columns)
    found = np.full((*panel.values.shape, len(percentiles)), np.nan)
    for step, used in enumerate(panel.values):
        rows = np.flatnonzero(np.isfinite(used))
        at = np.full(len(rows), _EPOCH + step * panel.step_seconds)
        bank.add(rows, used[rows], np.full(len(rows), 0.1), at)
        found[step] = bank.percentiles()[:columns]
    return found


def _memory_percentiles(panel: Panel) -> Floats:
    """Percentiles of daily peaks; the running day's counts from its first sample on, as upstream's."""
    columns = panel.values.shape[1]
    bank = HistogramBank(
        buckets_from(MEMORY_FIRST_BUCKET),
        _VPA.half_life_seconds,
        (_VPA.lower_percentile, _VPA.target_percentile, _VPA.upper_percentile),
    )
    bank.reserve(columns)
    found = np.full((*panel.values.shape, 3), np.nan)
    peaks, ends = np.full(columns, np.nan), np.full(columns, -np.inf)
    for step, used in enumerate(panel.values):
        at = _EPOCH + step * panel.step_seconds
        opens = np.isfinite(used) & (at >= ends)
        grows = ~opens & (used > peaks)
        back, counted = np.flatnonzero(grows), np.flatnonzero(opens | grows)
        new_ends = np.where(opens, at + _VPA.memory_interval_seconds, ends)
        bank.add(
            np.concatenate((back, counted)),
            np.concatenate((peaks[back], used[counted])),
            np.concatenate((np.full(len(back), -1.0), np.ones(len(counted)))),
            np.concatenate((ends[back], new_ends[counted])),
        )
        peaks, ends = np.where(opens | grows, used, peaks), new_ends
        found[step] = bank.percentiles()[:columns]
    return found
