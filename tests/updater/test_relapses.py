"""A kill after a shrink of ours, whatever the kubelet says of its time."""

import msgspec
import pytest

from elastipod.pods import Pod, Termination
from tests.updater.build import NOW, advice, amounts, container, facts, pod, size
from tests.updater.world import World
from updater.plan import decide
from updater.relapses import Relapses

HAD = size(amounts(memory="200Mi"), amounts(memory="300Mi"))
SHRUNK = size(amounts(memory="150Mi"), amounts(memory="225Mi"))


def shrunk(ended: Termination | None = None, restarts: int = 1, **state: Termination) -> Pod:
    one = container(requests=SHRUNK.requests, limits=SHRUNK.limits)
    return pod(msgspec.structs.replace(one, last_termination=ended, restart_count=restarts, **state))


def relapses(restarts: int = 0) -> Relapses:
    found = Relapses(cool_down_seconds=3600.0)
    before = msgspec.structs.replace(container(requests=HAD.requests, limits=HAD.limits), restart_count=restarts)
    found.asked(pod(before), {"app": SHRUNK})
    return found


@pytest.mark.parametrize("finished_at", [None, NOW, NOW - 1])
def test_a_kill_after_a_shrink_is_one_whatever_time_is_told_and_bars_the_shrink_r06(finished_at: float | None) -> None:
    found = relapses()
    killed = shrunk(Termination("OOMKilled", 137, "containerd://old", finished_at=finished_at))
    assert found.seen(killed, NOW) == NOW + 3600
    assert found.had(killed.key, NOW + 3599) == {"app": HAD}
    assert found.had(killed.key, NOW + 3600) == {}
    assert found.seen(killed, NOW + 1) is None, "it counts once"


@pytest.mark.parametrize(
    ("reason", "restarts"),
    [("Error", 1), ("Completed", 1), ("OOMKilled", 0)],
    ids=["a lone restart", "an end", "a kill before"],
)
def test_what_is_no_kill_after_the_shrink_bars_nothing_r06(reason: str, restarts: int) -> None:
    found = relapses()
    seen = shrunk(Termination(reason, 137, "containerd://old", finished_at=NOW), restarts)
    assert found.seen(seen, NOW) is None
    assert found.had(seen.key, NOW) == {}


def test_a_kill_that_is_seen_before_the_restart_counts_r06() -> None:
    killed = shrunk(restarts=0, termination=Termination("OOMKilled", 137, "containerd://new"))
    assert relapses().seen(killed, NOW) == NOW + 3600


def test_what_was_taken_is_given_back_at_once_and_the_same_advice_takes_it_not_again_r06() -> None:
    again = advice(amounts(memory="150Mi"), upper=amounts(memory="160Mi"))
    killed = shrunk(Termination("OOMKilled", 137, "containerd://old"))
    decision = decide(killed, facts(again, relapsed={"app": HAD}, resized_at=NOW - 1), NOW)
    assert decision.reason == "OomKilled"
    assert decision.resize is not None
    assert decision.resize.sizes == {"app": HAD}
    restored = pod(container(requests=HAD.requests, limits=HAD.limits, killed=True))
    assert decide(restored, facts(again, relapsed={"app": HAD}), NOW).resize is None


def test_what_is_raised_above_what_was_had_is_not_cut_for_it_r06() -> None:
    again = advice(amounts(memory="150Mi"))
    one = msgspec.structs.replace(again.containers["app"], lower=amounts(), upper=amounts())
    again = msgspec.structs.replace(again, containers={"app": one})
    raised = pod(container(requests=amounts(memory="400Mi"), limits=amounts(memory="600Mi"), killed=True))
    assert decide(raised, facts(again, relapsed={"app": HAD}, resized_at=NOW - 1), NOW).reason == "CoolingDown"


async def test_a_shrink_that_kills_is_taken_back_by_the_updater_and_comes_again_after_the_cool_down_r06() -> None:
    async with World(cool_down_seconds=3600) as world:
        await world.node()
        await world.pod("web-a", await world.deployment(), memory="200Mi", memory_limit="300Mi")
        world.used.by_pod = {"web-a": ("10m", "50Mi")}
        await world.autoscaler(cpu="100m", memory="160Mi")
        await world.run(2, seconds=40)
        assert await world.limits("web-a") == {"memory": "240Mi"}
        (status,) = (await world.get("web-a"))["status"]["containerStatuses"]
        killed = {"terminated": {"reason": "OOMKilled", "exitCode": 137, "finishedAt": None, "startedAt": None}}
        await world.status("web-a", {"containerStatuses": [{**status, "restartCount": 1, "lastState": killed}]})
        await world.run(2, seconds=40)
        assert await world.limits("web-a") == {"memory": "300Mi"}
        await world.run(20, seconds=120)
        assert await world.limits("web-a") == {"memory": "300Mi"}
        await world.run(20, seconds=120)
        assert await world.limits("web-a") == {"memory": "240Mi"}
