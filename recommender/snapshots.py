"""The cluster at one instant, taken down from what the recommender knows.

Owns what of it goes into accounts. Taking down is quick and happens between two steps of the recommender; what takes
time is made of that alone, and may happen beside later steps.
"""

import math
from collections.abc import Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Final

import numpy as np
from msgspec import structs

from elastipod.api import Recommendation, resources
from elastipod.nodeclass import parted
from elastipod.pods import ContainerKey, Node, Pod, Workload
from elastipod.quantities import NOTHING, QuantityError, Resources
from elastipod.reasons import Reason
from recommender.claims import Claim
from recommender.histogram import Floats
from recommender.ranges import Cap, Capped, Resource
from recommender.recent import RecentUsage
from recommender.recommending import Recommendations
from recommender.savings import Account, Advised, Snapshot
from recommender.settings import RecommenderSettings

_DAY: Final = 86_400.0
_NOTHING: Final = Advised(NOTHING)


@dataclass(frozen=True, slots=True)
class Facts:
    """What a snapshot is made of."""

    at: float
    pods: list[tuple[Pod, Workload]]
    nodes: dict[str, Node]
    advice: list[tuple[Claim, tuple[Capped, ...]]]
    rows: dict[ContainerKey, int]
    confidence: Floats
    before: dict[int, Resources]
    places: dict[tuple[str, str, str], int]
    used: Floats
    recent: RecentUsage


def take_down(known: Recommendations, nodes: dict[str, Node], now: float) -> Facts:
    """What is known now; nothing that is learned later is in it."""
    return Facts(
        now,
        known.members.everyone(),
        nodes,
        known.advice(),
        known.history.all_rows(),
        known.history.confidence(),
        known.history.all_before(),
        known.members.instances.all_places(),
        known.history.used(),
        deepcopy(known.learning.recent),
    )


class Snapshots:
    """Makes snapshots; a status is read once and known until it is another."""

    def __init__(self, settings: RecommenderSettings) -> None:
        self._settings = settings
        self._read: dict[str, tuple[Recommendation | None, dict[str, Advised]]] = {}

    def of(self, facts: Facts) -> Snapshot:
        """The snapshot that these facts make. What was measured too long ago is not known any more."""
        measured_at, cores, memory_bytes = facts.used.T.tolist()
        since = facts.at - self._settings.metrics_lost_seconds
        advised = dict(self._advised(facts))
        before = {key: facts.before[row] for key, row in facts.rows.items() if row in facts.before}
        on_classes = {key: ContainerKey(key.workload, of) for key in advised if (of := _of_class(key))}
        before |= {key: before[of] for key, of in on_classes.items() if of in before}
        return Snapshot(
            pods=facts.pods,
            nodes=facts.nodes,
            advised=advised,
            used={
                key: (_known(cores[place]), _known(memory_bytes[place]))
                for key, place in facts.places.items()
                if measured_at[place] >= since
            },
            before=before,
            usage={},
            by_class=frozenset(key.workload for key in on_classes),
        )

    def _advised(self, facts: Facts) -> Iterator[tuple[ContainerKey, Advised]]:
        """What the statuses recommend, with what is known besides; of several for a workload the first counts."""
        before, self._read = self._read, {}
        for claim, containers in sorted(facts.advice, key=_name, reverse=True):
            recommendation, read = claim.status.recommendation, before.get(claim.key)
            if read is None or read[0] is not recommendation:
                read = recommendation, dict(_sizes(recommendation))
            self._read[claim.key] = read
            caps = {one.container: one.caps for one in containers if one.caps}
            for name in (*read[1], *(caps.keys() - read[1].keys())):
                if claim.target is not None:
                    key = ContainerKey(claim.target, name)
                    yield key, self._completed(facts, key, read[1].get(name, _NOTHING), caps.get(name, ()))

    def _completed(self, facts: Facts, key: ContainerKey, advised: Advised, caps: tuple[Cap, ...]) -> Advised:
        """With what no status says."""
        row = facts.rows.get(key)
        confidence = 0.0 if row is None else float(facts.confidence[row])
        is_low = confidence < self._settings.enough_confidence
        return structs.replace(
            advised,
            confidence_days=confidence * self._settings.confidence_interval_seconds / _DAY,
            reason=advised.reason or (str(Reason.LOW_CONFIDENCE) if is_low else ""),
            caps=caps,
        )


def with_usage(those: Sequence[Account], facts: Facts) -> list[Account]:
    """Accounts with what was used over the window; without where that is not known."""
    rows = np.array([facts.rows.get(one.key, -1) for one in those], dtype=np.int64)
    used = {resource: facts.recent.of(resource, rows) for resource in Resource}
    return [structs.replace(one, usage=used[one.resource][place]) for place, one in enumerate(those)]


def _sizes(found: Recommendation | None) -> Iterator[tuple[str, Advised]]:
    for one in (found and found.container_recommendations) or ():
        amounts = (one.target, one.lower_bound, one.upper_bound, one.uncapped_target)
        try:
            target, lower, upper, uncapped = map(resources, amounts)
        except QuantityError:
            yield one.container_name, Advised(NOTHING, reason=str(Reason.BAD_VALUE))
        else:
            yield one.container_name, Advised(target, lower=lower, upper=upper, uncapped=uncapped)


def _name(advice: tuple[Claim, tuple[Capped, ...]]) -> str:
    return advice[0].key


def _of_class(key: ContainerKey) -> str:
    """The container that something stands for on a class of nodes; nothing for a container as such."""
    container, of = parted(key.container)
    return container if of else ""


def _known(amount: float) -> float | None:
    return None if math.isnan(amount) else amount
