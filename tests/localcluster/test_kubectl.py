"""kubectl 1.37 against the local cluster's API server: what a person types works, what is not served says so."""

import asyncio
import json
import os
import random
import sys
from collections.abc import AsyncGenerator
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from elastipod.clock import SystemClock
from elastipod.kube import resources as kube
from elastipod.kube.connection import PatchType
from elastipod.localcluster.api.apiserver import ApiServer
from elastipod.localcluster.api.direct import DirectConnection
from elastipod.localcluster.api.http import serve_http
from elastipod.localcluster.api.logs import LogWish
from elastipod.localcluster.api.store import Store
from elastipod.localcluster.folder import kubeconfig
from tests.build import deployment_json, node_json, pod_json, running_status

KUBECTL = str(Path(sys.executable).with_name("kubectl"))
VPA = {
    "apiVersion": "autoscaling.k8s.io/v1",
    "kind": "VerticalPodAutoscaler",
    "metadata": {"name": "web"},
    "spec": {
        "targetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
        "updatePolicy": {"updateMode": "InPlace"},
    },
}


@dataclass(frozen=True)
class Kubectl:
    kubeconfig: Path
    home: Path
    server: DirectConnection

    async def start(self, *words: str) -> asyncio.subprocess.Process:
        return await asyncio.create_subprocess_exec(
            KUBECTL,
            f"--kubeconfig={self.kubeconfig}",
            *words,
            env={"HOME": str(self.home), "PATH": os.environ["PATH"]},
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )

    async def run(self, *words: str) -> tuple[int, str]:
        """The exit code, and both streams together."""
        process = await self.start(*words)
        out, _ = await asyncio.wait_for(process.communicate(), 30)
        return process.returncode or 0, out.decode()

    async def __call__(self, *words: str) -> str:
        code, out = await self.run(*words)
        assert code == 0, out
        return out

    async def refused(self, *words: str) -> str:
        code, out = await self.run(*words)
        assert code != 0, out
        return out

    def manifest(self, *objects: Any) -> str:
        path = self.home / "manifest.yaml"
        path.write_text(yaml.safe_dump_all(objects))
        return str(path)

    async def has(self, resource: kube.ResourceType, body: Any) -> None:
        await self.server.create(resource, None if not resource.namespaced else "default", json.dumps(body).encode())

    async def status(self, resource: kube.ResourceType, name: str, status: Any) -> None:
        body = json.dumps({"status": status}).encode()
        namespace = "default" if resource.namespaced else None
        await self.server.patch(resource, namespace, name, body, patch_type=PatchType.MERGE, subresource="status")

    async def has_running_pod(self, **pod: Any) -> None:
        await self.has(kube.NODES, node_json("n1"))
        made = pod_json(node="n1", labels={"app": "web"}, cpu_limit="500m", memory_limit="256Mi", **pod)
        await self.has(kube.PODS, made)
        await self.status(kube.PODS, "web-0", running_status(made))


async def lines(namespace: str, pod: str, container: str, wish: LogWish) -> AsyncGenerator[bytes, None]:
    yield f"{pod} {container} {wish}\n".encode()


@asynccontextmanager
async def cluster(home: Path) -> AsyncGenerator[Kubectl, None]:
    clock = SystemClock()
    api = ApiServer(clock, Store(), logs=lines, spread=random.Random(1))
    server = await serve_http(api)
    try:
        path = home / "kubeconfig"
        path.write_text(kubeconfig("test", server))
        yield Kubectl(path, home, DirectConnection(api, clock))
    finally:
        await server.close()


async def test_get_shows_tables_and_objects(tmp_path: Path) -> None:
    async with cluster(tmp_path) as kubectl:
        await kubectl.has_running_pod()
        assert "web-0   1/1     Running   0" in await kubectl("get", "pods")
        assert "n1" in await kubectl("get", "pods", "-A", "-o", "wide")
        assert await kubectl("get", "pods", "-l", "app=web", "-o", "name") == "pod/web-0\n"
        assert await kubectl("get", "po", "--field-selector=spec.nodeName=n2", "-o", "name") == ""
        assert await kubectl("get", "pods", "--chunk-size=1", "-o", "jsonpath={.items[*].status.phase}") == "Running"
        assert yaml.safe_load(await kubectl("get", "pod/web-0", "-o", "yaml"))["spec"]["nodeName"] == "n1"
        assert json.loads(await kubectl("get", "nodes", "-o", "json"))["items"][0]["metadata"]["name"] == "n1"
        assert 'pods "gone" not found' in await kubectl.refused("get", "pod", "gone")


async def test_get_watches(tmp_path: Path) -> None:
    async with cluster(tmp_path) as kubectl:
        await kubectl.has_running_pod()
        watching = await kubectl.start("get", "pods", "-w", "--no-headers")
        assert watching.stdout is not None
        assert (await asyncio.wait_for(watching.stdout.readline(), 30)).split()[2] == b"Running"
        await kubectl.status(kube.PODS, "web-0", {"phase": "Failed"})
        assert (await asyncio.wait_for(watching.stdout.readline(), 30)).split()[0] == b"web-0"
        watching.terminate()
        await watching.communicate()


