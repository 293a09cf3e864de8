"""What a node's price depends on: its kind, as the labels of clouds and autoscalers say it.

Owns the labels, and one vocabulary for what clouds call in many ways. What a kind costs is prices.py's matter.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from elastipod.pods import Node

ON_DEMAND: Final = "on-demand"
SPOT: Final = "spot"
_INSTANCE_TYPES: Final = ("node.kubernetes.io/instance-type", "beta.kubernetes.io/instance-type")
_REGIONS: Final = ("topology.kubernetes.io/region", "failure-domain.beta.kubernetes.io/region")
_CAPACITY_TYPES: Final = (
    "karpenter.sh/capacity-type",
    "eks.amazonaws.com/capacityType",
    "cloud.google.com/gke-provisioning",
    "kubernetes.azure.com/scalesetpriority",
    "node.kubernetes.io/lifecycle",
)
_IS_SPOT: Final = ("cloud.google.com/gke-spot", "cloud.google.com/gke-preemptible")
WORDS: Final = {
    **dict.fromkeys(("ondemand", "regular", "normal", "standard"), ON_DEMAND),
    **dict.fromkeys(("spot", "preemptible", "ec2spot"), SPOT),
}
"""The chart's checks know the same ones (templates/_prices.tpl)."""
_BETWEEN: Final = re.compile("[-_ ]+")


@dataclass(frozen=True, slots=True)
class NodeKind:
    """What nodes of one price have in common; empty where it is not known, or in a price table any."""

    instance_type: str = ""
    capacity_type: str = ""
    region: str = ""

    def __str__(self) -> str:
        """For people."""
        named = " ".join(one for one in (self.instance_type, self.capacity_type) if one)
        return f"{named} in {self.region}" if self.region else named


def kind_of(node: Node) -> NodeKind:
    """By its labels; without one that says otherwise it is had on demand."""
    capacity = capacity_type(_first(node.labels, _CAPACITY_TYPES)) or ON_DEMAND
    if any(node.labels.get(one) == "true" for one in _IS_SPOT):
        capacity = SPOT
    return NodeKind(_first(node.labels, _INSTANCE_TYPES), capacity, _first(node.labels, _REGIONS))


def capacity_type(text: str) -> str:
    """What any cloud calls it, as `on-demand` or `spot`; another word in lower case, with `-` within."""
    word = _BETWEEN.sub("-", text.lower())
    return WORDS.get(word.replace("-", ""), word)


def _first(labels: Mapping[str, str], names: tuple[str, ...]) -> str:
    return next((labels[one] for one in names if labels.get(one)), "")
