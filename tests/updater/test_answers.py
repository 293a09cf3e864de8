"""What the API server may answer to a resize, and what follows from it."""

import pytest

from elastipod.kube.errors import Conflict, Invalid, NotServed, TooManyRequests, Unreachable
from tests.updater.world import World


async def test_what_validation_refuses_is_not_asked_again() -> None:
    async with World() as world:
        await world.node()
        await world.pod("web-a", await world.deployment())
        await world.autoscaler(cpu="1")
        world.connection.failures = [Invalid(422, "Invalid", "Pod QOS Class may not change as a result of resizing")]
        await world.run(20, seconds=60)
        assert (len(world.connection.resizes), world.outcome()) == (1, "Refused QosClass")


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
        assert world.outcome() == "Done Done"


async def test_after_a_conflict_it_is_planned_again_on_the_newer_pod() -> None:
    async with World() as world:
        await world.node()
        await world.pod("web-a", await world.deployment())
        await world.autoscaler(cpu="1")
        world.connection.failures = [Conflict(409, "Conflict", "the object has been modified")]
        await world.run(2)
        assert (len(world.connection.resizes), world.outcome()) == (2, "Done Done")


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
            assert (len(world.connection.resizes), world.outcome()) == (3, "Done Done")


async def test_a_resize_that_is_in_force_before_its_answer_comes_is_done() -> None:
    async with World() as world:
        await world.node()
        await world.pod("web-a", await world.deployment(), cpu="100m")
        await world.autoscaler(cpu="1")
        await world.settle()
        world.connection.before_answer = [world.kubelet, world.settle]
        await world.run(kubelet=False)
        assert world.outcome() == "Done Done"


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
        assert {world.outcome(name) for name in ("web-a", "web-b", "web-c")} == {"Refused NotServed"}
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
        assert world.outcome() == "Refused Refused"
        assert len(world.connection.resizes) == 1
        assert "Refused" in await world.events()
        await world.recommend(cpu="200m", memory="128Mi")
        await world.run(5, seconds=20)
        assert (await world.requests("web-a"))["cpu"] == "200m"
