"""Two histories of the same container made one: what is found saved late, and what was heard meanwhile.

Owns what becomes of a time that both speak of: it counts once. Reads and writes nothing.
"""

import math

from msgspec import structs

from recommender.histogram import HistogramState
from recommender.history import ContainerHistory
from recommender.oom import MOST_KILL_IDS, OomEvidence


def joined(saved: ContainerHistory, ours: ContainerHistory, half_life_seconds: float) -> ContainerHistory:
    """All that both know. Of two that overlap, one that goes back as far as the other has it in itself."""
    earlier, later = sorted((saved, ours), key=_heard_until)
    oom = _joined_evidence(earlier.oom, later.oom)
    if _heard_from(later) <= _heard_from(earlier):
        return structs.replace(later, oom=oom)
    if _heard_until(earlier) > _heard_from(later):
        return structs.replace(max(later, earlier, key=lambda one: one.samples), oom=oom)
    return ContainerHistory(
        cpu=_sum(earlier.cpu, later.cpu, half_life_seconds),
        memory=_sum(earlier.memory, later.memory, half_life_seconds),
        first_sample_at=earlier.first_sample_at,
        last_sample_at=later.last_sample_at,
        samples=earlier.samples + later.samples,
        windows=later.windows,
        oom=oom,
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
