"""Where the actuators are.

Owns finding them, and on which node each is: that says the API server, never the actuator itself.
"""

from dataclasses import dataclass
from ipaddress import ip_address
from typing import Final
from urllib.parse import urlsplit

from msgspec import Struct

from elastipod.api import ElasticNode, ObjectMeta
from elastipod.kube.connection import Connection
from elastipod.kube.decoding import Decoder
from elastipod.kube.listing import list_rows
from elastipod.kube.resources import ELASTIC_NODES, PODS

LABELS: Final = "app.kubernetes.io/part-of=elastipod,app.kubernetes.io/component=actuator"
_PORT_NAME: Final = "metrics"


@dataclass(frozen=True, slots=True)
class Sender:
    """An actuator."""

    uid: str
    """Another for each start of it."""
    node: str
    url: str


class _Port(Struct, rename="camel", gc=False, frozen=True):
    name: str = ""
    container_port: int = 0


class _Container(Struct, gc=False, frozen=True):
    ports: list[_Port] | None = None


class _Spec(Struct, rename="camel", gc=False, frozen=True):
    node_name: str = ""
    containers: list[_Container] | None = None


class _Status(Struct, rename={"pod_ip": "podIP"}, gc=False, frozen=True):
    phase: str = ""
    pod_ip: str = ""


class _Pod(Struct, gc=False, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: _Spec = _Spec()
    status: _Status = _Status()


async def in_pods(connection: Connection, namespace: str) -> list[Sender]:
    """The actuators that run as pods of this namespace. Raises KubeError."""
    found = await list_rows(connection, PODS, _pods, namespace=namespace, label_selector=LABELS)
    return [one for one in found if one is not None]


async def on_loopback(connection: Connection) -> list[Sender]:
    """The actuators of a local cluster, which are processes of this machine. Raises KubeError."""
    found = await list_rows(connection, ELASTIC_NODES, _elastic_nodes)
    return [one for one in found if one is not None]


def _of_pod(pod: _Pod) -> Sender | None:
    ports = [port for one in pod.spec.containers or () for port in one.ports or () if port.name == _PORT_NAME]
    if pod.status.phase != "Running" or not pod.spec.node_name or not ports:
        return None
    try:
        address = ip_address(pod.status.pod_ip)
    except ValueError:
        return None
    # What only this machine, or only its cloud, can be asked is no pod's.
    if address.is_loopback or address.is_link_local or address.is_multicast or address.is_unspecified:
        return None
    host = f"[{address}]" if address.version == 6 else str(address)
    return Sender(pod.metadata.uid, pod.spec.node_name, f"http://{host}:{ports[0].container_port}")


def _of_elastic_node(node: ElasticNode) -> Sender | None:
    url = node.status.address if node.status is not None else ""
    try:
        where = urlsplit(url)
        is_ours = where.scheme == "http" and ip_address(where.hostname or "").is_loopback and where.port is not None
    except ValueError:
        return None
    return Sender(url, node.metadata.name, f"http://{where.netloc}") if is_ours else None


_pods: Final = Decoder(_Pod, _of_pod)
_elastic_nodes: Final = Decoder(ElasticNode, _of_elastic_node)
