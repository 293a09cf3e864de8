"""Scheduler and controllers in a cluster of one simulated node."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

from elastipod.kube.connection import PatchType
from elastipod.kube.resources import DEPLOYMENTS, JOBS, POD_DISRUPTION_BUDGETS, PODS, REPLICA_SETS, STATEFUL_SETS
from elastipod.kube.resources import ResourceType as Kind
from elastipod.localcluster.controllers.manager import Controllers
from elastipod.localcluster.scheduler import Scheduler
from tests.build import container_json
from tests.localcluster.onenode import Json, OneNode, in_one_node


def in_a_cluster(test: Callable[[OneNode], Awaitable[None]], **size: int) -> None:
    async def with_controllers(here: OneNode) -> None:
        for one in (Scheduler(here.connection, here.clock), Controllers(here.connection, here.clock)):
            here.tasks.append(asyncio.create_task(one.run()))
        await test(here)

    in_one_node(with_controllers, **size)


def workload(kind: Kind, name: str, usage: Any = None, cpu: str = "100m", **spec: Any) -> Json:
    template: Json = {
        "metadata": {"labels": {"app": name}},
        "spec": {"containers": [container_json(cpu=cpu)], "terminationGracePeriodSeconds": 1},
    }
    if usage is not None:
        template["metadata"]["annotations"] = {"elastipod.io/simulated-usage": json.dumps(usage)}
    if kind is JOBS:
        template["spec"]["restartPolicy"] = "Never"
    else:
        spec["selector"] = {"matchLabels": {"app": name}}
    return {
        "apiVersion": kind.api_version,
        "kind": kind.kind,
        "metadata": {"name": name, "namespace": "default"},
        "spec": {**spec, "template": template},
    }


async def read(here: OneNode, kind: Kind, name: str) -> Json:
    found: Json = json.loads(await here.connection.get(kind, "default", name))
    return found


async def change(here: OneNode, kind: Kind, name: str, spec: Json) -> None:
    body = json.dumps({"spec": spec}).encode()
    await here.connection.patch(kind, "default", name, body, patch_type=PatchType.MERGE)


async def pods(here: OneNode) -> list[Json]:
    found: list[Json] = json.loads(await here.connection.list(PODS, namespace="default"))["items"]
    return found


def test_a_pod_without_room_is_told_why_and_placed_when_there_is_some() -> None:
    async def flow(here: OneNode) -> None:
        job = workload(JOBS, "job", {"seconds": 10}, cpu="800m")
        await here.create(JOBS, job)
        await asyncio.sleep(1)
        body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web", "namespace": "default"}}
        await here.create(PODS, body | {"spec": {"containers": [container_json(cpu="500m")]}})
        await asyncio.sleep(1)
        web = await here.pod("web")
        assert web.is_unschedulable
        condition = (await here.pod_json("web"))["status"]["conditions"][0]
        assert condition["message"] == "0/1 nodes are available: 1 Insufficient cpu."
        assert "FailedScheduling" in await here.events("web")
        await asyncio.sleep(10)
        assert (await here.pod("web")).phase == "Running"

    in_a_cluster(flow)


def test_a_deployment_rolls_over_without_falling_below_what_it_must_have() -> None:
    async def flow(here: OneNode) -> None:
        await here.create(DEPLOYMENTS, workload(DEPLOYMENTS, "web", replicas=4))
        await asyncio.sleep(2)
        assert (await read(here, DEPLOYMENTS, "web"))["status"]["availableReplicas"] == 4
        await change(here, DEPLOYMENTS, "web", {"template": {"metadata": {"annotations": {"new": "yes"}}}})
        for _ in range(100):
            await asyncio.sleep(0.1)
            ready = sum(one["status"].get("phase") == "Running" for one in await pods(here))
            assert ready >= 3
        status = (await read(here, DEPLOYMENTS, "web"))["status"]
        assert (status["updatedReplicas"], status["replicas"], status["availableReplicas"]) == (4, 4, 4)
        listed = json.loads(await here.connection.list(REPLICA_SETS, namespace="default"))["items"]
        assert sorted(one["spec"]["replicas"] for one in listed) == [0, 4]

    in_a_cluster(flow)


def test_a_deployment_s_templates_are_numbered_as_they_come() -> None:
    async def flow(here: OneNode) -> None:
        def numbers(found: list[Json]) -> dict[str, str]:
            return {
                one["spec"]["template"]["spec"]["containers"][0]["image"]: one["metadata"]["annotations"][
                    "deployment.kubernetes.io/revision"
                ]
                for one in found
            }

        await here.create(DEPLOYMENTS, workload(DEPLOYMENTS, "web", replicas=1))
        for image, number in (("registry.local/app:1", "1"), ("app:2", "2"), ("registry.local/app:1", "3")):
            containers = [{**container_json(), "image": image}]
            await change(here, DEPLOYMENTS, "web", {"template": {"spec": {"containers": containers}}})
            await asyncio.sleep(5)
            sets = json.loads(await here.connection.list(REPLICA_SETS, namespace="default"))["items"]
            assert numbers(sets)[image] == number
            assert numbers([await read(here, DEPLOYMENTS, "web")])[image] == number

    in_a_cluster(flow)


def test_a_lost_pod_is_replaced() -> None:
    async def flow(here: OneNode) -> None:
        await here.create(DEPLOYMENTS, workload(DEPLOYMENTS, "web", replicas=2))
        await asyncio.sleep(2)
        first = (await here.names())[0]
        await here.delete(first)
        await asyncio.sleep(3)
        names = await here.names()
        assert len(names) == 2
        assert first not in names

    in_a_cluster(flow)


def test_a_stateful_set_has_names_that_stay_and_goes_in_order() -> None:
    async def flow(here: OneNode) -> None:
        await here.create(STATEFUL_SETS, workload(STATEFUL_SETS, "db", replicas=3, serviceName="db"))
        await asyncio.sleep(3)
        made = sorted(await pods(here), key=lambda one: int(one["metadata"]["resourceVersion"]))
        assert [one["metadata"]["name"] for one in made] == ["db-0", "db-1", "db-2"]
        uid = made[1]["metadata"]["uid"]
        await here.delete("db-1")
        await asyncio.sleep(3)
        assert (await here.pod("db-1")).uid != uid
        await change(here, STATEFUL_SETS, "db", {"replicas": 1})
        await asyncio.sleep(4)
        assert await here.names() == ["db-0"]

    in_a_cluster(flow)


def test_a_job_completes_and_one_that_fails_too_often_fails() -> None:
    async def flow(here: OneNode) -> None:
        good = workload(JOBS, "good", {"seconds": 2}, completions=3, parallelism=2)
        bad = workload(JOBS, "bad", {"seconds": 1, "exitCode": 3}, backoffLimit=1)
        await here.create(JOBS, good)
        await here.create(JOBS, bad)
        await asyncio.sleep(3)
        assert (await read(here, JOBS, "good"))["status"]["active"] == 1
        await asyncio.sleep(30)
        status = (await read(here, JOBS, "good"))["status"]
        assert status["succeeded"] == 3
        assert [one["type"] for one in status["conditions"]] == ["SuccessCriteriaMet", "Complete"]
        status = (await read(here, JOBS, "bad"))["status"]
        assert status["failed"] == 2
        assert status["conditions"][-1]["reason"] == "BackoffLimitExceeded"

    in_a_cluster(flow)


def test_a_job_still_counts_a_pod_that_was_deleted_when_it_was_done() -> None:
    async def flow(here: OneNode) -> None:
        await here.create(JOBS, workload(JOBS, "good", {"seconds": 2}, completions=2, parallelism=1))
        await asyncio.sleep(3)
        await here.delete((await here.names())[0])
        await asyncio.sleep(10)
        assert (await read(here, JOBS, "good"))["status"]["succeeded"] == 2
        for name in await here.names():
            await here.delete(name)
        await asyncio.sleep(3)
        assert (await read(here, JOBS, "good"))["status"]["succeeded"] == 2
        assert await here.names() == []

    in_a_cluster(flow)


def test_a_budget_tells_how_many_may_be_disturbed() -> None:
    async def flow(here: OneNode) -> None:
        budget = {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": {"name": "web", "namespace": "default"},
            "spec": {"minAvailable": "50%", "selector": {"matchLabels": {"app": "web"}}},
        }
        await here.create(POD_DISRUPTION_BUDGETS, budget)
        await here.create(DEPLOYMENTS, workload(DEPLOYMENTS, "web", replicas=3))
        await asyncio.sleep(3)
        status = (await read(here, POD_DISRUPTION_BUDGETS, "web"))["status"]
        assert (status["currentHealthy"], status["desiredHealthy"], status["disruptionsAllowed"]) == (3, 2, 1)

    in_a_cluster(flow)
