"""What is not seen, or not seen well: one resource of two, runs that are over too soon, clocks that are off."""

import math
import time
from typing import Any

import pytest
from msgspec import structs

from elastipod.owners import Owned
from elastipod.pods import Container, OwnerReference, Pod, Termination, Workload
from elastipod.quantities import Resources, parse_memory
from recommender.claims import Claim
from recommender.clocks import skewed_nodes
from recommender.recommending import Recommendations
from recommender.samples import OomKill, UsageSample
from recommender.settings import RecommenderSettings
from tests.recommender.world import MI, World

GI = 1024 * MI
START = 1.8e9
JOB = Workload("ns", "CronJob", "short")


async def told(world: World, kind: str) -> str:
    status = (await world.read()).status
    assert status is not None
    return next((one.message for one in status.conditions or [] if one.type == kind), "")


@pytest.mark.parametrize(
    ("usage", "recommended", "missing"),
    [
        ({"memory": 200.0 * MI}, {"memory"}, "no cpu sample since"),
        ({"cpu": 0.2}, {"cpu"}, "no memory sample since"),
        ({"cpu": 0.2, "memory": 200.0 * MI}, {"cpu", "memory"}, ""),
    ],
    ids=["no cpu", "no memory", "both"],
)
async def test_each_resource_is_judged_by_itself_r25(
    usage: dict[str, Any], recommended: set[str], missing: str
) -> None:
    async with World() as world:
        await world.node(cpu="8", memory="32Gi")
        await world.pod("web-a", await world.deployment())
        await world.autoscaler()
        for _ in range(5):
            await world.run(**usage)
        assert set(await world.target()) == recommended
        assert (await told(world, "MetricsLost")).startswith(missing)
        assert bool(missing) == ("MetricsLost" in await world.conditions())


async def test_one_resource_that_is_heard_no_more_is_told_and_its_target_stays_r25() -> None:
    async with World() as world:
        await world.node(cpu="8", memory="32Gi")
        await world.pod("web-a", await world.deployment())
        await world.autoscaler()
        await world.run(cpu=0.2, memory=200 * MI)
        before = await world.target()
        for _ in range(5):
            await world.run(memory=200 * MI)
        assert (await world.target())["cpu"] == before["cpu"]
        assert (await told(world, "MetricsLost")).startswith("no cpu sample since")
        await world.run(cpu=0.2, memory=200 * MI)
        assert "MetricsLost" not in await world.conditions()


def job_pod(run: int, *, seconds: float | None = None, node: str = "") -> Pod:
    """A run of a job: over after some seconds, or still running."""
    at = START + run * 600
    ended = None if seconds is None else Termination("Completed", 0, f"c{run}", at, at + seconds)
    container = Container(
        "app",
        requests=Resources(500, 2 * GI),
        limits=Resources(None, 2 * GI),
        is_running=seconds is None,
        termination=ended,
    )
    return Pod(
        "ns",
        f"run-{run}",
        f"uid-{run}",
        node_name=node,
        phase="Running" if seconds is None else "Succeeded",
        restart_policy="Never",
        owner=OwnerReference("Job", f"short-{run}", f"job-{run}"),
        created_at=at,
        containers=(container,),
    )


def jobs(seconds: float, samples: int = 1) -> Recommendations:
    """A CronJob whose runs have a peak of 1.2Gi that the samples miss."""
    known = Recommendations(RecommenderSettings())
    known.set_claim("ns/vpa", Claim("ns", "vpa", "u", 1, "elastipod", JOB))
    known.loaded("ns/vpa", {}, {})
    for run in range(4):
        owner = OwnerReference("CronJob", "short", "c")
        known.members.set_owned(None, Owned("Job", "ns", f"short-{run}", f"job-{run}", owner=owner))
        known.members.set_pod(f"ns/run-{run}", job_pod(run))
        at = START + run * 600
        known.learn([UsageSample("ns", f"run-{run}", "app", at, 0.1, 100.0 * MI)] * samples, at)
        known.members.set_pod(f"ns/run-{run}", job_pod(run, seconds=seconds))
    known.decide(START + 2400)
    return known