async def test_describe_tells_of_pods_nodes_deployments_and_autoscalers(tmp_path: Path) -> None:
    async with cluster(tmp_path) as kubectl:
        await kubectl.has_running_pod()
        uid = json.loads(await kubectl.server.get(kube.PODS, "default", "web-0"))["metadata"]["uid"]
        event = {
            "metadata": {"name": "web-0.1"},
            "involvedObject": {
                "kind": "Pod",
                "apiVersion": "v1",
                "name": "web-0",
                "namespace": "default",
                "uid": uid,
            },
            "reason": "ResizeCompleted",
            "message": "all done",
            "type": "Normal",
            "count": 1,
            "lastTimestamp": "2026-11-29T12:00:00Z",
        }
        await kubectl.has(kube.EVENTS, event)
        shown = await kubectl("describe", "pod", "web-0")
        assert "QoS Class:" in shown
        assert "ResizeCompleted" in shown
        assert "ResizeCompleted" in await kubectl("events", "--for=pod/web-0")
        assert "cpu                100m (2%)" in await kubectl("describe", "node", "n1")
        await kubectl("apply", "-f", kubectl.manifest(deployment_json(), VPA))
        assert "0 available" in await kubectl("describe", "deployment", "web")
        assert "Update Mode:  InPlace" in await kubectl("describe", "vpa", "web")


async def test_apply_creates_changes_and_leaves_alone(tmp_path: Path) -> None:
    async with cluster(tmp_path) as kubectl:
        objects = kubectl.manifest(deployment_json(), VPA)
        assert (await kubectl("apply", "-f", objects)).count(" created") == 2
        assert (await kubectl("apply", "-f", objects)).count(" unchanged") == 2
        objects = kubectl.manifest(deployment_json(replicas=3), VPA)
        out = await kubectl("apply", "-f", objects)
        assert out == "deployment.apps/web configured\nverticalpodautoscaler.autoscaling.k8s.io/web unchanged\n"
        assert await kubectl("get", "deploy", "web", "-o", "jsonpath={.spec.replicas}") == "3"
        misspelt = deployment_json()
        misspelt["spec"]["replica"] = 1
        assert 'unknown field "spec.replica"' in await kubectl.refused("apply", "-f", kubectl.manifest(misspelt))


async def test_create_makes_from_files_and_from_words(tmp_path: Path) -> None:
    async with cluster(tmp_path) as kubectl:
        assert "pod/web-0 created" in await kubectl("create", "-f", kubectl.manifest(pod_json()))
        assert "AlreadyExists" in await kubectl.refused("create", "-f", kubectl.manifest(pod_json()))
        made = [
            ("namespace", "team"),
            ("deployment", "api", "--image=x:1", "--replicas=2", "--port=80"),
            ("configmap", "cm", "--from-literal=a=b"),
            ("job", "j", "--image=x:1", "--", "true"),
            ("cronjob", "c", "--image=x:1", "--schedule=* * * * *", "--", "true"),
            ("quota", "q", "--hard=pods=9"),
            ("pdb", "b", "--selector=app=web", "--min-available=1"),
            ("priorityclass", "high", "--value=7"),
        ]
        for words in made:
            assert "created" in await kubectl("create", *words)
        assert (
            await kubectl("get", "deploy", "api", "-o", "jsonpath={.spec.replicas} {.metadata.labels.app}") == "2 api"
        )
        assert (
            await kubectl("get", "job", "j", "-o", "jsonpath={.spec.template.spec.containers[0].command}") == '["true"]'
        )
        assert "pod/one created" in await kubectl("run", "one", "--image=x:1", "-n", "team")


async def test_patch_takes_all_three_types_and_resizes(tmp_path: Path) -> None:
    async with cluster(tmp_path) as kubectl:
        await kubectl.has_running_pod()
        await kubectl.has(kube.DEPLOYMENTS, deployment_json())
        for kind, patch in (
            ("strategic", '{"spec":{"replicas":2}}'),
            ("merge", '{"spec":{"replicas":3}}'),
            ("json", '[{"op":"replace","path":"/spec/replicas","value":4}]'),
        ):
            assert "patched" in await kubectl("patch", "deploy", "web", f"--type={kind}", "-p", patch)
        assert await kubectl("get", "deploy", "web", "-o", "jsonpath={.spec.replicas}") == "4"
        resize = ("patch", "pod", "web-0", "--subresource=resize", "-p")
        wanted = '{"spec":{"containers":[{"name":"app","resources":{"requests":{"cpu":"%s"}}}]}}'
        assert "pod/web-0 patched" in await kubectl(*resize, wanted % "200m")
        out = await kubectl.refused(*resize, wanted % "600m")
        assert out == (
            'The Pod "web-0" is invalid: spec.containers[0].resources.requests: Invalid value: "600m":'
            " must be less than or equal to cpu limit of 500m\n"
        )


