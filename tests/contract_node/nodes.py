"""A node as its users see it, through the API and in its cgroups: the embedded one or a real one, by the same words.

Owns waiting and what is read. How a node is started, stopped and looked into is for embedded.py and real.py.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import msgspec

from actuator.nodehands import NodeHands
from elastipod.kube.podrows import decode_pod
from elastipod.kube.rows import decode_node
from elastipod.localcluster.node.hands import GroupLimits
from elastipod.pods import Container, Pod, QosClass
from elastipod.quantities import Resources
from tests.contract_node.workers import Worker, pod
from tests.localcluster.served import MERGE, NODES, PODS, STRATEGIC

Json = dict[str, Any]
T = TypeVar("T")

PRIORITIES: Final = "/apis/scheduling.k8s.io/v1/priorityclasses"
JOBS: Final = "/apis/batch/v1/namespaces/default/jobs"
METRICS: Final = "/apis/metrics.k8s.io/v1beta1/namespaces/default/pods"
EVENTS: Final = "/api/v1/namespaces/default/events"


@dataclass(frozen=True)
class Event:
    """What was told of a pod."""

    type: str
    reason: str
    message: str


class Node(ABC):
    """One node, and the API server that it works for."""

    name: str
    patience_seconds: float
    beyond: str = "Infeasible"
    """Why a resize waits that is larger than the node."""
    restarts_when_killed: tuple[int, ...] = (1,)
    """How often a container may be restarted for one resize in which the kubelet is killed."""
    notice_seconds: float
    """How long something may have to last, so that the node notices it and a test can answer."""

    @abstractmethod
    def call(self, method: str, path: str, body: Any = None, content_type: str = "", **query: str) -> tuple[int, Json]:
        """The code and the decoded body."""

    @abstractmethod
    def pause(self) -> None:
        """Let some time pass before the next look."""

    @abstractmethod
    def now(self) -> float:
        """Unix seconds, as the node counts them."""

    @abstractmethod
    def kill_kubelet(self) -> None:
        """As by SIGKILL: what runs in pods stays."""

    @abstractmethod
    def start_kubelet(self) -> None:
        """Again, after a kill."""

    @abstractmethod
    def group(self, path: str) -> GroupLimits:
        """What is in force on a cgroup, named from the node's root."""

    @abstractmethod
    def has_group(self, path: str) -> bool:
        """Whether there is such a cgroup."""

    @abstractmethod
    def has_processes(self, path: str) -> bool:
        """Whether anything runs in a container's cgroup."""

    @abstractmethod
    def used_memory(self, path: str) -> int:
        """What a container's cgroup has in use, in bytes."""

    @abstractmethod
    def start_metrics(self) -> None:
        """Have metrics.k8s.io served; skips the test where that can not be."""

    def until(self, look: Callable[[], T], holds: Callable[[T], bool], what: str = "") -> T:
        """What `look` finds once it holds."""
        deadline = self.now() + self.patience_seconds
        while not holds(found := look()):
            assert self.now() < deadline, f"not within {self.patience_seconds:g} s: {what or holds}; last: {found!r}"
            self.pause()
        return found

    def done(self, method: str, path: str, body: Any = None, content_type: str = "") -> Json:
        """The object of an answer that must be good."""
        code, json = self.call(method, path, body, content_type)
        assert code < 300, json
        return json

    @property
    def size(self) -> Resources:
        """What of the node may be requested."""
        return decode_node(msgspec.json.encode(self.done("GET", f"{NODES}/{self.name}"))).allocatable

    def tell_size(self, size: Resources) -> None:
        """Let the API believe this, until the node's own next word."""
        amounts = {"cpu": f"{size.cpu}m", "memory": str(size.memory)}
        self.done("PATCH", f"{NODES}/{self.name}/status", {"status": {"allocatable": amounts}}, MERGE)

    def make(self, name: str, *workers: Worker, **spec: Any) -> "OnePod":
        """A pod on this node, whatever becomes of it."""
        self.done("POST", PODS, pod(name, workers, node=self.name, **spec))
        return OnePod(self, name)

    def run(self, name: str, *workers: Worker, **spec: Any) -> "OnePod":
        """A pod on this node, once all of it runs."""
        made = self.make(name, *workers, **spec)
        made.until(lambda one: one.is_ready, "it runs")
        return made

    def until_used(self, one: "OnePod", memory: int) -> None:
        """Once the pod's `app` uses so much."""
        group = one.container_group("app")
        self.until(lambda: self.used_memory(group), lambda used: used >= memory, f"{memory} bytes are used")

    def priority(self, name: str, value: int) -> str:
        """A PriorityClass of this value."""
        code, json = self.call("POST", PRIORITIES, {"metadata": {"name": name}, "value": value})
        assert code in (201, 409), json
        return name