def memory(known: Recommendations) -> int:
    status = known.status("ns/vpa", START + 2400)
    assert status.recommendation is not None
    [one] = status.recommendation.container_recommendations or []
    return parse_memory(str((one.target or {})["memory"]))


def reasons(known: Recommendations) -> dict[str, str]:
    conditions = known.status("ns/vpa", START + 2400).conditions or []
    return {one.type: one.reason or one.message for one in conditions}


def test_runs_that_are_over_before_they_are_seen_lower_nothing_r37() -> None:
    known = jobs(seconds=40)
    assert memory(known) == 2 * GI
    assert "app: memory TooShortToSee (runs of 40 s at most)" in reasons(known)["RecommendationProvided"]


def test_runs_that_were_over_too_soon_still_lower_nothing_once_their_pods_are_gone_r37() -> None:
    known = jobs(seconds=40)
    for run in range(4):
        known.members.set_pod(f"ns/run-{run}", None)
    known.decide(START + 2400)
    assert memory(known) == 2 * GI
    owner = OwnerReference("CronJob", "short", "c")
    known.members.set_owned(None, Owned("Job", "ns", "short-4", "job-4", owner=owner))
    known.members.set_pod("ns/run-4", job_pod(4))
    known.decide(START + 2460)
    assert memory(known) == 2 * GI


def test_runs_that_nothing_is_seen_of_are_told_r37() -> None:
    assert reasons(jobs(seconds=40, samples=0))["RecommendationProvided"] == "TooShortToSee"


def test_a_kill_of_a_short_run_raises_its_memory_r37() -> None:
    known = jobs(seconds=40)
    assert known.learn_kill(OomKill(JOB, "app", "uid-9", "k", START + 2300, limit_bytes=2 * GI))
    known.decide(START + 2400)
    assert memory(known) >= 2.4 * GI


def test_runs_that_are_long_enough_to_be_seen_are_sized_by_what_is_seen_r37() -> None:
    known = jobs(seconds=300)
    assert memory(known) < 150 * MI
    assert "TooShort" not in str(reasons(known))


def stamped(node_and_offset: dict[str, Any]) -> list[UsageSample]:
    return [
        UsageSample("ns", f"{node}-{place}", "app", START + offset, 0.1, 1e8)
        for node, offsets in node_and_offset.items()
        for place, offset in enumerate(offsets)
    ]


def node_of(sample: UsageSample) -> str:
    return sample.pod.partition("-")[0]


def test_nodes_whose_clocks_are_off_by_more_than_five_minutes_are_named_r74() -> None:
    samples = stamped({"a": [3900, 3890], "b": [-300, -310], "c": [-15, -4000], "d": [0, 10_800], "e": [-3600]})
    assert skewed_nodes(samples, START, node_of) == {"a": 3900.0, "d": 10_800.0, "e": -3600.0}
    assert skewed_nodes(stamped({"a": [math.nan], "": [9e9]}), START, node_of) == {}


def test_samples_of_a_node_whose_clock_is_off_count_by_when_they_arrive_r74() -> None:
    known = Recommendations(RecommenderSettings())
    known.set_claim("ns/vpa", Claim("ns", "vpa", "u", 1, "elastipod", JOB))
    known.loaded("ns/vpa", {}, {})
    known.members.set_owned(None, Owned("Job", "ns", "short-0", "job-0", owner=OwnerReference("CronJob", "short", "c")))
    known.members.set_pod("ns/run-0", job_pod(0, node="a"))
    for minute, offset in enumerate((10_800, 3900, -300, 3900)):
        at = START + minute * 60
        known.learn([UsageSample("ns", "run-0", "app", at + offset, 0.1, 1e8)], at)
    row = known.history.rows()[0][1]
    assert known.history.samples[row] == 4
    assert known.history.last_sample_at[row] == START + 180
    known.decide(START + 180)
    assert known.explain(JOB, START + 180)["clocks"] == {"a": 3900}


