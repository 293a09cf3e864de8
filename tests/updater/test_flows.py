import json
from typing import Any

import pytest

from elastipod.kube.errors import Conflict, Forbidden, Invalid, NotServed, StatusCause, TooManyRequests, Unreachable
from elastipod.kube.resources import AUTOSCALERS, ELASTIC_POLICIES, NODES, POD_DISRUPTION_BUDGETS, RESOURCE_QUOTAS
from tests import build
from tests.updater.world import World


def outcome(world: World, pod: str = "web-a") -> str:
    """State and reason of a pod's attempt."""
    attempt = (world.updater.explain(f"default/{pod}") or {}).get("attempt", {})
    return f"{attempt.get('state')} {attempt.get('reason')}"


def decided(world: World, pod: str = "web-a") -> str:
    found: str = (world.updater.explain(f"default/{pod}") or {}).get("decision", {}).get("reason")
    return found


async def test_a_recommendation_becomes_a_resize_in_force_and_then_nothing_more_is_written() -> None:
    async with World() as world:
        await world.node()
        await world.pod("web-a", await world.deployment(), cpu="100m", memory="128Mi")
        await world.autoscaler(cpu="1")
        await world.run()
        assert await world.requests("web-a") == {"cpu": "1", "memory": "128Mi"}
        assert outcome(world) == "Done Done"
        assert await world.events() == ["OutsideBounds"]
        await world.run(20, seconds=60)
        assert len(world.connection.resizes) == 1


async def test_a_request_names_uid_and_version_and_only_what_changes() -> None:
    async with World() as world:
        await world.node()
        made = await world.pod("web-a", await world.deployment())
        await world.autoscaler(cpu="1")
        await world.run()
        [(_, body)] = world.connection.resizes
        assert body["metadata"]["uid"] == made["metadata"]["uid"]
        assert body["metadata"]["resourceVersion"]
        assert body["spec"] == {
            "containers": [{"name": "app", "resources": {"requests": {"cpu": "1", "memory": "128Mi"}}}]
        }


async def test_without_room_nothing_is_sent_and_it_happens_when_a_neighbour_ends() -> None:
    async with World() as world:
        await world.node(cpu="2")
        await world.pod("other", cpu="1500m")
        await world.pod("web-a", await world.deployment(), cpu="100m")
        await world.autoscaler(cpu="1")
        await world.run(3, seconds=1)
        assert (world.connection.resizes, outcome(world)) == ([], "Wanted NoRoom")
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
            tries.append((world.updater.explain("default/web-a") or {})["attempt"]["tries"])
        assert tries[0] == 1
        assert 3 <= tries[-1] <= 5


async def test_a_race_that_the_kubelet_defers_is_given_up_in_time_and_asked_again_when_room_frees() -> None:
    async with World(deferred_seconds=60.0) as world:
        await world.node(cpu="2")
        await world.pod("web-a", await world.deployment(), cpu="100m")
        await world.autoscaler(cpu="1")
        await world.run(kubelet=False)
        await world.pod("late", cpu="1500m")
        await world.kubelet()
        await world.run()
        assert outcome(world) == "Deferred Deferred"
        await world.run(8, seconds=10)
        assert (await world.requests("web-a"))["cpu"] == "100m"
        assert outcome(world).split()[0] in ("Abandoned", "Refused", "Wanted")
        await world.delete("late")
        await world.run(8, seconds=10)
        assert (await world.requests("web-a"))["cpu"] == "1"
        assert outcome(world) == "Done Done"


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
        assert outcome(world) == "Infeasible Infeasible"
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
        assert (world.connection.resizes, outcome(world)) == ([], "Infeasible Infeasible")


async def test_an_api_server_that_refuses_oversize_ends_in_the_same_state() -> None:
    async with World() as world:
        await world.node(cpu="4")
        await world.pod("web-a", await world.deployment(), cpu="100m")
        await world.autoscaler(cpu="3")
        cause = StatusCause("NodeCapacity", "too much", "spec")
        world.connection.failures = [Forbidden(403, "Forbidden", "pods is forbidden: too much", (cause,))]
        await world.run(20, seconds=60)
        assert (len(world.connection.resizes), outcome(world)) == (1, "Infeasible Infeasible")