class KernelNode(Node):
    """With the cgroups of a kernel."""

    hands: NodeHands

    def group(self, path: str) -> GroupLimits:
        return self.hands.read(path)

    def has_group(self, path: str) -> bool:
        return self.hands.exists(path)

    def has_processes(self, path: str) -> bool:
        return bool(self.hands.processes(path))

    def used_memory(self, path: str) -> int:
        return self.hands.usage(path).memory_bytes


class OnePod:
    """A pod by its name."""

    def __init__(self, node: Node, name: str) -> None:
        self.node = node
        self.path = f"{PODS}/{name}"
        self.uid = self.json()["metadata"]["uid"]

    def json(self) -> Json:
        return self.node.done("GET", self.path)

    def read(self) -> Pod:
        """As the project reads it."""
        return decode_pod(msgspec.json.encode(self.json()))

    def app(self, name: str = "app") -> Container:
        found = self.read().container(name)
        assert found is not None
        return found

    def until(self, holds: Callable[[Pod], bool], what: str = "") -> Pod:
        return self.node.until(self.read, holds, what)

    def is_there(self) -> bool:
        code, json = self.node.call("GET", self.path)
        return code == 200 and json["metadata"]["uid"] == self.uid

    def try_resize(self, changes: dict[str, Json]) -> tuple[int, Json]:
        """Ask for requests and limits by container, and take whatever comes."""
        containers = [{"name": name, "resources": resources} for name, resources in changes.items()]
        return self.node.call("PATCH", f"{self.path}/resize", {"spec": {"containers": containers}}, STRATEGIC)

    def resize_all(self, changes: dict[str, Json]) -> None:
        code, json = self.try_resize(changes)
        assert code == 200, json

    def resize(self, container: str = "app", **resources: Json) -> None:
        """Ask for `requests` and `limits` of one container."""
        self.resize_all({container: resources})

    def until_settled(self) -> Pod:
        """Once the node has seen what was asked for last, and has nothing left to do."""
        return self.until(is_settled, "its resize is over")

    def until_waiting(self, reason: str = "Deferred") -> Pod:
        """Once the node has seen what was asked for last, and says that it waits."""

        def waits(one: Pod) -> bool:
            told = one.resize_pending
            return told is not None and told.reason == reason and told.observed_generation == one.generation

        return self.until(waits, f"it is {reason}")

    def events(self) -> list[Event]:
        """In the order in which they were told."""
        found = [one for one in self.node.done("GET", EVENTS)["items"] if one["involvedObject"].get("uid") == self.uid]
        found.sort(key=lambda one: (one.get("firstTimestamp") or "", int(one["metadata"]["resourceVersion"])))
        return [Event(one["type"], one["reason"], one["message"]) for one in found]

    def until_told(self, reason: str) -> Event:
        """The last Event of that reason, once there is one."""
        found = self.node.until(
            lambda: [one for one in self.events() if one.reason == reason], bool, f"an Event {reason}"
        )
        return found[-1]

    def delete(self) -> None:
        """Ask for its end, and wait for it."""
        self.node.done("DELETE", self.path)
        self.until_gone()

    def until_failed(self) -> Json:
        """Its status, once it was turned away or has ended badly."""
        self.until(lambda one: one.phase == "Failed", "it has failed")
        found: Json = self.json()["status"]
        return found

    def until_gone(self) -> None:
        self.node.until(self.is_there, lambda there: not there, "it is gone")

    def pod_group(self) -> str:
        """Where the pod's cgroup lies below the node's root."""
        quality = self.read().qos_class
        return f"kubepods{'' if quality is QosClass.GUARANTEED else f'/{quality.lower()}'}/pod{self.uid}"

    def in_force(self, container: str = "") -> GroupLimits:
        """What the cgroup of a container says, or the pod's."""
        return self.node.group(self.container_group(container) if container else self.pod_group())

    def container_group(self, container: str) -> str:
        return f"{self.pod_group()}/{self.app(container).container_id.rpartition('/')[2]}"


def is_settled(one: Pod) -> bool:
    """Whether nothing is left of what was asked for, in words and in sizes."""
    seen = one.observed_generation >= one.generation
    if not seen or one.resize_pending is not None or one.resize_in_progress is not None:
        return False
    sized = one.sized_containers
    return all(it.allocated in (None, it.requests) and it.actual_limits == it.limits for it in sized) and all(
        it.actual_requests == it.requests for it in sized
    )
