"""How good what was in force was.

Owns the words of the score. *Slack*: the share of what is reserved that is not used. *Kills*: times that use rose above
the limit, per day. *Unserved*: use above what is reserved, per use. *Over*: the share of time with use above it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np

from recommender.estimators.peaks import DAY, HOUR
from recommender.histogram import Floats
from recommender.replay.playing import Played
from recommender.replay.series import Flags, Panel


@dataclass(frozen=True, slots=True, eq=False)
class Scores:
    """The score of each series of a panel."""

    days: Floats
    slack: Floats
    kills: Floats
    """How many, not per day."""
    unserved: Floats
    over: Floats
    resizes: Floats
    """Per day."""
    reserved_hours: Floats
    """Cores, or bytes, times hours."""
    used_hours: Floats

    def part(self, columns: Flags) -> "Scores":
        """Of some of the series."""
        return Scores(*(getattr(self, one.name)[columns] for one in fields(self)))


@dataclass(frozen=True, slots=True)
class Summary:
    """The score of many series: means over them, and sums of hours."""

    series: int
    slack: float
    kills_a_day: float
    unserved: float
    over: float
    resizes_a_day: float
    reserved_hours: float
    used_hours: float


def score(panel: Panel, request: Played, limit: Played | None = None) -> Scores:
    """Score what was in force, after the warm-up; use above the limit kills, where there is one apart."""
    steps = np.arange(len(panel.values))[:, np.newaxis]
    counts = panel.seen & np.isfinite(request.allocated) & (steps >= panel.warm_up)
    used = np.where(counts, panel.values, 0.0)
    reserved = np.where(counts, request.allocated, 0.0)
    highest = request.allocated if limit is None else limit.allocated
    above_limit = counts & (panel.values > highest)
    begins = above_limit.copy()
    begins[1:] &= ~above_limit[:-1]
    number = counts.sum(axis=0)
    days = number * panel.step_seconds / DAY
    with np.errstate(divide="ignore", invalid="ignore"):
        return Scores(
            days=days,
            slack=(reserved.sum(axis=0) - used.sum(axis=0)) / reserved.sum(axis=0),
            kills=begins.sum(axis=0).astype(np.float64),
            unserved=np.maximum(used - reserved, 0.0).sum(axis=0) / used.sum(axis=0),
            over=(used > reserved).sum(axis=0) / number,
            resizes=(request.changed & counts).sum(axis=0) / days,
            reserved_hours=reserved.sum(axis=0) * panel.step_seconds / HOUR,
            used_hours=used.sum(axis=0) * panel.step_seconds / HOUR,
        )


def summary(scores: Sequence[Scores]) -> Summary:
    """All series together, each weighing the same; kills are per day of all."""

    def joined(name: str) -> Floats:
        return np.concatenate([getattr(one, name) for one in scores])

    days = joined("days")
    is_scored = days > 0
    if not is_scored.any():
        return Summary(0, *(float("nan"),) * 5, 0.0, 0.0)

    def mean(name: str) -> float:
        values = joined(name)[is_scored]
        return float(np.mean(values[np.isfinite(values)])) if np.isfinite(values).any() else float("nan")

    return Summary(
        series=int(is_scored.sum()),
        slack=mean("slack"),
        kills_a_day=float(joined("kills").sum() / days.sum()),
        unserved=mean("unserved"),
        over=mean("over"),
        resizes_a_day=mean("resizes"),
        reserved_hours=float(joined("reserved_hours").sum()),
        used_hours=float(joined("used_hours").sum()),
    )
