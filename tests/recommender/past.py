"""Histories as they would stand there after days of the same usage."""

import numpy as np

from elastipod.pods import ContainerKey, Workload
from recommender.history import ContainerHistory
from recommender.settings import RecommenderSettings
from recommender.sources.past import Unknown
from recommender.sources.prometheus.folding import Fold
from recommender.sources.prometheus.grid import Wanted
from recommender.sources.prometheus.planning import span_before


def history_of(
    settings: RecommenderSettings, now: float, *, days: float, cores: float, memory: float, living_uid: str = ""
) -> ContainerHistory:
    """One container that used the same all the time until now."""
    key = ContainerKey(Workload("default", "Deployment", "web"), "app")
    fold, span = Fold(settings, now), span_before(now, days * 86_400, 300)
    wanted = [Wanted(key, Unknown(now), living_uid)]
    fold.add_cpu(span, np.full((1, span.points), cores, dtype=np.float32), wanted)
    fold.add_memory(span, np.full((1, span.points), memory, dtype=np.float32), wanted)
    return fold.histories()[key]