async def test_a_size_stated_on_the_deployment_is_followed_by_its_running_pods() -> None:
    async with World() as world:
        await world.node()
        owner = await world.deployment()
        for name in ("web-a", "web-b"):
            await world.pod(name, owner, cpu="100m")
        await world.run()
        await world.state("web", json.dumps({"app": {"requests": {"cpu": "700m"}}}))
        await world.run()
        assert [(await world.requests(name))["cpu"] for name in ("web-a", "web-b")] == ["700m", "700m"]
        assert (world.updater.explain("default/web-a") or {})["attempt"]["because"] == "StatedOnWorkload"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('{"app": {"requests": {"cpu": "lots"}}}', "elastipod.io/resources.app.requests.cpu: 'lots' is not a quantity"),
        ("[" * 100_000, "elastipod.io/resources is not JSON"),
    ],
    ids=["no quantity", "too long"],
)
async def test_a_stated_size_that_can_not_be_read_is_named_and_changes_nothing(text: str, told: str) -> None:
    async with World() as world:
        await world.node()
        await world.pod("web-a", await world.deployment())
        await world.state("web", text)
        await world.run()
        assert (world.connection.resizes, decided(world)) == ([], "BadValue")
        assert (world.updater.explain("default/web-a") or {})["decision"]["message"].startswith(told)
        assert await world.events() == ["BadValue"]


async def test_a_size_stated_for_a_container_that_is_not_there_is_named_and_the_others_hold() -> None:
    async with World() as world:
        await world.node()
        await world.pod("web-a", await world.deployment())
        await world.state("web", json.dumps({"app": {"requests": {"cpu": "700m"}}, "ap": {"requests": {"cpu": "1"}}}))
        await world.run(2)
        assert (await world.requests("web-a"))["cpu"] == "700m"
        assert decided(world) == "BadValue"
        message = (world.updater.explain("default/web-a") or {})["decision"]["message"]
        assert message == "elastipod.io/resources.ap: the pod has no such container to resize, only app"


async def test_what_validation_refuses_is_not_asked_again() -> None:
    async with World() as world:
        await world.node()
        await world.pod("web-a", await world.deployment())
        await world.autoscaler(cpu="1")
        world.connection.failures = [Invalid(422, "Invalid", "Pod QOS Class may not change as a result of resizing")]
        await world.run(20, seconds=60)
        assert (len(world.connection.resizes), outcome(world)) == (1, "Refused QosClass")


async def test_retry_after_is_honoured() -> None:
    async with World() as world:
        await world.node()
        await world.pod("web-a", await world.deployment())
        await world.autoscaler(cpu="1")
        world.connection.failures = [TooManyRequests(429, "TooManyRequests", "slow down", (), 40.0)]
        await world.run(39, seconds=1)
        assert len(world.connection.resizes) == 1
        await world.run(10, seconds=1)
        assert len(world.connection.resizes) == 2


async def test_an_outage_is_waited_out_with_growing_pauses() -> None:
    async with World() as world:
        await world.node()
        await world.pod("web-a", await world.deployment())
        await world.autoscaler(cpu="1")
        world.connection.failures = [Unreachable("refused")] * 4
        await world.run(60, seconds=1)
        assert 3 <= len(world.connection.resizes) <= 5
        await world.run(60, seconds=5)
        assert outcome(world) == "Done Done"


async def test_after_a_conflict_it_is_planned_again_on_the_newer_pod() -> None:
    async with World() as world:
        await world.node()
        await world.pod("web-a", await world.deployment())
        await world.autoscaler(cpu="1")
        world.connection.failures = [Conflict(409, "Conflict", "the object has been modified")]
        await world.run(2)
        assert (len(world.connection.resizes), outcome(world)) == (2, "Done Done")


@pytest.mark.parametrize("is_gone", [False, True])
async def test_a_pod_whose_change_the_watch_never_told_is_read_anew(is_gone: bool) -> None:
    async with World() as world:
        await world.node()
        await world.pod("web-a", await world.deployment())
        await world.run()
        world.connection.lost_events = 1
        if is_gone:
            await world.delete("web-a")
            world.connection.failures = [Conflict(409, "Conflict", "the object has been modified")] * 2
        else:
            await world.status("web-a", {"message": "as it was"})
        await world.autoscaler(cpu="1")
        await world.run(3)
        if is_gone:
            assert world.updater.explain("default/web-a") is None
        else:
            assert (len(world.connection.resizes), outcome(world)) == (3, "Done Done")


