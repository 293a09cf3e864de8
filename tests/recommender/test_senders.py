"""Where the actuators are: by what the API server says of their pods, and never by what they say."""

import json
import random
from typing import Any

import pytest

from elastipod.clock import ManualClock, to_rfc3339
from elastipod.kube.calls import Call, InterceptedConnection
from elastipod.kube.connection import PatchType
from elastipod.kube.resources import ELASTIC_NODES, JOBS, NODES, PODS
from elastipod.localcluster.api.apiserver import ApiServer
from elastipod.localcluster.api.direct import DirectConnection
from elastipod.localcluster.api.store import Store
from recommender.samples import UsageSample
from recommender.sources.senders import in_pods, on_loopback
from tests import build
from tests.recommender.world import MI, World

Json = dict[str, Any]
LABELS = {"app.kubernetes.io/part-of": "elastipod", "app.kubernetes.io/component": "actuator"}


@pytest.fixture
def connection() -> DirectConnection:
    clock = ManualClock()
    return DirectConnection(ApiServer(clock, Store(), spread=random.Random(0), checks_node_capacity=False), clock)


async def actuator(
    connection: DirectConnection,
    name: str,
    *,
    namespace: str = "kube-system",
    labels: dict[str, str] = LABELS,
    ip: str = "10.0.0.7",
    phase: str = "Running",
    port: str = "metrics",
) -> None:
    container = build.container_json("actuator", ports=[{"name": port, "containerPort": 8080}])
    pod = build.pod_json(name, namespace, containers=[container], node=f"node-of-{name}", labels=labels)
    await connection.create(PODS, namespace, json.dumps(pod).encode())
    status = json.dumps({"status": {"phase": phase, "podIP": ip}}).encode()
    await connection.patch(PODS, namespace, name, status, patch_type=PatchType.MERGE, subresource="status")


async def test_an_actuator_is_where_its_pod_is(connection: DirectConnection) -> None:
    await actuator(connection, "a")
    await actuator(connection, "b", ip="fd00::7")
    found = await in_pods(connection, "kube-system")
    assert {one.node: one.url for one in found} == {
        "node-of-a": "http://10.0.0.7:8080",
        "node-of-b": "http://[fd00::7]:8080",
    }
    assert len({one.uid for one in found}) == 2


@pytest.mark.parametrize(
    "other",
    [
        {"namespace": "default"},
        {"labels": {**LABELS, "app.kubernetes.io/component": "updater"}},
        {"labels": {"app": "actuator"}},
        {"phase": "Pending"},
        {"phase": "Succeeded"},
        {"port": "http"},
        {"ip": "127.0.0.1"},
        {"ip": "169.254.169.254"},
        {"ip": "::1"},
        {"ip": "0.0.0.0"},
        {"ip": ""},
    ],
)
async def test_what_is_no_running_actuator_of_ours_is_not_asked(
    connection: DirectConnection, other: dict[str, Any]
) -> None:
    await actuator(connection, "a", **other)
    assert await in_pods(connection, "kube-system") == []


async def test_what_an_api_server_should_not_have_taken_for_an_address_is_not_asked(
    connection: DirectConnection,
) -> None:
    class Lax(InterceptedConnection):
        async def handle(self, call: Call) -> bytes:
            return (await super().handle(call)).replace(b"10.0.0.7", b"10.0.0.7:80/x?")

    await actuator(connection, "a")
    assert await in_pods(Lax(connection), "kube-system") == []


@pytest.mark.parametrize(
    ("address", "is_asked"),
    [
        ("http://127.0.0.1:4711", True),
        ("http://[::1]:4711", True),
        ("http://10.0.0.7:8080", False),
        ("http://169.254.169.254:80", False),
        ("https://127.0.0.1:4711", False),
        ("http://127.0.0.1", False),
        ("http://localhost.example:1", False),
        ("http://[broken:1", False),
        ("", False),
    ],
)
async def test_of_a_local_cluster_those_on_loopback_are_asked(
    connection: DirectConnection, address: str, is_asked: bool
) -> None:
    body = {"apiVersion": "elastipod.io/v1alpha1", "kind": "ElasticNode", "metadata": {"name": "n1"}}
    await connection.create(ELASTIC_NODES, None, json.dumps(body).encode())
    status = json.dumps({"status": {"address": address}}).encode()
    await connection.patch(ELASTIC_NODES, None, "n1", status, patch_type=PatchType.MERGE, subresource="status")
    found = await on_loopback(connection)
    assert [(one.node, one.url) for one in found] == ([("n1", address)] if is_asked else [])


async def job_of_forty_seconds(world: World) -> None:
    """A Job with a claim, whose pod has ended before any of its usage was told."""
    await world.create(NODES, build.node_json())
    made = await world.create(JOBS, build.job_json("genome"))
    await world.autoscaler(targetRef={"apiVersion": "batch/v1", "kind": "Job", "name": "genome"})
    owner = build.owner_json("Job", "genome", made["metadata"]["uid"], "batch/v1")
    pod = build.pod_json("genome-x", node="n1", owner=owner, restartPolicy="Never")
    await world.create(PODS, pod)
    ended = world.clock.now()
    status = build.running_status(pod)
    status["phase"] = "Succeeded"
    status["containerStatuses"][0] |= {
        "ready": False,
        "state": {
            "terminated": {
                "exitCode": 0,
                "reason": "Completed",
                "containerID": "containerd://1",
                "startedAt": to_rfc3339(ended - 40),
                "finishedAt": to_rfc3339(ended),
            }
        },
    }
    await world.set_status("genome-x", status)


async def test_the_last_minute_of_a_run_that_is_over_counts() -> None:
    async with World(usage_source="actuators") as world:
        await job_of_forty_seconds(world)
        await world.run(0.5, 700 * MI, pods=("genome-x",))
        assert world.recommender.recommendations.learning.counts.counted == 1
        target = await world.target()
        assert int(target["memory"].removesuffix("k").removesuffix("Mi")) > 0
        assert "TooShortToSee" not in (await world.conditions()).values()


async def test_what_is_told_of_a_run_long_after_it_is_nobodys() -> None:
    async with World() as world:
        await job_of_forty_seconds(world)
        for _ in range(6):
            await world.run()
        world.usage.samples = [UsageSample("default", "genome-x", "app", 1.0, 0.5, 700 * MI)]
        world.clock.advance(60)
        await world.recommender.run_once()
        counts = world.recommender.recommendations.learning.counts
        assert (counts.counted, counts.unclaimed) == (0, 1)
        assert world.recommender.recommendations.history.open_instances == 0
