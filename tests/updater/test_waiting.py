"""What can not be had yet waits, with its reason, and happens once it can."""

import json

from elastipod.kube.errors import Forbidden, StatusCause
from elastipod.kube.resources import NODES, POD_DISRUPTION_BUDGETS, RESOURCE_QUOTAS
from tests import build
from tests.updater.world import World


async def outrun(world: World) -> None:
    """A resize is asked, and another pod takes its room before the kubelet comes to it."""
    await world.node(cpu="2")
    await world.pod("web-a", await world.deployment(), cpu="100m")
    await world.autoscaler(cpu="1")
    await world.run(kubelet=False)
    await world.pod("late", cpu="1500m")
    await world.kubelet()


async def test_without_room_nothing_is_sent_and_it_happens_when_a_neighbour_ends() -> None:
    async with World() as world:
        await world.node(cpu="2")
        await world.pod("other", cpu="1500m")
        await world.pod("web-a", await world.deployment(), cpu="100m")
        await world.autoscaler(cpu="1")
        await world.run(3, seconds=1)
        assert (world.connection.resizes, world.outcome()) == ([], "Wanted NoRoom")
        await world.delete("other")
        await world.run()
        assert (await world.requests("web-a"))["cpu"] == "1"
        read = world.metrics.registry.get_sample_value
        assert read("elastipod_resize_seconds_count") == 1
        # It counts from when it was first wanted.
        assert 3 <= (read("elastipod_resize_seconds_sum") or 0) <= 5


async def test_without_any_event_it_is_tried_again_on_time() -> None:
    async with World(retry_first_seconds=5.0) as world:
        await world.node(cpu="2")
        await world.pod("other", cpu="1500m")
        await world.pod("web-a", await world.deployment(), cpu="100m")
        await world.autoscaler(cpu="1")
        await world.run()
        tries = []
        for _ in range(60):
            await world.run(seconds=1)
            tries.append(world.explained()["attempt"]["tries"])
        assert tries[0] == 1
        assert 3 <= tries[-1] <= 5


async def test_a_race_that_the_kubelet_defers_is_given_up_in_time_and_asked_again_when_room_frees() -> None:
    async with World(deferred_seconds=60.0) as world:
        await outrun(world)
        await world.run()
        assert world.outcome() == "Deferred Deferred"
        await world.run(8, seconds=10)
        assert (await world.requests("web-a"))["cpu"] == "100m"
        assert world.outcome().split()[0] in ("Abandoned", "Refused", "Wanted")
        await world.delete("late")
        await world.run(8, seconds=10)
        assert (await world.requests("web-a"))["cpu"] == "1"
        assert world.outcome() == "Done Done"


async def test_what_the_kubelet_calls_infeasible_is_put_back_and_not_asked_again_until_the_node_grows() -> None:
    async with World() as world:
        await world.node(cpu="4")
        await world.pod("web-a", await world.deployment(), cpu="100m")
        await world.autoscaler(cpu="3")
        await world.run(kubelet=False)
        pod = await world.get("web-a")
        await world._answer(pod, "Infeasible", pod["metadata"]["generation"])
        await world.run(30, seconds=60)
        assert (await world.requests("web-a"))["cpu"] == "100m"
        assert world.outcome() == "Infeasible Infeasible"
        assert len(world.connection.resizes) == 2
        bigger = {"status": {"allocatable": {"cpu": "8", "memory": "8Gi", "pods": "110"}}}
        await world.connection.patch(NODES, None, "n1", json.dumps(bigger).encode(), subresource="status")
        await world.run(3, seconds=10)
        assert (await world.requests("web-a"))["cpu"] == "3"


async def test_a_size_larger_than_the_node_is_never_sent() -> None:
    async with World() as world:
        await world.node(cpu="4")
        await world.pod("web-a", await world.deployment(), cpu="100m")
        await world.autoscaler(cpu="64")
        await world.run(20, seconds=60)
        assert (world.connection.resizes, world.outcome()) == ([], "Infeasible Infeasible")


async def test_an_api_server_that_refuses_oversize_ends_in_the_same_state() -> None:
    async with World() as world:
        await world.node(cpu="4")
        await world.pod("web-a", await world.deployment(), cpu="100m")
        await world.autoscaler(cpu="3")
        cause = StatusCause("NodeCapacity", "too much", "spec")
        world.connection.failures = [Forbidden(403, "Forbidden", "pods is forbidden: too much", (cause,))]
        await world.run(20, seconds=60)
        assert (len(world.connection.resizes), world.outcome()) == (1, "Infeasible Infeasible")