async def test_a_resize_that_is_in_force_before_its_answer_comes_is_done() -> None:
    async with World() as world:
        await world.node()
        await world.pod("web-a", await world.deployment(), cpu="100m")
        await world.autoscaler(cpu="1")
        await world.settle()
        world.connection.before_answer = [world.kubelet, world.settle]
        await world.run(kubelet=False)
        assert outcome(world) == "Done Done"


async def test_a_namesake_is_not_resized() -> None:
    async with World() as world:
        await world.node()
        owner = await world.deployment()
        await world.pod("web-a", owner, cpu="100m")
        await world.autoscaler(cpu="1")

        async def replace() -> None:
            await world.delete("web-a")
            await world.pod("web-a", None, cpu="200m")

        world.connection.before_resize = [replace]
        await world.run(3)
        assert (await world.requests("web-a"))["cpu"] == "200m"


async def test_when_another_actor_changes_the_pod_it_is_left_alone() -> None:
    async with World() as world:
        await world.node()
        await world.pod("web-a", await world.deployment(), cpu="100m")
        await world.autoscaler(cpu="1")
        await world.run()
        await world.resize("web-a", {"cpu": "300m", "memory": "128Mi"})
        await world.run(20, seconds=60)
        assert len(world.connection.resizes) == 1
        assert outcome(world) == "Refused Overridden"
        await world.run(20, seconds=60)
        assert len(world.connection.resizes) == 2


async def test_a_deferred_resize_is_taken_up_after_a_restart_of_ours() -> None:
    async with World(deferred_seconds=60.0) as world:
        await world.node(cpu="2")
        await world.pod("web-a", await world.deployment(), cpu="100m")
        await world.autoscaler(cpu="1")
        await world.run(kubelet=False)
        await world.pod("late", cpu="1500m")
        await world.kubelet()
        await world.restart()
        await world.run()
        assert outcome(world) == "Deferred Deferred"
        await world.run(8, seconds=10)
        assert (await world.requests("web-a"))["cpu"] == "100m"


async def test_a_deferred_resize_of_somebody_else_takes_the_place_of_one_that_waits() -> None:
    async with World() as world:
        await world.node(cpu="2")
        await world.pod("web-a", await world.deployment(), cpu="100m")
        await world.pod("other", cpu="1500m")
        await world.autoscaler(cpu="1")
        await world.run()
        assert outcome(world) == "Wanted NoRoom"
        await world.resize("web-a", {"cpu": "1", "memory": "128Mi"})
        await world.kubelet()
        await world.run(2)
        assert outcome(world) == "Deferred Deferred"


async def test_memory_goes_down_in_steps_and_never_below_what_is_used() -> None:
    async with World(step_seconds=30.0) as world:
        await world.node()
        await world.pod(
            "web-a", await world.deployment(), cpu="100m", memory="1Gi", cpu_limit="200m", memory_limit="1Gi"
        )
        await world.autoscaler(cpu="100m", memory="256Mi")
        world.used.by_pod["web-a"] = ("10m", "200Mi")
        await world.run(40, seconds=15)
        limits = [
            body["spec"]["containers"][0]["resources"]["limits"]["memory"] for _, body in world.connection.resizes
        ]
        assert len(limits) >= 6
        assert limits[-1] == "256Mi"
        assert (await world.requests("web-a"))["memory"] == "256Mi"


async def test_without_a_fresh_sample_memory_stays() -> None:
    async with World() as world:
        await world.node()
        await world.pod("web-a", await world.deployment(), memory="1Gi")
        await world.autoscaler(cpu="100m", memory="256Mi")
        world.used.by_pod["web-a"] = ("10m", "100Mi")
        world.used.age_seconds = 20.0
        await world.run(5, seconds=15)
        assert (world.connection.resizes, decided(world)) == ([], "StaleData")
        world.used.age_seconds = 2.0
        await world.run(5, seconds=15)
        assert (await world.requests("web-a"))["memory"] == "256Mi"


