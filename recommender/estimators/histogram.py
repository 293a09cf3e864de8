"""VPA's rule: percentiles of a decaying histogram, a margin, and bounds that narrow with confidence.

Owns the formula (vertical-pod-autoscaler 1.8, pkg/recommender/logic/estimator.go), for all containers at once.
"""

from dataclasses import dataclass

import numpy as np

from recommender.histogram import Floats
from recommender.history import History
from recommender.settings import RecommenderSettings


@dataclass(frozen=True, slots=True, eq=False)
class Estimate:
    """One resource of every row: lower bound, target, upper bound as columns; NaN is "no data", infinity "no bound"."""

    values: Floats

    @property
    def lower(self) -> Floats:
        return self.values[:, 0]

    @property
    def target(self) -> Floats:
        return self.values[:, 1]

    @property
    def upper(self) -> Floats:
        return self.values[:, 2]


@dataclass(frozen=True, slots=True, eq=False)
class Estimates:
    """CPU in cores and memory in bytes, and how much they can be trusted."""

    cpu: Estimate
    memory: Estimate
    confidence: Floats


def estimate(history: History, settings: RecommenderSettings) -> Estimates:
    """The recommendation for every row, before any policy."""
    confidence = history.confidence()
    size = history.size
    cpu = bounded(history.cpu.percentiles()[:size], confidence, settings)
    memory = bounded(history.memory.percentiles()[:size], confidence, settings)
    return Estimates(Estimate(cpu), Estimate(proven(memory, history)), confidence)


def proven(memory: Floats, history: History) -> Floats:
    """Estimates of memory of every row, none below what kills have proven."""
    floor = history.oom_floor[: len(memory), np.newaxis]
    return np.where(floor > 0, np.fmax(memory, floor), memory)


def bounded(percentiles: Floats, confidence: Floats, settings: RecommenderSettings) -> Floats:
    """Percentiles (lower, target, upper) with margin, the bounds widened while there is little history."""
    values = percentiles * (1.0 + settings.margin_fraction)
    with np.errstate(divide="ignore"):
        inverse = 1.0 / confidence
    values[:, 0] *= (1.0 + 0.001 * inverse) ** -2.0
    values[:, 2] *= 1.0 + inverse
    values[:, 2] = np.where(
        confidence >= settings.enough_confidence, values[:, 2], np.where(np.isnan(values[:, 1]), np.nan, np.inf)
    )
    return values