async def test_a_deferred_resize_is_taken_up_after_a_restart_of_ours() -> None:
    async with World(deferred_seconds=60.0) as world:
        await outrun(world)
        await world.restart()
        await world.run()
        assert world.outcome() == "Deferred Deferred"
        await world.run(8, seconds=10)
        assert (await world.requests("web-a"))["cpu"] == "100m"


async def test_a_deferred_resize_of_somebody_else_takes_the_place_of_one_that_waits() -> None:
    async with World() as world:
        await world.node(cpu="2")
        await world.pod("web-a", await world.deployment(), cpu="100m")
        await world.pod("other", cpu="1500m")
        await world.autoscaler(cpu="1")
        await world.run()
        assert world.outcome() == "Wanted NoRoom"
        await world.resize("web-a", {"cpu": "1", "memory": "128Mi"})
        await world.kubelet()
        await world.run(2)
        assert world.outcome() == "Deferred Deferred"


async def test_a_restart_waits_for_the_disruption_budget_and_comes_when_it_opens() -> None:
    async with World() as world:
        await world.node()
        owner = await world.deployment()
        policy = [{"resourceName": "cpu", "restartPolicy": "RestartContainer"}]
        for name in ("web-a", "web-b"):
            one = build.container_json(cpu="100m", resizePolicy=policy)
            await world.pod(name, owner, containers=[one])
        budget = {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": {"name": "keep", "namespace": "default"},
            "spec": {"minAvailable": 2, "selector": {"matchLabels": {"app": "web"}}},
        }
        await world.create(POD_DISRUPTION_BUDGETS, budget)
        await world.autoscaler(cpu="1")
        await world.run(3, seconds=1)
        assert (world.connection.resizes, world.outcome()) == ([], "Refused DisruptionBudget")
        body = json.dumps({"status": {"disruptionsAllowed": 1}}).encode()
        await world.connection.patch(POD_DISRUPTION_BUDGETS, "default", "keep", body, subresource="status")
        await world.run(kubelet=False)
        assert len(world.connection.resizes) == 1


async def test_a_used_up_quota_is_named_and_more_of_it_is_used_at_once() -> None:
    async with World() as world:
        await world.node()
        quota = {
            "apiVersion": "v1",
            "kind": "ResourceQuota",
            "metadata": {"name": "team", "namespace": "default"},
            "spec": {"hard": {"requests.cpu": "500m"}},
        }
        await world.create(RESOURCE_QUOTAS, quota)
        status = {"status": {"hard": {"requests.cpu": "500m"}, "used": {"requests.cpu": "100m"}}}
        await world.connection.patch(
            RESOURCE_QUOTAS, "default", "team", json.dumps(status).encode(), subresource="status"
        )
        await world.pod("web-a", await world.deployment(), cpu="100m")
        await world.autoscaler(cpu="1")
        await world.run(3, seconds=1)
        assert (world.connection.resizes, world.outcome()) == ([], "Refused QuotaExceeded")
        body = json.dumps({"spec": {"hard": {"requests.cpu": "2"}}}).encode()
        await world.connection.patch(RESOURCE_QUOTAS, "default", "team", body)
        await world.run()
        assert (await world.requests("web-a"))["cpu"] == "1"


async def test_a_node_that_is_not_ready_is_not_asked() -> None:
    async with World() as world:
        status = build.node_json()["status"]
        await world.node(status={**status, "conditions": [{"type": "Ready", "status": "Unknown"}]})
        await world.pod("web-a", await world.deployment())
        await world.autoscaler(cpu="1")
        await world.run(3, seconds=1)
        assert (world.connection.resizes, world.outcome()) == ([], "Refused NodeNotReady")


async def test_two_resizes_in_one_instant_are_not_given_the_same_room() -> None:
    async with World() as world:
        await world.node(cpu="2")
        owner = await world.deployment()
        for name in ("web-a", "web-b"):
            await world.pod(name, owner, cpu="100m")
        await world.autoscaler(cpu="1500m")
        await world.run(kubelet=False)
        assert len(world.connection.resizes) == 1


async def _many(world: World, node_cpu: str) -> None:
    await world.node(cpu=node_cpu, pods="100")
    owner = await world.deployment()
    for number in range(30):
        await world.pod(f"web-{number}", owner, cpu="100m")
    await world.autoscaler(cpu="1")
    await world.run()


async def test_a_change_of_many_pods_is_not_held_up_by_its_own_announcements() -> None:
    async with World(most_requests_at_once=4) as world:
        await _many(world, node_cpu="100")
        assert len(world.connection.resizes) == 30
        assert len(await world.events()) <= 8


async def test_what_has_to_wait_is_told_of_each_pod_however_many_there_are() -> None:
    async with World(most_requests_at_once=4) as world:
        await _many(world, node_cpu="3")
        assert not world.connection.resizes
        assert await world.events() == ["NoRoom"] * 30