async def test_label_annotate_scale_and_delete(tmp_path: Path) -> None:
    async with cluster(tmp_path) as kubectl:
        await kubectl("apply", "-f", kubectl.manifest(deployment_json(), VPA, pod_json()))
        for name in ("deploy/web", "vpa/web", "pod/web-0"):
            assert "labeled" in await kubectl("label", name, "a=b")
            assert "annotated" in await kubectl("annotate", name, "c=d")
        assert "scaled" in await kubectl("scale", "deploy/web", "--replicas=5")
        assert "unlabeled" in await kubectl("label", "pod/web-0", "a-")
        out = await kubectl("delete", "deploy/web", "vpa/web", "pod/web-0")
        assert out.count(" deleted") == 3
        assert await kubectl("get", "deploy,vpa,pod", "-o", "name") == ""
        assert "deleted" in await kubectl("delete", "ns", "kube-node-lease")


async def test_delete_waits_for_the_node(tmp_path: Path) -> None:
    async with cluster(tmp_path) as kubectl:
        await kubectl.has_running_pod()
        version = json.loads(await kubectl.server.list(kube.PODS))["metadata"]["resourceVersion"]
        deleting = asyncio.create_task(kubectl("delete", "pod", "web-0"))
        async with aclosing(kubectl.server.watch(kube.PODS, resource_version=version)) as events:
            assert b"deletionTimestamp" in await asyncio.wait_for(anext(events), 30)
        assert not deleting.done()
        await kubectl.server.delete(kube.PODS, "default", "web-0", body=b'{"gracePeriodSeconds":0}')
        assert "deleted" in await deleting


async def test_logs_pass_their_options_on(tmp_path: Path) -> None:
    async with cluster(tmp_path) as kubectl:
        await kubectl.has_running_pod()
        assert await kubectl("logs", "web-0") == f"web-0 app {LogWish()}\n"
        out = await kubectl("logs", "-f", "web-0", "--tail=5", "-c", "app", "--timestamps", "--limit-bytes=99")
        assert out == f"web-0 app {LogWish(tail=5, limit_bytes=99, has_timestamps=True, follows=True)}\n"
        assert "is_previous=True" in await kubectl("logs", "web-0", "--previous")
        assert "since=1780000000.0" in await kubectl("logs", "web-0", "--since-time=2026-05-28T20:26:40Z")
        assert "since=None" not in await kubectl("logs", "web-0", "--since=5m")


async def test_top_shows_measured_usage(tmp_path: Path) -> None:
    async with cluster(tmp_path) as kubectl:
        await kubectl.has_running_pod()
        usage = {"cpu": "123m", "memory": "45Mi"}
        times = {"timestamp": "2026-11-29T12:00:00Z", "window": "15s"}
        pod = {"metadata": {"name": "web-0"}, "containers": [{"name": "app", "usage": usage}], **times}
        await kubectl.has(kube.POD_METRICS, pod)
        await kubectl.has(kube.NODE_METRICS, {"metadata": {"name": "n1"}, "usage": usage, **times})
        assert "123m         45Mi" in await kubectl("top", "pod")
        assert "app" in await kubectl("top", "pod", "--containers")
        assert "123m" in await kubectl("top", "node")


async def test_rollout_status_and_wait_end_when_it_is_so(tmp_path: Path) -> None:
    async with cluster(tmp_path) as kubectl:
        await kubectl.has_running_pod()
        await kubectl.has(kube.DEPLOYMENTS, deployment_json())
        waiting = asyncio.create_task(kubectl("rollout", "status", "deploy/web"))
        done = {
            "observedGeneration": 1,
            "replicas": 1,
            "updatedReplicas": 1,
            "availableReplicas": 1,
            "readyReplicas": 1,
        }
        await kubectl.status(kube.DEPLOYMENTS, "web", done)
        assert "successfully rolled out" in await waiting
        assert "condition met" in await kubectl("wait", "pod/web-0", "--for=condition=Ready", "--timeout=5s")


async def test_autoscale_and_undo_speak_to_the_server(tmp_path: Path) -> None:
    async with cluster(tmp_path) as kubectl:
        await kubectl.has(kube.DEPLOYMENTS, deployment_json())
        assert "autoscaled" in await kubectl("autoscale", "deploy/web", "--min=1", "--max=3", "--cpu=60%")
        assert "cpu: <unknown>/60%" in await kubectl("get", "hpa", "web")
        assert "no rollout history" in await kubectl.refused("rollout", "undo", "deploy/web")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("apply", "--server-side", "-f", "{manifest}"), "server-side apply is not served"),
        (("exec", "web-0", "--", "true"), "pods/exec is not served"),
        (("auth", "can-i", "get", "pods"), "access reviews are not served"),
        (("get", "secrets"), 'the server doesn\'t have a resource type "secrets"'),
    ],
)
async def test_what_is_not_served_is_refused_by_name(tmp_path: Path, words: tuple[str, ...], says: str) -> None:
    async with cluster(tmp_path) as kubectl:
        await kubectl.has_running_pod()
        manifest = kubectl.manifest(deployment_json())
        assert says in await kubectl.refused(*(manifest if one == "{manifest}" else one for one in words))
