"""Two histories of the same container made one: what is found later, and what was heard meanwhile.

Owns what becomes of a time that both speak of: it counts once. Reads and writes nothing.
"""

import math
from typing import Final

import numpy as np
from msgspec import structs

from recommender.histogram import MEMORY_FIRST_BUCKET, HistogramState, buckets_from
from recommender.history import ContainerHistory
from recommender.oom import MOST_KILL_IDS, OomEvidence
from recommender.windows import MemoryWindow

_ROUNDING: Final = 1e-6


def joined(saved: ContainerHistory, ours: ContainerHistory, half_life_seconds: float) -> ContainerHistory:
    """All that both know. Of two that overlap, one that goes back as far as the other has it in itself.

    What is saved of the first requests holds: ours were seen after a start.
    """
    earlier, later = sorted((saved, ours), key=_heard_until)
    oom = _joined_evidence(earlier.oom, later.oom)
    before = ours.before if saved.before is None else saved.before
    runs = saved.runs or ours.runs
    if _heard_from(later) <= _heard_from(earlier):
        return structs.replace(later, oom=oom, before=before, runs=runs)
    if _heard_until(earlier) > _heard_from(later):
        return structs.replace(max(later, earlier, key=lambda one: one.samples), oom=oom, before=before, runs=runs)
    return ContainerHistory(
        cpu=_sum(earlier.cpu, later.cpu, half_life_seconds),
        memory=_sum(earlier.memory, later.memory, half_life_seconds),
        first_sample_at=earlier.first_sample_at,
        last_sample_at=later.last_sample_at,
        samples=earlier.samples + later.samples,
        windows=later.windows,
        oom=oom,
        steps=later.steps,
        before=before,
        runs=runs,
    )


def _heard_from(history: ContainerHistory) -> float:
    return math.inf if history.first_sample_at is None else history.first_sample_at


def _heard_until(history: ContainerHistory) -> float:
    return -math.inf if history.last_sample_at is None else history.last_sample_at


def _sum(one: HistogramState | None, other: HistogramState | None, half_life_seconds: float) -> HistogramState | None:
    if one is None or other is None:
        return one or other
    reference_at = max(one.reference_at, other.reference_at)
    weights: dict[int, float] = {}
    for state in (one, other):
        scale = 2.0 ** ((state.reference_at - reference_at) / half_life_seconds)
        for bucket, weight in state.weights:
            weights[bucket] = weights.get(bucket, 0.0) + weight * scale
    return HistogramState(tuple(sorted(weights.items())), reference_at)


def _joined_evidence(earlier: OomEvidence, later: OomEvidence) -> OomEvidence:
    """The higher floor, and every kill that either has counted."""
    kill_ids = tuple(dict.fromkeys((*earlier.kill_ids, *later.kill_ids)))[-MOST_KILL_IDS:]
    return structs.replace(
        max(later, earlier, key=lambda one: one.floor_bytes),
        proven_bytes=max(earlier.proven_bytes, later.proven_bytes),
        at=max(earlier.at, later.at),
        kills=max(earlier.kills, later.kills, len(kill_ids)),
        kill_ids=kill_ids,
    )


def filled(ours: ContainerHistory, found: ContainerHistory, half_life_seconds: float) -> ContainerHistory:
    """Our history, and what was found of times that it does not speak of.

    An instance's running interval goes on from the one into the other, so of its two peaks the higher counts.
    """
    memory = _sum(found.memory, ours.memory, half_life_seconds)
    windows = {window.pod_uid: window for window in ours.windows}
    for before in found.windows:
        after = windows.get(before.pod_uid)
        if after is None:
            windows[before.pod_uid] = before
            continue
        lower, higher = sorted((before, after), key=lambda window: (window.peak_bytes, window is after))
        memory = _without(memory, lower, half_life_seconds)
        windows[before.pod_uid] = higher
    return ContainerHistory(
        cpu=_sum(found.cpu, ours.cpu, half_life_seconds),
        memory=memory,
        first_sample_at=min(_times(found.first_sample_at, ours.first_sample_at), default=None),
        last_sample_at=max(_times(found.last_sample_at, ours.last_sample_at), default=None),
        samples=found.samples + ours.samples,
        windows=tuple(windows[uid] for uid in sorted(windows)),
        oom=ours.oom,
        steps=ours.steps,
        before=ours.before,
    )


def _times(*times: float | None) -> list[float]:
    return [at for at in times if at is not None]


def _without(state: HistogramState | None, window: MemoryWindow, half_life_seconds: float) -> HistogramState | None:
    """A histogram of peaks with the peak of this interval taken back."""
    if state is None:
        return None
    place = int(buckets_from(MEMORY_FIRST_BUCKET).index(np.array([window.peak_bytes]))[0])
    weights = dict(state.weights)
    left = weights.get(place, 0.0) - 2.0 ** ((window.ends_at - state.reference_at) / half_life_seconds)
    weights[place] = left
    kept = tuple((bucket, weight) for bucket, weight in sorted(weights.items()) if weight > _ROUNDING)
    return HistogramState(kept, state.reference_at) if kept else None
