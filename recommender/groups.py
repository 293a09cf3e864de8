"""What ElasticPolicies say to the recommender.

Owns their reading and what is held for horizontal autoscalers. Which pods they make one workload is
elastipod/eligible.py's matter.
"""

from collections.abc import Collection

from elastipod.api import ElasticPolicy
from elastipod.pods import Workload
from elastipod.policy import by_narrowness, selects


def holds_for_scaling(workload: Workload, labels: dict[str, str], policies: Collection[ElasticPolicy]) -> bool:
    """Whether what a horizontal autoscaler scales on is held: unless the narrowest policy that says so says Ignore."""
    stated = [
        policy.spec.horizontal_scaling
        for policy in by_narrowness(policies)
        if policy.spec.horizontal_scaling is not None and selects(policy, workload, labels)
    ]
    return not stated or stated[0] != "Ignore"