async def test_a_waiting_resize_gets_room_from_a_neighbour_that_gets_its_own_back_when_it_needs_it() -> None:
    async with World() as world:
        await world.node(cpu="4", memory="8Gi")
        await world.pod("web-a", await world.deployment("web"), cpu="500m", memory="128Mi")
        await world.pod("idle-a", await world.deployment("idle"), cpu="3", memory="256Mi")
        await world.autoscaler("idle", cpu="3")
        await world.autoscaler("web", cpu="2")
        world.used.by_pod = {"idle-a": ("100m", "100Mi"), "web-a": ("490m", "100Mi")}
        await world.run(5, seconds=2)
        assert (await world.requests("web-a"))["cpu"] == "2"
        assert (await world.requests("idle-a"))["cpu"] == "2"
        assert (world.updater.explain("default/idle-a") or {})["gave"]["had"]["app"]["requests"]["cpu"] == "3"
        world.used.by_pod["idle-a"] = ("1900m", "100Mi")
        await world.recommend("web", cpu="500m")
        await world.run(40, seconds=4)
        assert (await world.requests("idle-a"))["cpu"] == "3"
        assert "gave" not in (world.updater.explain("default/idle-a") or {})


async def test_a_pending_pod_gets_room_from_neighbours() -> None:
    async with World() as world:
        await world.node(cpu="4100m", memory="8Gi")
        owner = await world.deployment("idle")
        await world.pod("idle-a", owner, cpu="2", memory="256Mi")
        await world.pod("idle-b", owner, cpu="2", memory="256Mi")
        await world.autoscaler("idle", cpu="2")
        world.used.by_pod = {"idle-a": ("100m", "100Mi"), "idle-b": ("1800m", "100Mi")}
        await world.run()
        await world.pod("new", node=None, cpu="1", memory="64Mi")
        await world.run(3, seconds=2)
        # 0.1 were free, and idle-b uses what it has.
        assert await world.requests("idle-a") == {"cpu": "1100m", "memory": "256Mi"}
        assert (await world.requests("idle-b"))["cpu"] == "2"


async def test_a_donor_gets_its_own_back_even_after_a_restart_of_ours() -> None:
    async with World() as world:
        await world.node(cpu="4", memory="8Gi")
        policy = {
            "apiVersion": "elastipod.io/v1alpha1",
            "kind": "ElasticPolicy",
            "metadata": {"name": "share", "namespace": "default"},
            "spec": {"selector": {"name": "idle"}, "donate": True},
        }
        await world.create(ELASTIC_POLICIES, policy)
        await world.pod("idle-a", await world.deployment("idle", cpu="3"), cpu="3")
        world.used.by_pod = {"idle-a": ("100m", "100Mi")}
        await world.run()
        await world.pod("new", node=None, cpu="2", memory="64Mi")
        await world.run(3, seconds=2)
        assert (await world.requests("idle-a"))["cpu"] == "2"
        await world.delete("new")
        await world.restart()
        await world.run(3, seconds=6)
        assert (await world.requests("idle-a"))["cpu"] == "2"
        world.used.by_pod["idle-a"] = ("1900m", "100Mi")
        await world.run(12, seconds=6)
        assert (await world.requests("idle-a"))["cpu"] == "3"


async def test_two_autoscalers_on_one_workload_act_not_at_all() -> None:
    async with World() as world:
        await world.node()
        await world.pod("web-a", await world.deployment())
        await world.autoscaler(cpu="1")
        body = json.loads(await world.connection.get(AUTOSCALERS, "default", "web"))
        second = {**body, "metadata": {"name": "second", "namespace": "default"}}
        second.pop("status", None)
        await world.create(AUTOSCALERS, second)
        await world.run(3, seconds=60)
        assert (world.connection.resizes, decided(world)) == ([], "Conflict")


