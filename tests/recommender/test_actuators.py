"""Usage from actuators: what is asked of whom, and what of an answer is believed."""

import math
import random
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import msgspec
import pytest

from actuator.cgroupfs import CgroupFs
from actuator.places import Places
from actuator.sampling import Sampler
from elastipod.clock import ManualClock
from elastipod.kube.errors import Unreachable
from elastipod.loop import Health
from elastipod.minutes import MOST_ANSWER_BYTES, ContainerMinute, Minute, NodeMinutes
from elastipod.pods import Container, Pod
from elastipod.process import Surroundings
from elastipod.serving import Serving
from elastipod.telemetry import Metrics
from recommender.__main__ import _make
from recommender.settings import RecommenderSettings
from recommender.sources.actuators import ActuatorSource
from recommender.sources.metrics_api import MOST_BYTES, MOST_CORES, MetricsApiSource, SourceError, UsageReading
from recommender.sources.senders import Sender
from recommender.sources.several import SeveralSources
from tests.actuator.trees import MIB, v2_tree
from tests.recommender.prometheus.loopback import Answer, Question, answering
from tests.recommender.prometheus.test_answers import mutated
from tests.recommender.world import World

NOW = 1_800_000_000.0


class Fleet:
    """Nodes whose actuators answer as the test says, and the source that asks them."""

    def __init__(self, stack: ExitStack) -> None:
        self._stack = stack
        self.clock = ManualClock(NOW)
        self.senders: list[Sender] = []
        self.answers: dict[str, Answer] = {}
        self.asked: list[str] = []
        self.pods: dict[tuple[str, str], Pod] = {}
        self.is_lost = False
        self.looks = 0
        self.source = ActuatorSource(self._find, lambda *name: self.pods.get(name), self.clock, answer_seconds=0.5)
        # Minutes that ended before are not ours.
        self.clock.advance(600)

    def node(self, name: str) -> None:
        def answer(question: Question) -> Answer:
            self.asked.append(f"{name} {question.path} {question.params}")
            return self.answers[name]

        url = self._stack.enter_context(answering(answer))
        self.senders.append(Sender(f"uid-{name}", name, url))
        self.tells(name)

    def pod(self, name: str, node: str, *, uid: str = "") -> None:
        self.pods["shop", name] = Pod("shop", name, uid or f"uid-{name}", node_name=node, phase="Running")

    def tells(self, node: str, *minutes: Minute, status: int = 200, **more: Any) -> None:
        self.answers[node] = Answer(msgspec.json.encode(NodeMinutes(node, list(minutes))), status, **more)

    async def read(self) -> UsageReading:
        return await self.source.read()

    async def _find(self) -> list[Sender]:
        self.looks += 1
        if self.is_lost:
            raise Unreachable("no answer")
        return list(self.senders)


@pytest.fixture
def fleet() -> Iterator[Fleet]:
    with ExitStack() as stack:
        found = Fleet(stack)
        found.node("n1")
        found.pod("web-0", "n1")
        yield found


def used(pod: str = "web-0", *, cores: float = 0.2, memory: float = 100.0 * MIB, **more: Any) -> ContainerMinute:
    given = {"seconds": 60.0, "cpu_peak_cores": cores, **more}
    return ContainerMinute("shop", pod, given.pop("uid", f"uid-{pod}"), "app", cpu_cores=cores,
                           memory_peak_bytes=memory, **given)  # fmt: skip


def minute(number: int, *containers: ContainerMinute, age: float = 5.0) -> Minute:
    return Minute(1_799_999_000 + 60 * number, age, list(containers) or [used()])


async def test_a_minute_is_a_sample_of_its_average_cpu_and_its_peak_of_memory(fleet: Fleet) -> None:
    fleet.tells("n1", minute(1, used(cores=0.2, cpu_peak_cores=0.9, memory=300 * MIB)))
    [sample] = (await fleet.read()).samples
    assert (sample.namespace, sample.pod, sample.container) == ("shop", "web-0", "app")
    assert sample.measured_at == 1_799_999_060
    assert (sample.cpu_cores, sample.memory_bytes) == (0.2, 300 * MIB)


