"""A VerticalPodAutoscaler's status: what stands in it, and when it is worth a write.

Owns both. A status is written when it moves a decision or a reader's picture, not because a confidence grew.
"""

from collections.abc import Iterable
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from elastipod.api import (
    AutoscalerStatus,
    Condition,
    ContainerRecommendation,
    Recommendation,
    ResourceList,
    resource_list,
    resources,
)
from elastipod.quantities import QuantityError, Resources
from recommender.estimators.histogram import Estimate, Estimates
from recommender.histogram import Floats
from recommender.ranges import Capped, Range
from recommender.settings import RecommenderSettings

Flags = NDArray[np.bool_]


class Published:
    """What was last written for every row, before caps, and which rows have moved since.

    A bound that moved matters when it now stands on the other side of a live request, or when it moved far.
    """

    def __init__(self, settings: RecommenderSettings) -> None:
        self._settings = settings
        self._cpu = np.zeros((0, 3))
        self._memory = np.zeros((0, 3))

    def moved(self, estimates: Estimates, requests: Floats) -> Flags:
        """Rows that are worth a write. `requests` holds, per row, the least and most CPU and memory that live pods ask.

        Columns: least cores, most cores, least bytes, most bytes; NaN where none asks.
        """
        self._reserve(len(estimates.confidence))
        size = len(estimates.confidence)
        return self._moved(self._cpu[:size], estimates.cpu, requests[:, :2]) | self._moved(
            self._memory[:size], estimates.memory, requests[:, 2:]
        )

    def write(self, estimates: Estimates, rows: NDArray[np.int64]) -> None:
        """These rows have been written as they are now."""
        self._reserve(len(estimates.confidence))
        self._cpu[rows] = estimates.cpu.values[rows]
        self._memory[rows] = estimates.memory.values[rows]

    def forget(self, row: int) -> None:
        """The row is somebody else's now."""
        if row < len(self._cpu):
            self._cpu[row] = self._memory[row] = np.nan

    def _reserve(self, size: int) -> None:
        if size > len(self._cpu):
            more = max(size, len(self._cpu) * 5 // 4 + 64) - len(self._cpu)
            self._cpu = np.pad(self._cpu, ((0, more), (0, 0)), constant_values=np.nan)
            self._memory = np.pad(self._memory, ((0, more), (0, 0)), constant_values=np.nan)

    def _moved(self, old: Floats, new: Estimate, requests: Floats) -> Flags:
        settings = self._settings
        appeared = np.isnan(old[:, 1]) & ~np.isnan(new.target)
        with np.errstate(invalid="ignore", divide="ignore"):
            target_moved = np.abs(new.target - old[:, 1]) > settings.target_tolerance * old[:, 1]
            farthest = 1.0 + settings.bound_tolerance
            lower_moved = _far(old[:, 0], new.lower, farthest)
            upper_moved = _far(old[:, 2], new.upper, farthest)
            least, most = requests[:, 0], requests[:, 1]
            decides = ((least < new.lower) != (least < old[:, 0])) | ((most > new.upper) != (most > old[:, 2]))
        moved: Flags = appeared | target_moved | (~np.isnan(new.target) & (lower_moved | upper_moved | decides))
        return moved


def _far(old: Floats, new: Floats, farthest: float) -> Flags:
    """Whether a bound moved by more than a factor, or appeared, or went away."""
    both = np.isfinite(old) & np.isfinite(new)
    moved: Flags = np.where(both, (new > old * farthest) | (old > new * farthest), np.isfinite(old) != np.isfinite(new))
    return moved


def recommendation(containers: Iterable[Capped]) -> Recommendation | None:
    """As the API has it, sorted by container; None where nothing is recommended."""
    found = [
        ContainerRecommendation(
            container_name=one.container,
            target=_amounts(one, "target"),
            lower_bound=_amounts(one, "lower") or None,
            upper_bound=_amounts(one, "upper") or None,
            uncapped_target=_amounts(one, "uncapped") or None,
        )
        for one in sorted(containers, key=lambda one: one.container)
        if one.cpu is not None or one.memory is not None
    ]
    return Recommendation(container_recommendations=found) if found else None


def status_patch(uid: str, generation: int, status: AutoscalerStatus) -> bytes:
    """A JSON patch that sets the status of this very object, as long as its spec is the one that was read."""
    known = {"uid": uid, "generation": generation}
    patch: list[dict[str, Any]] = [
        {"op": "test", "path": f"/metadata/{name}", "value": value} for name, value in known.items() if value
    ]
    patch.append({"op": "add", "path": "/status", "value": msgspec.to_builtins(status)})
    return msgspec.json.encode(patch)


def says_the_same(
    one: AutoscalerStatus, other: AutoscalerStatus, target_tolerance: float = 0.0, bound_tolerance: float = 0.0
) -> bool:
    """Whether a reader sees no difference; amounts may differ by a fraction."""
    return (
        _is_near(one.recommendation, other.recommendation, target_tolerance, bound_tolerance)
        and one.observed_generation == other.observed_generation
        and _without_times(one.conditions) == _without_times(other.conditions)
    )


def _is_near(
    one: Recommendation | None, other: Recommendation | None, target_tolerance: float, bound_tolerance: float
) -> bool:
    if one == other or one is None or other is None:
        return one == other
    ours, theirs = one.container_recommendations or [], other.container_recommendations or []
    if [each.container_name for each in ours] != [each.container_name for each in theirs]:
        return False
    return all(
        _are_near(getattr(mine, which), getattr(its, which), tolerance)
        for mine, its in zip(ours, theirs, strict=True)
        for which, tolerance in (
            ("target", target_tolerance),
            ("uncapped_target", target_tolerance),
            ("lower_bound", bound_tolerance),
            ("upper_bound", bound_tolerance),
        )
    )


def _are_near(one: ResourceList | None, other: ResourceList | None, tolerance: float) -> bool:
    if one == other:
        return True
    if (one or {}).keys() != (other or {}).keys():
        return False
    try:
        mine, its = resources(one), resources(other)
    except QuantityError:
        return False
    return all(
        abs(amount - before) <= tolerance * before
        for amount, before in ((mine.cpu, its.cpu), (mine.memory, its.memory))
    )


def _without_times(found: list[Condition] | None) -> list[tuple[str, str, str, str]]:
    return [(one.type, one.status, one.reason, one.message) for one in found or ()]


def _amounts(capped: Capped, which: str) -> ResourceList:
    def amount(span: Range | None) -> int | None:
        found: int | None = getattr(span, which) if span is not None else None
        return found

    return resource_list(Resources(amount(capped.cpu), amount(capped.memory)))
