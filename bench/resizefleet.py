"""What is resized: Deployments with autoscalers, their pods running on fake nodes of a real API server.

Owns making them, writing recommendations, and the accounts of those who resize. `python -m bench.resizefleet
KUBECONFIG` is the nodes' kubelet: it says of every resize that it is in force.
"""

import asyncio
import sys
from collections.abc import Awaitable, Iterable
from pathlib import Path
from typing import Any, Final

import msgspec
import yaml

from elastipod.clock import SystemClock
from elastipod.kube.access import load_access
from elastipod.kube.connection import Connection, PatchType
from elastipod.kube.errors import KubeError
from elastipod.kube.http import HttpConnection
from elastipod.kube.reflector import Reflector
from elastipod.kube.resources import AUTOSCALERS, DEPLOYMENTS, NAMESPACES, NODES, PODS, REPLICA_SETS, ResourceType
from tests import build
from tests.contract.real import CRDS
from tests.kubernetes.apiserver import ApiServer

Json = dict[str, Any]

FIRST_MILLICORES: Final = 100
MEMORY: Final = "256Mi"
STARTED_AT: Final = "2026-01-01T00:00:00Z"
_PODS_A_NODE: Final = 100
_WORKLOADS_A_NAMESPACE: Final = 50
_AT_ONCE: Final = 32
_AGAIN_SECONDS: Final = 0.2


