"""What is in force while a history is played.

Owns the rule of a replay: at a step the sample is seen, a size wanted, and the update rule applied; what comes of it
is in force from the next step. Nothing here sees further than its step.
"""

from dataclasses import dataclass

import numpy as np

from recommender.estimators.peaks import HOUR
from recommender.histogram import Floats
from recommender.replay.series import Flags, Panel


@dataclass(frozen=True, slots=True)
class UpdateRule:
    """When what is wanted is put in force."""

    band: float = 0.0
    """A lower size is left alone while it saves no more than this fraction of what is wanted."""
    raise_band: float = 0.0
    """A higher size is left alone while it is no more than this fraction above what is in force."""
    young_seconds: float = 0.0
    """So long after its first sample a size changes only where a bound is passed."""
    bump: float = 0.0
    """After use above what is in force, so much above that use ..."""
    bump_seconds: float = HOUR
    """... for so long."""


@dataclass(frozen=True, slots=True, eq=False)
class Played:
    """What was in force at each step (NaN before the first sample), and where it was changed after a step."""

    allocated: Floats
    changed: Flags


def play(panel: Panel, wanted: Floats, rule: UpdateRule, bounds: tuple[Floats, Floats] | None = None) -> Played:
    """Play a panel with what is wanted after each step; outside of bounds (lower, upper) a size is changed at once."""
    steps, columns = panel.values.shape
    allocated = np.full((steps, columns), np.nan)
    changed = np.zeros((steps, columns), dtype=bool)
    now_in_force = np.full(columns, np.nan)
    first_at = np.argmax(panel.seen, axis=0) * panel.step_seconds
    bumped, bumped_until = np.zeros(columns), np.full(columns, -np.inf)
    for step in range(steps):
        allocated[step] = now_in_force
        used, at = panel.values[step], step * panel.step_seconds
        wants = wanted[step]
        is_over = used > now_in_force
        if rule.bump:
            still = np.where(bumped_until > at, bumped, 0.0)
            bumped = np.where(is_over, np.maximum(still, used * (1.0 + rule.bump)), bumped)
            bumped_until = np.where(is_over, at + rule.bump_seconds, bumped_until)
            wants = np.where(bumped_until > at, np.fmax(wants, bumped), wants)
        moves = (wants > now_in_force * (1.0 + rule.raise_band)) | (now_in_force > wants * (1.0 + rule.band))
        moves &= at - first_at >= rule.young_seconds
        if bounds is not None:
            moves |= (now_in_force < bounds[0][step]) | (now_in_force > bounds[1][step])
        if rule.bump:
            moves |= is_over & (wants > now_in_force)
        moves |= np.isnan(now_in_force)
        moves &= np.isfinite(used) & np.isfinite(wants) & (wants != now_in_force)
        changed[step] = moves & ~np.isnan(now_in_force)
        now_in_force = np.where(moves, wants, now_in_force)
    return Played(allocated, changed)
