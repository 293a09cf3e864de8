"""The class of a node, by its size and architecture, and what stands for a container on nodes of one class.

Owns both words: the recommender writes them into statuses and checkpoints, the updater and the webhook read them.
"""

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Final

from elastipod.api import ElasticPolicy
from elastipod.pods import Node, Workload
from elastipod.policy import by_narrowness, selects

_ARCHITECTURE: Final = "kubernetes.io/arch"
_OTHER: Final = re.compile("[^a-z0-9]+")
_SIZES: Final = ("ByNodeClass", "Same")


def node_class(node: Node) -> str:
    """As people read it, such as `2 CPUs amd64`; nothing where the node's size is not known."""
    cores = round((node.capacity.cpu or node.allocatable.cpu) / 1000)
    return " ".join((f"{cores} CPUs", node.labels.get(_ARCHITECTURE, ""))).strip() if cores else ""


@lru_cache(maxsize=256)
def class_key(name: str) -> str:
    """A class as it stands in names, such as `2-cpus-amd64`."""
    return _OTHER.sub("-", name.lower()).strip("-")


def on_class(container: str, key: str) -> str:
    """What stands for a container on nodes of a class. No container can be called so, and an object can."""
    return f"{container}.{key}"


def parted(name: str) -> tuple[str, str]:
    """The container, and the key of the class; nothing for a container wherever it runs."""
    container, _, key = name.partition(".")
    return (container, key) if container and key else (name, "")


def sized_by_class(workload: Workload, labels: Mapping[str, str], policies: Iterable[ElasticPolicy]) -> bool:
    """Whether the narrowest policy that says something of it wants a size for each class of nodes."""
    chosen = by_narrowness(one for one in policies if one.spec.sizes in _SIZES and selects(one, workload, labels))
    return bool(chosen) and chosen[0].spec.sizes == _SIZES[0]
