"""What the recommender says of a workload is what its next pod is created with."""

import json
import uuid
from pathlib import Path
from typing import Any

import pytest

from elastipod.cli.demo.manifests import autoscaler, container, deployment
from elastipod.cli.running import Wanted, running_cluster
from elastipod.clock import SystemClock
from elastipod.kube.connection import Connection
from elastipod.kube.podrows import decode_pod
from elastipod.kube.resources import AUTOSCALERS, DEPLOYMENTS, PODS, ResourceType
from elastipod.pods import Pod
from elastipod.quantities import Resources

Json = dict[str, Any]
MIB = 1024 * 1024
CLOCK = SystemClock()


async def create(connection: Connection, resource: ResourceType, body: Json) -> None:
    await connection.create(resource, "default", json.dumps(body).encode())


async def pods(connection: Connection) -> list[Pod]:
    """Those of the Deployment."""
    listed = json.loads(await connection.list(PODS, namespace="default", label_selector="app=web"))
    return [decode_pod(json.dumps(one).encode()) for one in listed["items"]]


async def is_recommended(connection: Connection) -> bool:
    found = json.loads(await connection.get(AUTOSCALERS, "default", "web"))
    return bool(found.get("status", {}).get("recommendation", {}).get("containerRecommendations"))


@pytest.mark.parametrize("mode", ["Initial", "Off"])
async def test_a_pod_is_created_anew_with_what_is_recommended_where_the_mode_allows(tmp_path: Path, mode: str) -> None:
    name, folder = f"t{uuid.uuid4().hex[:8]}", str(tmp_path / "cluster")
    wanted = Wanted(name, folder, simulated=True, cpu_millicores=4_000, memory_bytes=4_096 * MIB, usage_seconds=0.5)
    async with running_cluster(wanted) as running:
        connection = running.connection()
        try:
            app = container("app", ["sleep", "3600"], {"cpu": "50m", "memory": "32Mi"})
            await create(connection, DEPLOYMENTS, deployment("web", app, {}, {"cpu": "300m", "memory": "200Mi"}))
            scaler = autoscaler("web")
            scaler["spec"]["updatePolicy"]["updateMode"] = mode
            await create(connection, AUTOSCALERS, scaler)
            while not await is_recommended(connection):
                await CLOCK.sleep(0.1)
            [first] = await pods(connection)
            assert first.containers[0].requests == Resources(50, 32 * MIB)
            await connection.delete(PODS, "default", first.name)
            while not (fresh := [one for one in await pods(connection) if one.uid != first.uid]):
                await CLOCK.sleep(0.1)
            given = fresh[0].containers[0].requests
            if mode == "Off":
                assert given == first.containers[0].requests
            else:
                assert given.cpu >= 300
                assert given.memory >= 200 * MIB
        finally:
            await connection.close()