@pytest.mark.parametrize(("throttled", "cores"), [(0.0, 0.2), (0.5, 0.6), (1.0, 1.0)])
async def test_a_minute_that_a_limit_cut_short_counts_as_its_peak_as_far_as_it_did(
    fleet: Fleet, throttled: float, cores: float
) -> None:
    fleet.tells("n1", minute(1, used(cores=0.2, cpu_peak_cores=1.0, throttled_fraction=throttled)))
    [sample] = (await fleet.read()).samples
    assert sample.cpu_cores == pytest.approx(cores)


async def test_only_what_is_new_is_asked_for_and_nothing_counts_twice(fleet: Fleet) -> None:
    fleet.tells("n1", minute(1))
    assert len((await fleet.read()).samples) == 1
    # It tells it once more, whatever it was asked for.
    fleet.tells("n1", minute(1, age=65.0), minute(2))
    reading = await fleet.read()
    assert [one.measured_at for one in reading.samples] == [minute(2).at]
    assert reading.earlier == []
    assert (await fleet.read()).samples == []
    assert [one.rpartition(" ")[2] for one in fleet.asked] == ["'0'}", f"'{minute(1).at}'}}", f"'{minute(2).at}'}}"]


async def test_minutes_that_were_missed_are_told_by_themselves_oldest_first(fleet: Fleet) -> None:
    fleet.node("n2")
    fleet.pod("db-0", "n2")
    fleet.tells("n1", minute(1, age=130.0), minute(2, age=70.0), minute(3, age=10.0))
    fleet.tells("n2", minute(7, used("db-0"), age=90.0), minute(8, used("db-0"), age=30.0))
    reading = await fleet.read()
    told = [sorted((one.pod, one.measured_at) for one in samples) for samples in (*reading.earlier, reading.samples)]
    assert told == [
        [("web-0", minute(1).at)],
        [("db-0", minute(7).at), ("web-0", minute(2).at)],
        [("db-0", minute(8).at), ("web-0", minute(3).at)],
    ]


async def test_what_ended_before_we_began_was_counted_by_whoever_led_then(fleet: Fleet) -> None:
    fleet.tells("n1", minute(1, age=601.0), minute(2, age=599.0))
    reading = await fleet.read()
    assert ([one.measured_at for one in reading.samples], reading.earlier) == ([minute(2).at], [])


async def test_a_sender_is_believed_about_pods_of_its_own_node_only(fleet: Fleet) -> None:
    fleet.node("n2")
    fleet.pod("db-0", "n2")
    fleet.tells("n1", minute(1, used(), used("db-0", memory=1e12)))
    fleet.tells("n2", minute(1, used("db-0")))
    reading = await fleet.read()
    assert {one.pod: one.memory_bytes for one in reading.samples} == {"web-0": 100 * MIB, "db-0": 100 * MIB}
    assert reading.bad_entries == 1
    assert "the actuator of node n1 tells of shop/db-0" in reading.problem
    fleet.tells("n1", minute(2))
    assert (await fleet.read()).problem == ""


@pytest.mark.parametrize("name", ["web-9", "web-0"])
async def test_what_is_said_of_a_pod_that_is_not_there_or_another_by_now_is_left_out(fleet: Fleet, name: str) -> None:
    fleet.tells("n1", minute(1, used(name, uid="uid-of-old")))
    reading = await fleet.read()
    assert (reading.samples, reading.problem, reading.bad_entries) == ([], "", 0)


async def test_a_node_that_is_down_loses_its_own_usage_only_and_is_named_since_when(fleet: Fleet) -> None:
    fleet.node("n2")
    fleet.pod("db-0", "n2")
    fleet.tells("n1", minute(1))
    fleet.tells("n2", status=503)
    reading = await fleet.read()
    assert [one.pod for one in reading.samples] == ["web-0"]
    assert reading.problem == "node n2 since 2027-01-15T08:10:00Z: HTTP 503"
    fleet.clock.advance(60)
    fleet.tells("n1", minute(2))
    assert (await fleet.read()).problem == "node n2 since 2027-01-15T08:10:00Z: HTTP 503"
    fleet.tells("n2", minute(1, used("db-0"), age=65.0), minute(2, used("db-0")))
    reading = await fleet.read()
    assert reading.problem == ""
    assert [one.pod for one in reading.earlier[0] + reading.samples] == ["db-0", "db-0"]


