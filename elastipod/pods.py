"""What we read of the cluster: pods, their containers, nodes, workloads.

Owns the slim values that the parts decide on. How they are read from bytes is kube/podrows.py's matter.
"""

from enum import StrEnum
from typing import Final

from msgspec import Struct

from elastipod.quantities import NOTHING, Resources
from elastipod.selectors import LabelSelector, Requirement

OWN_PREFIX: Final = "elastipod.io/"
"""The prefix of our own annotations and labels."""
STAYING: Final = {"cluster-autoscaler.kubernetes.io/safe-to-evict": "false", "karpenter.sh/do-not-disrupt": "true"}
"""Annotations by which a pod's owner keeps it where it is."""


class QosClass(StrEnum):
    """A pod's quality of service; a resize never changes it."""

    GUARANTEED = "Guaranteed"
    BURSTABLE = "Burstable"
    BEST_EFFORT = "BestEffort"


class ContainerKind(StrEnum):
    """Where a container stands in its pod."""

    APP = "app"
    SIDECAR = "sidecar"
    INIT = "init"


class PendingReason(StrEnum):
    """Why a resize waits; other admission failures of the kubelet count as Deferred."""

    DEFERRED = "Deferred"
    INFEASIBLE = "Infeasible"


class ResizeProgress(StrEnum):
    """How far the kubelet is with the newest resize of a pod."""

    NONE = "none"
    """Nothing asked, or everything asked is in force."""
    UNSEEN = "unseen"
    """The kubelet has not looked at this generation yet."""
    DEFERRED = "deferred"
    INFEASIBLE = "infeasible"
    IN_PROGRESS = "in_progress"
    ERROR = "error"


class Workload(Struct, frozen=True, gc=False, order=True):
    """The topmost controller of a pod; a bare pod is its own workload of kind Pod."""

    namespace: str
    kind: str
    """With its group where a custom kind has the name of one of Kubernetes' own (owners.py)."""
    name: str

    @property
    def plain_kind(self) -> str:
        """Without the group."""
        return self.kind.partition(".")[0]

    def __str__(self) -> str:
        return f"{self.namespace}/{self.kind}/{self.name}"


class ContainerKey(Struct, frozen=True, gc=False, order=True):
    """What history belongs to: a container of a workload, whichever pods come and go."""

    workload: Workload
    container: str


class OwnerReference(Struct, frozen=True, gc=False):
    """The controlling owner of an object."""

    kind: str
    name: str
    uid: str
    api_version: str = ""


class Termination(Struct, frozen=True, gc=False):
    """How a container's run ended."""

    reason: str
    exit_code: int
    container_id: str
    started_at: float | None = None
    finished_at: float | None = None

    @property
    def is_oom_kill(self) -> bool:
        return self.reason == "OOMKilled"


class StartSize(Struct, frozen=True, gc=False):
    """A size that a container's process reads once, when it starts."""

    resource: str
    """`cpu` or `memory`."""
    by: str
    """Where it is told, such as `env GOMEMLIMIT`."""
    amount: int | None = None
    """Millicores or bytes; None where it is what the container has at its start."""


class Container(Struct, frozen=True, gc=False):
    """A container: what it asks for, what the kubelet admitted, what it runs with."""

    name: str
    kind: ContainerKind = ContainerKind.APP
    requests: Resources = NOTHING
    limits: Resources = NOTHING
    allocated: Resources | None = None
    """Requests the kubelet admitted (status.allocatedResources); None where the status has none."""
    actual_requests: Resources | None = None
    """Requests and limits in status.resources; None where the node does not report them."""
    actual_limits: Resources | None = None
    cpu_restart: bool = False
    """resizePolicy RestartContainer for CPU."""
    memory_restart: bool = False
    container_id: str = ""
    restart_count: int = 0
    started_at: float | None = None
    is_running: bool = False
    is_ready: bool = False
    waiting_reason: str = ""
    liveness_seconds: float | None = None
    """How long its liveness probe bears silence before it kills; None without a probe."""
    termination: Termination | None = None
    """state.terminated: this run is over."""
    last_termination: Termination | None = None
    """lastState.terminated: how the run before ended."""
    start_sizes: tuple[StartSize, ...] = ()
    """What its process reads of its size when it starts, and then no more."""


class ResizeCondition(Struct, frozen=True, gc=False):
    """PodResizePending or PodResizeInProgress, present only while true."""

    reason: str
    message: str
    observed_generation: int
    since: float


