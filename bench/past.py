"""What a fleet has used before a benchmark begins, as checkpoints that either recommender reads.

Owns two days of usage, one history for each container of a workload, and their checkpoints.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from elastipod.api import Checkpoint
from elastipod.pods import ContainerKey, Workload
from elastipod.quantities import Resources
from recommender.checkpoints import to_checkpoint
from recommender.histogram import Floats
from recommender.history import History
from recommender.settings import RecommenderSettings
from recommender.windows import InstanceKey

_SECONDS: Final = 2 * 86_400.0
_STEP_SECONDS: Final = 600.0
_LIVE: Final = RecommenderSettings()
_WORTH: Final = _STEP_SECONDS / _LIVE.interval_seconds
"""One sample counts for as many live ones."""
_REQUESTED: Final = Resources(250, 256 * 1024**2)


def checkpoints(
    names: Sequence[tuple[str, str]],
    pods_each: int,
    containers: Sequence[str],
    usage: Callable[[float], tuple[Floats, Floats]],
    until: float,
    suffixes: Sequence[str],
) -> Iterator[Checkpoint]:
    """Of each Deployment's containers, for the autoscalers that are named as it is with each of these suffixes.

    `usage` tells cores and bytes of all containers of all pods at an instant, pod by pod.
    """
    history = History(replace(_LIVE, cpu_sample_weight=_LIVE.cpu_sample_weight * _WORTH))
    instances = []
    for namespace, name in names:
        keys = [ContainerKey(Workload(namespace, "Deployment", name), container) for container in containers]
        for number in range(pods_each):
            for key in keys:
                instance = InstanceKey(f"{namespace}/{name}/{number}", key.container)
                row = history.ensure_row(key)
                history.see_requests(row, _REQUESTED)
                instances.append(history.ensure_instance(instance, row))
    places = np.array(instances)
    steps = int(_SECONDS / _STEP_SECONDS)
    for at in until - np.arange(steps - 1, -1, -1) * _STEP_SECONDS:
        history.add(places, np.full(len(places), at), *usage(at), at)
    history.samples[:] = history.samples * _WORTH
    keys_of = {row: key for key, row in history.rows()}
    for row, one in history.export_many(keys_of).items():
        key = keys_of[row]
        for suffix in suffixes:
            yield to_checkpoint(key.workload.namespace, key.workload.name + suffix, key, one, until)