class ResizeFleet:
    """Workloads `ns0/w0`, `ns0/w1`, ... with an autoscaler of the same name each."""

    def __init__(self, server: ApiServer, workloads: int, pods_each: int, containers_each: int = 1) -> None:
        self.names = [(f"ns{number // _WORKLOADS_A_NAMESPACE}", f"w{number}") for number in range(workloads)]
        self.pods = workloads * pods_each
        self._server = server
        self._pods_each = pods_each
        self.containers = ("app", *(f"app-{number}" for number in range(1, containers_each)))
        """Of each pod, by name."""

    async def make(self, connection: Connection) -> None:
        """All objects, at the first size."""
        self._server.kubectl("apply", "--server-side", "-f", str(CRDS))
        self._server.kubectl("wait", "--for=condition=Established", "--timeout=30s", "-f", str(CRDS))
        for number in range(-(-self.pods // _PODS_A_NODE)):
            node = build.node_json(f"n{number}", cpu="1000", memory="4Ti", pods=str(2 * _PODS_A_NODE))
            made = msgspec.json.decode(await connection.create(NODES, None, msgspec.json.encode(node)))
            if made["spec"].get("taints"):
                await merge(connection, NODES, None, f"n{number}", {"spec": {"taints": None}})
        for namespace in dict.fromkeys(namespace for namespace, _ in self.names):
            await self._create(connection, NAMESPACES, {"metadata": {"name": namespace}})
            self._server.make_namespace(namespace)
        await many(self._workload(connection, number) for number in range(len(self.names)))

    async def recommend(self, connection: Connection, millicores: int, names: Iterable[tuple[str, str]]) -> None:
        """Write these autoscalers' status; all other sizes of their pods are outside its bounds."""
        body = {"status": {"recommendation": {"containerRecommendations": [_recommendation(millicores)]}}}
        await many(merge(connection, AUTOSCALERS, *name, body, subresource="status") for name in names)

    def account(self, name: str, folder: Path) -> Path:
        """A kubeconfig of an account in kube-system that may do everything."""
        calls, accounts = self._server.calls, "/api/v1/namespaces/kube-system/serviceaccounts"
        calls.post(accounts, {"metadata": {"name": name}})
        group = {"kind": "User", "name": f"system:serviceaccount:kube-system:{name}"}
        bindings = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"
        role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"}
        calls.post(bindings, {"metadata": {"name": name}, "roleRef": role, "subjects": [group]})
        token = calls.post(f"{accounts}/{name}/token", {"spec": {"expirationSeconds": 86_400}})["status"]["token"]
        content = yaml.safe_load(self._server.kubeconfig.read_text())
        content["users"][0]["user"] = {"token": token}
        path = folder / f"{name}.kubeconfig"
        path.write_text(yaml.safe_dump(content))
        return path

    async def _workload(self, connection: Connection, number: int) -> None:
        namespace, name = self.names[number]
        labels = {"app": name}
        containers = [build.container_json(one, cpu=f"{FIRST_MILLICORES}m", memory=MEMORY) for one in self.containers]
        template = build.template_json(labels, containers)
        spec = {"replicas": self._pods_each, "selector": {"matchLabels": labels}, "template": template}
        meta: Json = {"name": name, "namespace": namespace}
        deployment = await self._create(connection, DEPLOYMENTS, {"metadata": meta, "spec": spec})
        owner = build.owner_json("Deployment", name, deployment["metadata"]["uid"])
        meta = {"name": f"{name}-1", "namespace": namespace, "ownerReferences": [owner]}
        replica_set = await self._create(connection, REPLICA_SETS, {"metadata": meta, "spec": spec})
        owner = build.owner_json("ReplicaSet", f"{name}-1", replica_set["metadata"]["uid"])
        for replica in range(self._pods_each):
            node = f"n{(number * self._pods_each + replica) // _PODS_A_NODE}"
            pod = build.pod_json(
                f"{name}-1-{replica}", namespace, containers=containers, labels=labels, owner=owner, nodeName=node
            )
            made = await self._create(connection, PODS, pod)
            status = build.running_status(made, started_at=STARTED_AT) | {"observedGeneration": 1}
            await merge(connection, PODS, namespace, pod["metadata"]["name"], {"status": status}, subresource="status")
        await self._create(
            connection,
            AUTOSCALERS,
            {
                "metadata": {"name": name, "namespace": namespace},
                "spec": {
                    "targetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": name},
                    "updatePolicy": {"updateMode": "InPlaceOrRecreate"},
                },
            },
        )

    async def _create(self, connection: Connection, resource: ResourceType, body: Json) -> Json:
        version = f"{resource.group}/{resource.version}" if resource.group else resource.version
        raw = msgspec.json.encode({"apiVersion": version, "kind": resource.kind} | body)
        made: Json = msgspec.json.decode(await connection.create(resource, body["metadata"].get("namespace"), raw))
        return made


async def merge(
    connection: Connection, resource: ResourceType, namespace: str | None, name: str, body: Json, subresource: str = ""
) -> None:
    """A merge patch."""
    raw = msgspec.json.encode(body)
    await connection.patch(resource, namespace, name, raw, patch_type=PatchType.MERGE, subresource=subresource)


async def many(calls: Iterable[Awaitable[object]], at_once: int = _AT_ONCE) -> None:
    """Await all of them, so many at once."""
    waiting = iter(calls)

    async def work() -> None:
        for call in waiting:
            await call

    await asyncio.gather(*(work() for _ in range(at_once)))


def _recommendation(millicores: int) -> Json:
    def amounts(share: float) -> Json:
        return {"cpu": f"{round(millicores * share)}m", "memory": MEMORY}

    target = amounts(1.0)
    bounds = {"lowerBound": amounts(0.97), "upperBound": amounts(1.03)}
    return {"containerName": "app", "target": target, "uncappedTarget": target, **bounds}


class _Container(msgspec.Struct):
    name: str
    resources: Json | None = None


class _Meta(msgspec.Struct, rename="camel"):
    name: str
    namespace: str
    generation: int = 1


class _Spec(msgspec.Struct):
    containers: list[_Container]


class _Status(msgspec.Struct, rename="camel"):
    container_statuses: list[_Container] = []


class _Pod(msgspec.Struct):
    metadata: _Meta
    spec: _Spec
    status: _Status


async def acknowledge(connection: Connection) -> None:
    """For ever: what the spec asks for is in force at once, whatever becomes of a watch or a call."""
    slots, tasks, clock = asyncio.Semaphore(8), set[asyncio.Task[None]](), SystemClock()

    async def tell(pod: _Pod) -> None:
        one = pod.spec.containers[0]
        assert one.resources is not None
        allocated = {"name": one.name, "resources": one.resources, "allocatedResources": one.resources["requests"]}
        body = {"status": {"observedGeneration": pod.metadata.generation, "containerStatuses": [allocated]}}
        raw, place = msgspec.json.encode(body), (pod.metadata.namespace, pod.metadata.name)
        async with slots:
            while True:
                try:
                    await connection.patch(PODS, *place, raw, subresource="status")
                    return
                except KubeError as error:
                    print(error, file=sys.stderr)
                    await clock.sleep(_AGAIN_SECONDS)

    def changed(_: str, __: _Pod | None, pod: _Pod | None) -> None:
        if pod is not None and [one.resources for one in pod.spec.containers] != [
            one.resources for one in pod.status.container_statuses
        ]:
            task = asyncio.create_task(tell(pod))
            tasks.add(task)
            task.add_done_callback(tasks.discard)

    await Reflector(connection, PODS, msgspec.json.Decoder(_Pod).decode, clock, on_change=changed).run()


def patient_connection(kubeconfig: Path) -> HttpConnection:
    """One for a machine that may be busy with what is measured."""
    return HttpConnection(load_access(str(kubeconfig), None, {}), call_seconds=60.0)


async def main() -> None:
    connection = patient_connection(Path(sys.argv[1]))
    try:
        await acknowledge(connection)
    finally:
        await connection.close()


if __name__ == "__main__":
    asyncio.run(main())
