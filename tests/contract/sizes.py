"""Containers and pods of some size, and what a resize asks for."""

from typing import Any

from elastipod.kube import resources as kube
from tests.build import container_json, node_json
from tests.contract.servers import Server

Json = dict[str, Any]


def sized(**resources: Any) -> list[Json]:
    """A container that asks for this."""
    return [{**container_json(), "resources": resources}]


def one(**more: Any) -> list[Json]:
    return [container_json(**more)]


async def running(server: Server, *, node: bool = True, **pod: Any) -> str:
    """A running pod, on a node where it shall have one; the path of its resize."""
    name = server.unique("n1")
    if node:
        await server.post(kube.NODES.path(), node_json(name, cpu="2", memory="4Gi"))
        pod["node"] = name
    await server.make_running_pod(**pod)
    return server.path(kube.PODS, "web-0", "resize")


def change(name: str = "app", *, requests: Json | None = None, limits: Json | None = None) -> Json:
    """A strategic merge of one container's resources."""
    parts = {key: value for key, value in (("requests", requests), ("limits", limits)) if value is not None}
    return {"spec": {"containers": [{"name": name, "resources": parts}]}}


def resources(pod: Json, place: int = 0) -> Json:
    found: Json = pod["spec"]["containers"][place]["resources"]
    return found


GUARANTEED: Json = {"cpu": "100m", "memory": "128Mi", "cpu_limit": "100m", "memory_limit": "128Mi"}
NOTHING: Json = {"cpu": None, "memory": None}
BOTH: Json = {"cpu": "100m", "memory": "128Mi", "cpu_limit": "200m", "memory_limit": "256Mi"}
SIDECAR = container_json("side", restartPolicy="Always")
