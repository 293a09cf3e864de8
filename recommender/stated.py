"""What ElasticPolicies state about a workload's recommendations: who may speak, how its limits are found, and where
one size holds.

Owns the reading of all three. What becomes of it is speaking.py's, estimators/apart.py's and classrows.py's matter.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from elastipod.api import ElasticPolicy
from elastipod.limitmodes import LimitModes, limit_modes
from elastipod.nodeclass import sized_by_class
from elastipod.pods import Workload
from elastipod.policy import by_narrowness, selects
from elastipod.reasons import Reason


@dataclass(frozen=True, slots=True)
class Stated:
    """What holds for a workload."""

    only_histogram: Reason | None = Reason.NO_ELASTIC_POLICY
    """Why no other estimator may speak; None where the best one may."""
    limits: LimitModes = field(default_factory=LimitModes)
    by_node_class: bool = False
    """Whether pods on nodes of each class have a size of their own."""


NOTHING_STATED = Stated()


def stated(
    workload: Workload,
    labels: Mapping[str, str],
    policies: Collection[ElasticPolicy],
    *,
    in_place: bool,
    is_guaranteed: bool,
    may_choose: bool,
) -> Stated:
    """What the policies that select a workload say: the narrowest one that says something about a matter counts.

    Where sizes do not move in place each has to hold for long, and none but the histogram's is made for that. A
    Guaranteed pod's limits are its requests. `may_choose` is the administrator's word.
    """
    chosen = [policy for policy in by_narrowness(policies) if selects(policy, workload, labels)]
    if not chosen:
        return NOTHING_STATED
    said = next((one.spec.estimator for one in chosen if one.spec.estimator in ("Auto", "Histogram")), "Auto")
    only_histogram = None
    if said == "Histogram" or not may_choose:
        only_histogram = Reason.HISTOGRAM_STATED
    elif not in_place:
        only_histogram = Reason.SIZED_FOR_LONG
    return Stated(
        only_histogram,
        LimitModes() if is_guaranteed else limit_modes(workload, labels, chosen),
        sized_by_class(workload, labels, chosen),
    )