async def test_of_many_nodes_that_are_down_a_few_are_named(fleet: Fleet) -> None:
    for number in range(2, 8):
        fleet.node(f"n{number}")
        fleet.tells(f"n{number}", status=500)
    problem = (await fleet.read()).problem
    assert problem.count("HTTP 500") == 3
    assert problem.endswith("and 3 more")


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (Answer(b"<html>login</html>"), "can not be read"),
        (Answer(b""), "can not be read"),
        (Answer(b"\xff\xfe{}"), "can not be read"),
        (Answer(b"[" * 100_000), "can not be read"),
        (Answer(b'{"node":"n1","minutes":[{"at":1,"ageSeconds":NaN,"containers":[]}]}'), "can not be read"),
        (Answer(b'{"node":"n1","minutes":[{"at":1,"ageSeconds":"5","containers":[]}]}'), "can not be read"),
        (Answer(b'{"node":"n1","minutes":[{"at":1,"ageSeconds":-1,"containers":[]}]}'), "not over"),
        (Answer(b'{"node":"n1","minutes":[{"at":1%s,"ageSeconds":1,"containers":[]}]}' % (b"0" * 400)), "at no time"),
        (Answer(b'{"node":"n2","minutes":[]}'), "says that it is of node 'n2'"),
        (Answer(msgspec.json.encode(NodeMinutes("n1", [minute(n) for n in range(6)]))), "tells of 6 minutes"),
        (Answer(b" " * (MOST_ANSWER_BYTES + 1)), "too long"),
        (Answer(b'{"node":"n1"', is_cut=True), "payload is not completed"),
        (Answer(b'{"node":"n1"', stalls=True), "in time"),
        (Answer(b"", 302, {"Location": "http://127.0.0.1:1/"}), "HTTP 302"),
        (Answer(b"", 404), "sample_seconds is 0"),
        (Answer(b"\x1f\x8b" + bytes(50), 200, {"Content-Encoding": "gzip"}), "can not be read"),
    ],
)
async def test_what_is_no_answer_counts_nothing_and_is_told(fleet: Fleet, answer: Answer, told: str) -> None:
    fleet.answers["n1"] = answer
    with pytest.raises(SourceError, match=told):
        await fleet.read()


async def test_who_answers_nobody_is_told_with_its_reason(fleet: Fleet, unused_tcp_port: int) -> None:
    fleet.senders[0] = Sender("uid", "n1", f"http://127.0.0.1:{unused_tcp_port}")
    with pytest.raises(SourceError, match=r"node n1 since 2027-01-15T08:10:00Z: Cannot connect"):
        await fleet.read()


@pytest.mark.parametrize("value", [-0.1, 1e308, 1e16])
@pytest.mark.parametrize("field", ["cpu_cores", "memory_peak_bytes", "cpu_peak_cores", "throttled_fraction"])
async def test_amounts_that_make_no_sense_are_left_out_and_counted(fleet: Fleet, field: str, value: float) -> None:
    fleet.tells("n1", minute(1, msgspec.structs.replace(used(), **{field: value})))
    reading = await fleet.read()
    assert reading.bad_values == 1
    [sample] = reading.samples
    assert sample.cpu_cores == (None if field == "cpu_cores" else 0.2)
    assert sample.memory_bytes == (None if field == "memory_peak_bytes" else 100 * MIB)


async def test_of_mutated_answers_none_does_harm(fleet: Fleet) -> None:
    chance = random.Random(11)
    fleet.node("n2")
    fleet.pod("db-0", "n2")
    good = msgspec.json.encode(NodeMinutes("n1", [minute(1, used(throttled_fraction=0.5), used("db-0"))]))
    believed = 0
    for number in range(400):
        fleet.answers["n1"] = Answer(mutated(good.replace(b"1799999060", b"%d" % number), chance))
        for sample in (await fleet.read()).samples:
            believed += 1
            assert (sample.namespace, sample.pod) == ("shop", "web-0")
            assert sample.cpu_cores is None or 0 <= sample.cpu_cores <= MOST_CORES
            assert sample.memory_bytes is None or 0 <= sample.memory_bytes <= MOST_BYTES
            assert math.isfinite(sample.measured_at)
    assert believed > 20


async def test_actuators_are_looked_for_again_now_and_then_and_when_one_falls_silent(fleet: Fleet) -> None:
    fleet.tells("n1", minute(1))
    await fleet.read()
    await fleet.read()
    assert fleet.looks == 1
    fleet.clock.advance(241)
    await fleet.read()
    assert fleet.looks == 2
    fleet.node("n2")
    fleet.tells("n1", status=503)
    with pytest.raises(SourceError):
        await fleet.read()
    await fleet.read()
    assert fleet.looks == 3
    # It is still away; there is nothing new to look for.
    await fleet.read()
    assert fleet.looks == 3


