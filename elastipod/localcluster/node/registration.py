"""A node's own object and its Lease: made once, kept alive.

Owns its capacity, conditions and heartbeats.
"""

from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from elastipod.clock import Clock, to_rfc3339, to_rfc3339_micro
from elastipod.kube.connection import Connection, PatchType
from elastipod.kube.errors import KubeError, NotFound
from elastipod.kube.resources import LEASES, NODES, ResourceType
from elastipod.localcluster.node.statuses import amounts
from elastipod.quantities import NOTHING, Resources
from elastipod.telemetry import get_logger

log = get_logger(__name__)

Json = dict[str, Any]

KUBELET_VERSION: Final = "v1.37.1"
ENFORCEMENT_ANNOTATION: Final = "elastipod.io/enforcement"
_LEASE_NAMESPACE: Final = "kube-node-lease"
_LEASE_SECONDS: Final = 40
"""As a kubelet's."""
_RETRY_SECONDS: Final = 1.0


@dataclass(frozen=True, slots=True)
class NodeSettings:
    """What a node is."""

    name: str
    allocatable: Resources
    capacity: Resources = NOTHING
    most_pods: int = 110
    labels: dict[str, str] = field(default_factory=dict)
    heartbeat_seconds: float = 30.0
    usage_seconds: float = 5.0


class Registration:
    """Keeps the node's object."""

    def __init__(self, connection: Connection, clock: Clock, settings: NodeSettings, enforcement: str) -> None:
        self._connection = connection
        self._clock = clock
        self._settings = settings
        self._enforcement = enforcement
        self._ready_since = ""

    async def run(self) -> None:
        """Be there, for ever."""
        while True:
            try:
                await self.beat()
                delay = self._settings.heartbeat_seconds
            except KubeError as error:
                log.warning("node not registered", node=self._settings.name, error=str(error))
                delay = _RETRY_SECONDS
            await self._clock.sleep(delay)

    async def beat(self) -> None:
        """Say that the node is well. Raises KubeError."""
        await self._put(NODES, None, {"status": self._status()}, self._object(), "status")
        lease = {"spec": self._lease()}
        await self._put(LEASES, _LEASE_NAMESPACE, lease, {"metadata": {"name": self._settings.name}, **lease})

    async def _put(
        self, resource: ResourceType, namespace: str | None, change: Json, whole: Json, subresource: str = ""
    ) -> None:
        """Change the object of our name, or make it."""
        name, body = self._settings.name, msgspec.json.encode(change)
        try:
            await self._connection.patch(
                resource, namespace, name, body, patch_type=PatchType.MERGE, subresource=subresource
            )
        except NotFound:
            made = {"apiVersion": resource.api_version, "kind": resource.kind, **whole}
            await self._connection.create(resource, namespace, msgspec.json.encode(made))

    def _lease(self) -> Json:
        return {
            "holderIdentity": self._settings.name,
            "leaseDurationSeconds": _LEASE_SECONDS,
            "renewTime": to_rfc3339_micro(self._clock.now()),
        }

    def _object(self) -> Json:
        name = self._settings.name
        labels = {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux", **self._settings.labels}
        return {
            "metadata": {
                "name": name,
                "labels": labels,
                "annotations": {ENFORCEMENT_ANNOTATION: self._enforcement},
            },
            "spec": {},
            "status": self._status(),
        }

    def _status(self) -> Json:
        settings = self._settings
        now = to_rfc3339(self._clock.now())
        self._ready_since = self._ready_since or now
        pods = {"pods": str(settings.most_pods)}
        capacity = settings.allocatable if settings.capacity.is_empty else settings.capacity
        return {
            "capacity": amounts(capacity) | pods,
            "allocatable": amounts(settings.allocatable) | pods,
            "conditions": [
                {
                    "type": "Ready",
                    "status": "True",
                    "reason": "KubeletReady",
                    "message": f"kubelet is posting ready status; sizes are in force by {self._enforcement}",
                    "lastHeartbeatTime": now,
                    "lastTransitionTime": self._ready_since,
                }
            ],
            "addresses": [
                {"type": "InternalIP", "address": "127.0.0.1"},
                {"type": "Hostname", "address": settings.name},
            ],
            "declaredFeatures": ["InPlacePodVerticalScalingInitContainers"],
            "nodeInfo": {
                "kubeletVersion": KUBELET_VERSION,
                "containerRuntimeVersion": f"elastipod://{self._enforcement.replace(' ', '-')}",
                "operatingSystem": "linux",
                "architecture": "",
                "bootID": "",
                "machineID": "",
                "systemUUID": "",
                "kernelVersion": "",
                "osImage": "",
                "kubeProxyVersion": "",
            },
        }
