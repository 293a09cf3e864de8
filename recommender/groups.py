"""What ElasticPolicies say to the recommender: pods that are sized as one, and what is held for horizontal autoscalers.

Owns both readings. A group is the pods that a policy selects, for those that no controller outlasts: bare pods,
runners, steps of workflows. A VerticalPodAutoscaler asks for one by naming the policy as its target.
"""

from collections.abc import Collection, Iterable
from typing import Final

import msgspec

from elastipod.api import ElasticPolicy
from elastipod.kube.rows import BadObject
from elastipod.pods import Pod, Workload
from elastipod.policy import by_narrowness, selects

GROUP_KIND: Final = "ElasticPolicy"

_policies: Final = msgspec.json.Decoder(ElasticPolicy)


def decode_policy(raw: bytes | msgspec.Raw) -> ElasticPolicy:
    """An ElasticPolicy. Raises BadObject."""
    try:
        return _policies.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BadObject(str(error)) from None


def group_of(policy: ElasticPolicy) -> Workload:
    """The pods that a policy selects, as one workload."""
    return Workload(policy.metadata.namespace, GROUP_KIND, policy.metadata.name)


def groups(pod: Pod, workload: Workload, policies: Iterable[ElasticPolicy]) -> tuple[Workload, ...]:
    """The groups that a pod of a workload is in. One without a selector is no group: it is the namespace."""
    return tuple(
        group_of(policy)
        for policy in policies
        if policy.spec.selector is not None and selects(policy, workload, pod.labels)
    )


def holds_for_scaling(workload: Workload, labels: dict[str, str], policies: Collection[ElasticPolicy]) -> bool:
    """Whether what a horizontal autoscaler scales on is held: unless the narrowest policy that says so says Ignore."""
    stated = [
        policy.spec.horizontal_scaling
        for policy in by_narrowness(policies)
        if policy.spec.horizontal_scaling is not None and selects(policy, workload, labels)
    ]
    return not stated or stated[0] != "Ignore"
