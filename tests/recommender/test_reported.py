"""What people reported of other systems, with their numbers, through all that the recommender knows and judges."""

import asyncio

import pytest

from elastipod.api import ElasticPolicy, ElasticPolicySpec, LimitModesJson, ObjectMeta, UpdateMode, resources
from elastipod.pods import Container, ContainerKey, OwnerReference, Pod, Workload
from elastipod.quantities import Resources
from recommender.checkpoints import from_checkpoint, to_checkpoint
from recommender.claims import Claim
from recommender.history import ContainerHistory
from recommender.policies import SizePolicy
from recommender.recommending import Recommendations
from recommender.samples import UsageSample
from recommender.settings import RecommenderSettings
from recommender.writing import write_all
from tests.recommender.world import MI

START = 1.8e9
DAY = 86_400.0
WEB = Workload("ns", "StatefulSet", "web")
Used = dict[str, tuple[float, float]]
"""By container, cores and MiB."""


class One:
    """A workload with one pod, which uses what a test says."""

    def __init__(
        self,
        target: Workload = WEB,
        *,
        policies: dict[str, SizePolicy] | None = None,
        elastic: ElasticPolicySpec | None = None,
        settings: RecommenderSettings | None = None,
        saved: dict[str, ContainerHistory] | None = None,
        at: float = START,
    ) -> None:
        self.settings, self.target, self.at = settings or RecommenderSettings(), target, at
        self.known = Recommendations(self.settings)
        mode = UpdateMode.IN_PLACE_OR_RECREATE
        self.claim = Claim("ns", "vpa", "u", 1, "elastipod", target, policies=policies or {}, mode=mode)
        self.known.set_claim("ns/vpa", self.claim)
        self.known.loaded("ns/vpa", saved or {}, {})
        if elastic is not None:
            self.known.set_policies(
                {"ns": (ElasticPolicy(metadata=ObjectMeta(name="e", namespace="ns"), spec=elastic),)}
            )

    def show(self, *containers: Container) -> "One":
        """Its pod has these containers."""
        owner = OwnerReference(self.target.kind, self.target.name, "o")
        pod = Pod("ns", "web-0", "p", phase="Running", owner=owner, created_at=START, containers=containers)
        self.known.members.set_pod(pod.key, pod)
        return self

    def use(self, used: Used, seconds: float = 60.0) -> "One":
        """It used this, so long after what was used before."""
        self.at += seconds
        samples = [UsageSample("ns", "web-0", name, self.at, cpu, mib * MI) for name, (cpu, mib) in used.items()]
        self.known.learn(samples, self.at)
        self.known.decide(self.at)
        return self

    def told(self, bound: str = "target") -> dict[str, Resources]:
        """What is recommended, by container."""
        found = self.known.status("ns/vpa", self.at).recommendation
        listed = () if found is None else found.container_recommendations or ()
        return {one.container_name: resources(getattr(one, bound)) for one in listed}


def runs(name: str = "app", **limits: int) -> Container:
    return Container(name, requests=Resources(1000, 512 * MI), limits=Resources(**limits), is_running=True)


def test_fourteen_days_weigh_the_same_after_a_start_of_ten_seconds_and_another_r09() -> None:
    key = ContainerKey(WEB, "app")
    first = One().show(runs())
    for step in range(14 * 24):
        first.use({"app": (0.2 + step % 24 / 100, 300 + step % 24)}, 3600)
    weight, target = first.known.history.cpu.total(0, first.at), first.told()["app"]
    one = first
    for _ in range(3):
        [history] = one.known.export([0]).values()
        saved = from_checkpoint(to_checkpoint("ns", "vpa", key, history, one.at), one.settings, one.at)
        one = One(saved={"app": saved}, at=one.at + 10).show(runs())
    assert one.known.history.cpu.total(0, first.at) == pytest.approx(weight, rel=1e-4)
    one.use({"app": (0.3, 310)})
    assert one.told()["app"].cpu == pytest.approx(target.cpu, rel=0.05)
    assert one.told()["app"].memory == pytest.approx(target.memory, rel=0.05)


def test_a_renamed_container_has_the_whole_floor_and_the_old_name_is_listed_no_more_r10() -> None:
    one = One(settings=RecommenderSettings(floor_cpu_millicores=25)).show(runs("sleeper-a"))
    one.use({"sleeper-a": (0.001, 20)})
    one.show(runs("sleeper-b")).use({"sleeper-b": (0.001, 20)})
    assert {name: size.cpu for name, size in one.told().items()} == {"sleeper-b": 25}


def test_a_stated_minimum_of_32_mebibytes_is_what_a_small_container_gets_whatever_the_floor_r11() -> None:
    one = One(
        policies={"*": SizePolicy(min_allowed=Resources(None, 32 * MI))},
        settings=RecommenderSettings(floor_cpu_millicores=25, floor_memory_bytes=250 * MI),
    )
    one.show(*(runs(name) for name in "abc"))
    for mib in (4, 12, 20, 29):
        one.use(dict.fromkeys("abc", (0.001, mib / 1.3)))
    assert {name: size.memory for name, size in one.told().items()} == dict.fromkeys("abc", 32 * MI)


def test_a_limit_of_its_own_stays_above_bursts_of_one_and_a_half_cores_r17() -> None:
    one = One(elastic=ElasticPolicySpec(limit_modes=LimitModesJson(cpu="Independent")))
    one.show(runs(cpu_millicores=2000))
    for minute in range(500):
        one.use({"app": (1.55 if minute % 50 == 7 else 0.3, 300)})
    assert one.told()["app"].cpu <= 400
    assert one.told("upper_bound")["app"].cpu >= 1550


@pytest.mark.parametrize("kind", ["CronJob", "DaemonSet", "Deployment", "StatefulSet"])
def test_what_is_left_out_loses_its_advice_whatever_its_kind_and_all_others_keep_theirs_r45(kind: str) -> None:
    everything = SizePolicy(max_allowed=Resources(None, 1024 * MI))
    one = One(Workload("ns", kind, "web"), policies={"*": everything}).show(runs("app"), runs("proxy"))
    one.use({"app": (0.2, 100), "proxy": (0.2, 100)})
    assert set(one.told()) == {"app", "proxy"}
    left_out = Claim(
        "ns",
        "vpa",
        "u",
        2,
        "elastipod",
        one.target,
        policies={"*": everything, "app": SizePolicy(is_off=True)},
        mode=UpdateMode.IN_PLACE_OR_RECREATE,
    )
    one.known.set_claim("ns/vpa", left_out)
    assert set(one.use({"app": (0.2, 100), "proxy": (0.2, 100)}).told()) == {"proxy"}


async def test_five_thousand_statuses_are_written_within_a_minute_at_a_hundred_a_second_r71() -> None:
    under_way, tenths = list[asyncio.Event](), 0

    async def write() -> None:
        answered = asyncio.Event()
        under_way.append(answered)
        await answered.wait()

    writing = asyncio.create_task(write_all([write] * 5000, RecommenderSettings().most_writes_at_once))
    await asyncio.sleep(0)
    while not writing.done():
        # A server that takes a tenth of a second for each.
        tenths += 1
        for answered in under_way:
            answered.set()
        under_way.clear()
        for _ in range(3):
            await asyncio.sleep(0)
    assert tenths <= 600