async def test_bare_pods_that_a_policy_makes_one_workload_are_resized_as_it_r43() -> None:
    async with World() as world:
        await world.node()
        await world.pod("runner-0")
        target = {"apiVersion": "elastipod.io/v1alpha1", "kind": "ElasticPolicy", "name": "runners"}
        await world.autoscaler("runners", cpu="300m", targetRef=target)
        await world.run()
        assert world.connection.resizes == []
        policy = {
            "apiVersion": "elastipod.io/v1alpha1",
            "kind": "ElasticPolicy",
            "metadata": {"name": "runners", "namespace": "default"},
            "spec": {"selector": {"matchLabels": {"app": "web"}}},
        }
        await world.create(ELASTIC_POLICIES, policy)
        await world.pod("runner-1")
        await world.run(2)
        assert [(await world.requests(name))["cpu"] for name in ("runner-0", "runner-1")] == ["300m", "300m"]


async def test_a_pod_below_a_custom_owner_is_resized_by_the_advice_for_either_r42() -> None:
    async with World() as world:
        await world.node()
        await world.pod("web-a", await world.deployment(owner=build.owner_json("Kafka", "k", "uid-k", "kafka.io/v1")))
        await world.autoscaler(cpu="300m")
        await world.run(2)
        assert (await world.requests("web-a"))["cpu"] == "300m"
        await world.autoscaler("k", cpu="700m", targetRef={"apiVersion": "kafka.io/v1", "kind": "Kafka", "name": "k"})
        await world.run(2)
        assert (await world.requests("web-a"))["cpu"] == "700m"


async def test_pods_that_nobody_gave_to_us_give_nothing() -> None:
    async with World() as world:
        await world.node(cpu="4")
        await world.pod("idle-a", await world.deployment("idle"), cpu="3800m")
        world.used.by_pod = {"idle-a": ("100m", "100Mi")}
        await world.pod("new", node=None, cpu="1")
        await world.run(3, seconds=5)
        assert world.connection.resizes == []


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
        assert (world.connection.resizes, outcome(world)) == ([], "Refused DisruptionBudget")
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
        assert (world.connection.resizes, outcome(world)) == ([], "Refused QuotaExceeded")
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
        assert (world.connection.resizes, outcome(world)) == ([], "Refused NodeNotReady")


@pytest.mark.parametrize("spec", [{"updatePolicy": {"updateMode": "Off"}}, {"recommenders": [{"name": "other"}]}])
async def test_what_is_not_ours_to_change_stays(spec: dict[str, Any]) -> None:
    async with World() as world:
        await world.node()
        await world.pod("web-a", await world.deployment())
        await world.autoscaler(cpu="1", **spec)
        await world.run(3, seconds=60)
        assert world.connection.resizes == []
        assert decided(world) in ("ModeOff", "NotOurs")


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


async def test_an_older_api_server_without_resize_is_asked_once_and_each_pod_is_told_why() -> None:
    async with World() as world:
        await world.node()
        owner = await world.deployment()
        for name in ("web-a", "web-b", "web-c"):
            await world.pod(name, owner)
        await world.autoscaler(cpu="1")
        world.connection.failures = [NotServed(404, "", "404 page not found")] * 100
        await world.run(20, seconds=20)
        assert len(world.connection.resizes) == 1
        assert world.lacking.lacks() == ("pods/resize is not served",)
        assert {outcome(world, name) for name in ("web-a", "web-b", "web-c")} == {"Refused NotServed"}
        assert "NotServed" in await world.events()


async def test_a_memory_limit_that_an_older_api_server_will_not_lower_is_told_once_and_cpu_goes_on() -> None:
    # Kubernetes 1.33.
    no = "spec.containers[0].resources.limits: Forbidden: memory limits cannot be decreased unless resizePolicy is"
    async with World() as world:
        await world.node()
        await world.pod("web-a", await world.deployment(), memory="512Mi", memory_limit="1Gi")
        world.used.by_pod = {"web-a": ("50m", "64Mi")}
        await world.autoscaler(cpu="100m", memory="128Mi")
        world.connection.failures = [Invalid(422, "Invalid", f"{no} RestartContainer")]
        await world.run(20, seconds=20)
        assert outcome(world) == "Refused Refused"
        assert len(world.connection.resizes) == 1
        assert "Refused" in await world.events()
        await world.recommend(cpu="200m", memory="128Mi")
        await world.run(5, seconds=20)
        assert (await world.requests("web-a"))["cpu"] == "200m"
