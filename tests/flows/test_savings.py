"""What a resize has changed is what /metrics and /savings tell of it, also once the recommender was killed."""

import json
import os
import signal
import uuid
from pathlib import Path

import aiohttp
from prometheus_client.parser import text_string_to_metric_families

from elastipod.cli.demo.manifests import autoscaler, container, deployment
from elastipod.cli.parts import NoAnswerError, ask_savings
from elastipod.cli.running import RunningCluster, Wanted, running_cluster
from elastipod.kube.connection import Connection
from elastipod.kube.leadership import ADDRESS_ANNOTATION
from elastipod.kube.resources import AUTOSCALERS, DEPLOYMENTS, LEASES, PODS
from recommender.report.told import Savings, Told, read_savings
from tests.flows.test_new_pods import CLOCK, MIB, create, is_recommended, pods

GAUGES = {"before": "requests_before", "requested": "requests", "recommended": "recommended", "applied": "applied"}


def web(savings: Savings) -> dict[str, Told]:
    return {str(one.resource): one for one in savings.accounts if one.workload == "web"}


def has_grown(savings: Savings) -> bool:
    """Whether the pod has more of both than it had."""
    found = web(savings).values()
    return bool(found) and all(one.applied is not None and one.applied.amount < 0 for one in found)


async def metrics(connection: Connection) -> dict[tuple[str, str], float]:
    """Of the Deployment's container, by gauge and resource."""
    lease = json.loads(await connection.get(LEASES, "kube-system", "elastipod-recommender"))
    url = f"{lease['metadata']['annotations'][ADDRESS_ANNOTATION]}/metrics"
    async with aiohttp.ClientSession() as session, session.get(url) as answer:
        families = text_string_to_metric_families(await answer.text())
        return {
            (one.name.removeprefix("elastipod_workload_"), sample.labels["resource"]): sample.value
            for one in families
            for sample in one.samples
            if sample.labels.get("workload") == "web" and "resource" in sample.labels
        }


async def told(connection: Connection) -> tuple[Savings, dict[tuple[str, str], float]]:
    """Savings of a moment at which the pod has grown, and the metrics of the same moment."""
    while True:
        try:
            before = await ask_savings(connection)
            shown = await metrics(connection)
            after = await ask_savings(connection)
        except (NoAnswerError, aiohttp.ClientError):
            await CLOCK.sleep(0.1)
            continue
        if before == after and has_grown(read_savings(before)):
            return read_savings(before), shown
        await CLOCK.sleep(0.1)


async def resize(connection: Connection, requests: dict[str, str]) -> None:
    [pod] = await pods(connection)
    body = json.dumps({"spec": {"containers": [{"name": "app", "resources": {"requests": requests}}]}}).encode()
    await connection.patch(PODS, "default", pod.name, body, subresource="resize")


async def kill_recommender(running: RunningCluster) -> None:
    process_id = running.supervisor.process_ids["recommender"]
    os.kill(process_id, signal.SIGKILL)
    while running.supervisor.process_ids.get("recommender") in (None, process_id):
        await CLOCK.sleep(0.1)


async def test_growth_is_told_as_what_it_is_to_the_last_digit_and_after_a_kill_too(tmp_path: Path) -> None:
    name, folder = f"t{uuid.uuid4().hex[:8]}", str(tmp_path / "cluster")
    wanted = Wanted(name, folder, simulated=True, cpu_millicores=4_000, memory_bytes=4_096 * MIB, usage_seconds=0.5)
    async with running_cluster(wanted) as running:
        connection = running.connection()
        try:
            app = container("app", ["sleep", "3600"], {"cpu": "50m", "memory": "32Mi"})
            await create(connection, DEPLOYMENTS, deployment("web", app, {}, {"cpu": "300m", "memory": "200Mi"}))
            await create(connection, AUTOSCALERS, autoscaler("web"))
            while not await is_recommended(connection):
                await CLOCK.sleep(0.1)
            await resize(connection, {"cpu": "320m", "memory": "210Mi"})
            savings, shown = await told(connection)
            for resource, one in web(savings).items():
                for number, gauge in GAUGES.items():
                    assert shown[gauge, resource] == getattr(one, number).amount
                assert shown["applied_cost_per_hour", resource] == one.applied.per_hour  # type: ignore[union-attr]
            before = {resource: one.before for resource, one in web(savings).items()}
            assert [one.amount for one in before.values() if one is not None] == [0.05, 32.0 * MIB]
            await kill_recommender(running)
            savings, _ = await told(connection)
            assert {resource: one.before for resource, one in web(savings).items()} == before
        finally:
            await connection.close()