class Toleration(Struct, frozen=True, gc=False):
    """A taint that a pod puts up with."""

    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""


class Apart(Struct, frozen=True, gc=False):
    """One term of a pod's required anti-affinity."""

    selector: LabelSelector
    namespaces: tuple[str, ...] = ()
    """Its own where there are none."""


class Affinity(Struct, frozen=True, gc=False):
    """What a pod requires of its node and its neighbours."""

    nodes: tuple[tuple[Requirement, ...], ...] | None = None
    """Terms, one of which the node's labels must satisfy; None where any node will do."""
    apart: tuple[Apart, ...] = ()
    has_more: bool = False
    """Whether it requires what we do not weigh: other pods near it, an even spread, zones of its own."""


class Taint(Struct, frozen=True, gc=False):
    """What keeps pods off a node."""

    key: str
    effect: str
    value: str = ""


class Pod(Struct, frozen=True, gc=False):
    """A pod, slim."""

    namespace: str
    name: str
    uid: str
    resource_version: str = ""
    generation: int = 0
    observed_generation: int = 0
    node_name: str = ""
    phase: str = "Pending"
    qos_class: QosClass = QosClass.BURSTABLE
    priority: int = 0
    restart_policy: str = "Always"
    preempts: bool = True
    """False for preemptionPolicy Never."""
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    """Only ours (elastipod.io/...), the ones VPA's users set, and STAYING."""
    owner: OwnerReference | None = None
    created_at: float = 0.0
    deletion_at: float | None = None
    started_at: float | None = None
    is_ready: bool = False
    ready_at: float | None = None
    """Since when it is ready; None where it is not."""
    is_unschedulable: bool = False
    is_mirror: bool = False
    is_windows: bool = False
    has_pod_level_resources: bool = False
    pod_requests: Resources = NOTHING
    """What the pod as a whole asks, where it says so."""
    pod_limits: Resources = NOTHING
    """What the pod as a whole may use at most, where it says so."""
    host_network: bool = False
    overhead: Resources = NOTHING
    node_selector: dict[str, str] = {}
    tolerations: tuple[Toleration, ...] = ()
    affinity: Affinity = Affinity()
    containers: tuple[Container, ...] = ()
    resize_pending: ResizeCondition | None = None
    resize_in_progress: ResizeCondition | None = None

    @property
    def key(self) -> str:
        """namespace/name, as people write it."""
        return f"{self.namespace}/{self.name}"

    @property
    def is_terminal(self) -> bool:
        return self.phase in ("Succeeded", "Failed")

    @property
    def stays(self) -> bool:
        """Whether autoscalers of nodes are told to leave it where it is."""
        return any(self.annotations.get(key) == value for key, value in STAYING.items())

    @property
    def is_running(self) -> bool:
        return self.phase == "Running" and self.deletion_at is None

    @property
    def sized_containers(self) -> tuple[Container, ...]:
        """App containers and native sidecars; plain init containers are left alone."""
        return tuple(container for container in self.containers if container.kind is not ContainerKind.INIT)

    def container(self, name: str) -> Container | None:
        """The container of that name, of any kind."""
        return next((container for container in self.containers if container.name == name), None)

    @property
    def resize_progress(self) -> ResizeProgress:
        """How far the newest resize is. Rule: RESIZE semantics of 1.33 to 1.37, `observedGeneration` where tracked."""
        if self.resize_pending is not None:
            infeasible = self.resize_pending.reason == PendingReason.INFEASIBLE
            return ResizeProgress.INFEASIBLE if infeasible else ResizeProgress.DEFERRED
        if self.resize_in_progress is not None:
            return ResizeProgress.ERROR if self.resize_in_progress.reason == "Error" else ResizeProgress.IN_PROGRESS
        if self.observed_generation and self.observed_generation < self.generation:
            return ResizeProgress.UNSEEN
        return ResizeProgress.NONE


class Node(Struct, frozen=True, gc=False):
    """A node: what it has and whether it takes pods."""

    name: str
    uid: str = ""
    resource_version: str = ""
    allocatable: Resources = NOTHING
    capacity: Resources = NOTHING
    allocatable_pods: int = 110
    is_ready: bool = True
    not_ready_since: float | None = None
    is_unschedulable: bool = False
    labels: dict[str, str] = {}
    taints: tuple[Taint, ...] = ()
    kubelet_version: str = ""