async def test_where_the_api_server_does_not_answer_those_that_are_known_are_asked_on(fleet: Fleet) -> None:
    await fleet.read()
    fleet.is_lost = True
    fleet.clock.advance(3600)
    fleet.tells("n1", minute(1))
    assert len((await fleet.read()).samples) == 1


async def test_where_no_actuator_is_known_that_is_told(fleet: Fleet) -> None:
    fleet.senders.clear()
    with pytest.raises(SourceError, match="no actuator was found"):
        await fleet.read()
    fleet.is_lost = True
    with pytest.raises(Unreachable):
        await fleet.read()


async def test_where_a_node_is_silent_advice_stays_and_the_condition_names_it(unused_tcp_port: int) -> None:
    async with World() as world:
        await world.node()
        await world.pod("web-a", await world.deployment())
        await world.autoscaler()
        await world.run(0.25, 100 * MIB)
        before = await world.target()

        async def find() -> list[Sender]:
            return [Sender("a", "n1", f"http://127.0.0.1:{unused_tcp_port}")]

        members = world.recommender.recommendations.members
        world.recommender._source = ActuatorSource(find, members.pod, world.clock)
        for _ in range(6):
            await world.run()
        status = (await world.read()).status
        assert status is not None
        [told] = [one.message for one in status.conditions or [] if one.type == "MetricsLost"]
        assert "no usage sample since 20" in told
        assert "node n1 since 20" in told
        assert await world.target() == before


async def test_what_an_actuator_reads_is_what_the_recommender_counts(tmp_path: Path) -> None:
    """From a cgroup's files over a real socket to a sample."""
    uid, identity, clock = "6a9b3c1e-0000-4000-8000-000000000001", "ab" * 32, ManualClock(NOW)
    group = f"kubepods/burstable/pod{uid}/{identity}"
    root = v2_tree(tmp_path / "cg", group)
    fs = CgroupFs(root)
    sampler = Sampler(fs, Places(fs).locate, clock, "n1", 10.0)
    container = Container("app", container_id=f"containerd://{identity}", is_running=True, started_at=NOW - 9999)
    pod = Pod("shop", "web-0", uid, node_name="n1", phase="Running", containers=(container,))
    served = Serving(Metrics(), Health(60, 0), clock, lambda _: None, lambda _, query: sampler.answer(int(query[6:])))
    await served.start("127.0.0.1", 0)

    async def find() -> list[Sender]:
        return [Sender("a", "n1", f"http://127.0.0.1:{served.port}")]

    source = ActuatorSource(find, lambda *_: pod, clock)
    sampler.note(None, pod)
    sampler.turn()
    samples = []
    for number in range(1, 13):
        (root / group / "cpu.stat").write_text(f"usage_usec {2_500_000 + number * 3_000_000}\nuser_usec 1\n")
        (root / group / "memory.current").write_text(f"{(20 + number) * MIB}\n")
        clock.advance(10)
        sampler.turn()
        samples += (await source.read()).samples
    await served.stop()
    assert [(one.cpu_cores, one.memory_bytes) for one in samples] == [(0.3, 26 * MIB), (0.3, 32 * MIB)]


@pytest.mark.parametrize(
    ("given", "source"),
    [
        ({"usage_source": "actuators", "actuators_namespace": "elastipod-node"}, ActuatorSource),
        ({"usage_source": "actuators"}, ActuatorSource),
        ({"usage_source": "actuators, metrics"}, SeveralSources),
        ({"usage_source": "metrics"}, MetricsApiSource),
    ],
)
def test_the_process_reads_from_where_its_settings_say(given: dict[str, Any], source: type[object]) -> None:
    world = World(**given)
    made = _make(Surroundings(world.connection, world.clock, world.settings, Metrics(), ""))
    assert isinstance(made._source, source)


@pytest.mark.parametrize("named", ["", "actuator", "actuators,", "metrics,metrics", "actuators;metrics"])
def test_a_source_that_is_none_is_refused(named: str) -> None:
    with pytest.raises(ValueError, match="it can be metrics, prometheus, actuators"):
        RecommenderSettings(usage_source=named)