@pytest.mark.parametrize("offset", [-9 * 86_400, 0, 3900])
def test_usage_of_a_pods_last_minute_counts_whatever_its_node_says_of_its_end_r74(offset: float) -> None:
    """And no longer than a while after that."""
    known = Recommendations(RecommenderSettings())
    known.set_claim("ns/vpa", Claim("ns", "vpa", "u", 1, "elastipod", JOB))
    known.loaded("ns/vpa", {}, {})
    known.members.set_owned(None, Owned("Job", "ns", "short-0", "job-0", owner=OwnerReference("CronJob", "short", "c")))
    ended = job_pod(0, seconds=30)
    [app] = ended.containers
    over = Termination("Completed", 0, "c0", START + offset, START + offset + 30)
    known.members.set_pod("ns/run-0", structs.replace(ended, containers=(structs.replace(app, termination=over),)))
    known.learn([], START + 60)
    known.learn([UsageSample("ns", "run-0", "app", START, 0.1, 1e8)], START + 200)
    known.learn([], START + 400)
    known.learn([UsageSample("ns", "run-0", "app", START + 60, 0.1, 1e8)], START + 460)
    assert known.history.samples[known.history.rows()[0][1]] == 1


class Fleet:
    """So many workloads of one pod, each with a claim of its own."""

    def __init__(self, count: int) -> None:
        self.known = known = Recommendations(RecommenderSettings())
        self.count = count
        for number in range(count):
            target = Workload("ns", "StatefulSet", f"w{number}")
            known.set_claim(f"ns/v{number}", Claim("ns", f"v{number}", f"u{number}", 1, "elastipod", target))
            known.loaded(f"ns/v{number}", {}, {})
            shown = (Container("app", requests=Resources(100, GI), is_running=True),)
            owner = OwnerReference("StatefulSet", target.name, f"o{number}")
            known.members.set_pod(
                f"ns/p{number}", Pod("ns", f"p{number}", f"p{number}", phase="Running", owner=owner, containers=shown)
            )

    def learn(self, at: float, cores: float = 0.1) -> None:
        self.known.learn([UsageSample("ns", f"p{number}", "app", at, cores, 1e8) for number in range(self.count)], at)

    def tick(self, at: float, cores: float = 0.1) -> int:
        """A run over all of them: how many statuses are written."""
        known, written = self.known, 0
        self.learn(at, cores)
        for key in known.decide(at):
            status = known.status(key, at)
            if known.is_worth_writing(key, status, is_first=False):
                known.wrote(key, status)
                written += 1
            known.settled(key)
        return written


def test_advice_that_did_not_change_is_not_written_again_whatever_its_number_r71() -> None:
    fleet = Fleet(5000)
    # Bounds draw near to the target in the first minutes.
    for minute in range(15):
        fleet.learn(START + minute * 60)
    assert [fleet.tick(START + minute * 60) for minute in range(15, 19)] == [5000, 0, 0, 0]


def test_a_run_in_which_all_advice_changes_takes_time_as_there_are_workloads_r71() -> None:
    fleets = {count: Fleet(count) for count in (500, 5000)}

    def seconds(fleet: Fleet, minute: int) -> float:
        begun = time.process_time()
        # Twice as much each time, so that each status has to be written.
        assert fleet.tick(START + minute * 60, 0.1 * 2**minute) == fleet.count
        return time.process_time() - begun

    # The least of several, taken in turns, of our own time: whatever else the machine does strikes both alike.
    rounds = [(seconds(fleets[500], minute), seconds(fleets[5000], minute)) for minute in range(3)]
    few, many = (min(those) for those in zip(*rounds, strict=True))
    assert many < 15 * few


async def test_how_long_advice_waits_to_be_written_is_measured_r71() -> None:
    async with World() as world:
        await world.node(cpu="8", memory="32Gi")
        await world.pod("web-a", await world.deployment())
        await world.autoscaler()
        world.connection.failing.add("verticalpodautoscalers")
        ages = []
        for _ in range(3):
            await world.run(cpu=0.2, memory=200 * MI)
            ages.append(world.measured("advice_age_seconds"))
        world.connection.failing.clear()
        await world.run(cpu=0.2, memory=200 * MI)
        assert ages == [0, 60, 120]
        assert world.measured("advice_age_seconds") == 0
