"""The kinds that are served: where they lie, what they are called, and which subresources they have.

Owns the table and the look-up. What their fields may hold is schemas.py's matter, how they are shown tables.py's.
"""

from dataclasses import dataclass
from typing import Final

from elastipod.kube import resources as kube
from elastipod.kube.resources import ResourceType


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind, as the server has it."""

    resource: ResourceType
    short_names: tuple[str, ...] = ()
    subresources: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    has_generation: bool = False
    is_custom: bool = False
    """Custom kinds know no strategic merge, and their unknown fields are refused."""
    is_volatile: bool = False
    """Not kept over a restart, and not watched: measurements."""
    fields: tuple[str, ...] = ()
    """Field selectors beside metadata.name and metadata.namespace."""
    watched_by: tuple[str, ...] = ()
    """The field that many watchers select by, each its own value: they are woken by that alone."""

    @property
    def id(self) -> str:
        """`deployments.apps`: the kind's name in the store and in messages."""
        return f"{self.resource.plural}.{self.resource.group}" if self.resource.group else self.resource.plural

    @property
    def singular(self) -> str:
        return self.resource.kind.lower()

    @property
    def has_status(self) -> bool:
        return "status" in self.subresources

    @property
    def needs_version(self) -> bool:
        """Whether a replacement must say which version it replaces."""
        return self.is_custom or self.resource in (kube.LEASES, kube.POD_DISRUPTION_BUDGETS)

    @property
    def verbs(self) -> tuple[str, ...]:
        if self.is_volatile:
            return ("get", "list")
        if self.resource is kube.NAMESPACES:
            return ("create", "delete", "get", "list", "patch", "update", "watch")
        return ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")


_SCALED: Final = ("status", "scale")
_EVENT_FIELDS: Final = (
    "involvedObject.kind",
    "involvedObject.namespace",
    "involvedObject.name",
    "involvedObject.uid",
    "involvedObject.apiVersion",
    "involvedObject.resourceVersion",
    "involvedObject.fieldPath",
    "reason",
    "reportingComponent",
    "source",
    "type",
)

POD: Final = Kind(
    kube.PODS,
    ("po",),
    ("status", "resize", "eviction", "log", "binding"),
    ("all",),
    has_generation=True,
    fields=(
        "spec.nodeName",
        "spec.restartPolicy",
        "spec.hostNetwork",
        "spec.schedulerName",
        "spec.serviceAccountName",
        "status.phase",
        "status.podIP",
        "status.nominatedNodeName",
    ),
    watched_by=("spec", "nodeName"),
)
NAMESPACE: Final = Kind(kube.NAMESPACES, ("ns",), ("status",), fields=("status.phase",))
NODE: Final = Kind(kube.NODES, ("no",), ("status",), fields=("spec.unschedulable",))
EVENT: Final = Kind(kube.EVENTS, ("ev",), fields=_EVENT_FIELDS)
LIMIT_RANGE: Final = Kind(kube.LIMIT_RANGES, ("limits",))
RESOURCE_QUOTA: Final = Kind(kube.RESOURCE_QUOTAS, ("quota",), ("status",))
PRIORITY_CLASS: Final = Kind(kube.PRIORITY_CLASSES, ("pc",), has_generation=True)
DISRUPTION_BUDGET: Final = Kind(kube.POD_DISRUPTION_BUDGETS, ("pdb",), ("status",), has_generation=True)
POD_METRICS: Final = Kind(kube.POD_METRICS, is_custom=True, is_volatile=True)
NODE_METRICS: Final = Kind(kube.NODE_METRICS, is_custom=True, is_volatile=True)

KINDS: Final = (
    NAMESPACE,
    NODE,
    POD,
    EVENT,
    Kind(kube.CONFIG_MAPS, ("cm",)),
    LIMIT_RANGE,
    RESOURCE_QUOTA,
    Kind(kube.SERVICES, ("svc",), ("status",), ("all",)),
    Kind(kube.DEPLOYMENTS, ("deploy",), _SCALED, ("all",), has_generation=True),
    Kind(kube.REPLICA_SETS, ("rs",), _SCALED, ("all",), has_generation=True, fields=("status.replicas",)),
    Kind(kube.STATEFUL_SETS, ("sts",), _SCALED, ("all",), has_generation=True),
    Kind(kube.DAEMON_SETS, ("ds",), ("status",), ("all",), has_generation=True),
    Kind(kube.JOBS, (), ("status",), ("all",), has_generation=True, fields=("status.successful",)),
    Kind(kube.CRON_JOBS, ("cj",), ("status",), ("all",), has_generation=True),
    Kind(kube.HORIZONTAL_POD_AUTOSCALERS, ("hpa",), ("status",), ("all",), has_generation=True),
    DISRUPTION_BUDGET,
    PRIORITY_CLASS,
    Kind(kube.LEASES),
    Kind(kube.AUTOSCALERS, ("vpa",), ("status",), has_generation=True, is_custom=True),
    Kind(kube.CHECKPOINTS, ("vpacheckpoint",), has_generation=True, is_custom=True),
    Kind(kube.ELASTIC_POLICIES, ("epol",), has_generation=True, is_custom=True),
    Kind(kube.ELASTIC_NODES, ("enode",), ("status",), has_generation=True, is_custom=True),
    POD_METRICS,
    NODE_METRICS,
)

_BY_PLACE: Final = {(kind.resource.group, kind.resource.version, kind.resource.plural): kind for kind in KINDS}
_BY_ID: Final = {kind.id: kind for kind in KINDS}


def kind_at(group: str, version: str, plural: str) -> Kind | None:
    """The kind served at a place of the API."""
    return _BY_PLACE.get((group, version, plural))


def kind_of(resource: ResourceType) -> Kind:
    """The kind of a resource that is served. Raises KeyError."""
    return _BY_PLACE[(resource.group, resource.version, resource.plural)]


def kind_named(identity: str) -> Kind:
    """The kind of an id. Raises KeyError."""
    return _BY_ID[identity]


def group_versions() -> dict[str, list[Kind]]:
    """All kinds by group and version (`v1`, `apps/v1`), in the table's order."""
    found: dict[str, list[Kind]] = {}
    for kind in KINDS:
        found.setdefault(kind.resource.api_version, []).append(kind)
    return found
