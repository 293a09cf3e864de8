"""Several sources of usage as one: who speaks for which container."""

import random

import pytest

from elastipod.clock import ManualClock
from elastipod.kube.errors import Unreachable
from recommender.samples import UsageSample
from recommender.sources.metrics_api import SourceError, UsageReading, UsageSource
from recommender.sources.several import SeveralSources

INTERVAL = 60.0


class Told(UsageSource):
    """A source that tells of the containers it was given, once each reading."""

    def __init__(self, *pods: str) -> None:
        self.pods = list(pods)
        self.earlier: list[str] = []
        self.problem = ""
        self.error: Exception | None = None

    async def read(self) -> UsageReading:
        if self.error is not None:
            raise self.error
        earlier = [[sample(pod, self)] for pod in self.earlier]
        return UsageReading([sample(pod, self) for pod in self.pods], earlier, self.problem, 1, 2)


def sample(pod: str, by: Told) -> UsageSample:
    return UsageSample("shop", pod, "app", 0.0, float(id(by)))


class Joined:
    """Sources in their order, and the clock."""

    def __init__(self, *sources: Told) -> None:
        self.clock = ManualClock()
        self.whole = SeveralSources(sources, self.clock, INTERVAL)
        self._names = {float(id(source)): "abc"[place] for place, source in enumerate(sources)}

    async def speakers(self) -> str:
        """Who spoke, `web by a, db by b`, an interval after the last time."""
        self.clock.advance(INTERVAL)
        reading = await self.whole.read()
        told = [one for samples in (*reading.earlier, reading.samples) for one in samples]
        return ", ".join(f"{one.pod} by {self._names[one.cpu_cores or 0]}" for one in told)


async def test_what_the_first_knows_the_others_do_not_add_to() -> None:
    joined = Joined(Told("web"), Told("web"))
    for _ in range(5):
        assert await joined.speakers() == "web by a"


async def test_what_the_first_does_not_know_comes_from_the_next_once_it_is_sure() -> None:
    joined = Joined(Told("web"), Told("web", "db"))
    told = [await joined.speakers() for _ in range(4)]
    assert told == ["web by a", "web by a", "web by a, db by b", "web by a, db by b"]


async def test_a_reading_without_news_lets_nobody_else_speak() -> None:
    """Its minutes end at other times than ours: now and then there is none, and then two."""
    first = Told("web")
    joined = Joined(first, Told("web"))
    await joined.speakers()
    first.pods.clear()
    assert await joined.speakers() == ""
    first.pods.append("web")
    first.earlier.append("web")
    assert await joined.speakers() == "web by a, web by a"


async def test_who_falls_silent_is_stood_in_for_and_comes_back_without_what_was_counted() -> None:
    first = Told("web")
    joined = Joined(first, Told("web"))
    await joined.speakers()
    first.error = SourceError("gone")
    assert [await joined.speakers() for _ in range(4)] == ["", "web by b", "web by b", "web by b"]
    first.error = None
    first.earlier += ["web", "web", "web"]
    assert await joined.speakers() == "web by a"
    assert await joined.speakers() == "web by a, web by a, web by a, web by a"


async def test_a_run_that_only_the_first_saw_is_counted_whatever_the_next_says_of_it() -> None:
    first = Told()
    joined = Joined(first, Told("job"))
    assert await joined.speakers() == ""
    first.earlier.append("job")
    assert await joined.speakers() == "job by a"


async def test_three_stand_in_for_one_another_in_their_order() -> None:
    first, second = Told("web"), Told("web")
    joined = Joined(first, second, Told("web"))
    await joined.speakers()
    first.error = Unreachable("gone")
    assert [await joined.speakers() for _ in range(3)] == ["", "web by b", "web by b"]
    second.error = Unreachable("gone")
    assert [await joined.speakers() for _ in range(3)] == ["", "web by c", "web by c"]
    second.error = None
    assert await joined.speakers() == "web by b"


async def test_problems_and_counts_are_those_of_all() -> None:
    first, second = Told("web"), Told()
    first.problem, second.error = "node n1 is away", Unreachable("metrics are down")
    reading = await Joined(first, second).whole.read()
    assert reading.problem == "node n1 is away; metrics are down"
    assert (reading.bad_values, reading.bad_entries) == (1, 2)


class Half(UsageSource):
    """A source that lacks a resource of the container, or has both."""

    def __init__(self, cpu_cores: float | None, memory_bytes: float | None) -> None:
        self.cpu_cores, self.memory_bytes = cpu_cores, memory_bytes
        self.at = 0.0

    async def read(self) -> UsageReading:
        self.at += INTERVAL
        return UsageReading([UsageSample("shop", "web", "app", self.at, self.cpu_cores, self.memory_bytes)])


Amounts = list[tuple[float | None, float | None]]


async def amounts(whole: SeveralSources, clock: ManualClock, times: int = 3) -> Amounts:
    """CPU and memory of each sample, an interval after the last time each."""
    found: Amounts = []
    for _ in range(times):
        clock.advance(INTERVAL)
        found += [(one.cpu_cores, one.memory_bytes) for one in (await whole.read()).samples]
    return found


async def test_a_source_that_lacks_a_resource_silences_nobody_about_it_r25() -> None:
    clock, first, second = ManualClock(), Half(None, 1e8), Half(0.4, 2e8)
    whole = SeveralSources([first, second], clock, INTERVAL)
    assert await amounts(whole, clock) == [(None, 1e8), (None, 1e8), (0.4, 1e8)]
    first.cpu_cores = 0.3
    assert await amounts(whole, clock, 1) == [(0.3, 1e8)]
    first.memory_bytes = None
    assert await amounts(whole, clock) == [(0.3, None), (0.3, 2e8), (0.3, 2e8)]


async def test_of_two_that_share_a_container_only_what_is_news_counts_r25() -> None:
    """The one measures less often than is asked, and tells the same again."""
    clock, first, second = ManualClock(), Half(None, 1e8), Half(0.4, None)
    whole = SeveralSources([first, second], clock, INTERVAL)
    await amounts(whole, clock)
    first.at -= INTERVAL
    assert await amounts(whole, clock) == [(0.4, None), (0.4, 1e8), (0.4, 1e8)]
    second.at -= INTERVAL
    assert await amounts(whole, clock, 1) == [(None, 1e8)]
    first.at -= INTERVAL
    second.at -= INTERVAL
    assert await amounts(whole, clock, 1) == []


async def test_where_none_answers_all_say_why() -> None:
    first, second = Told(), Told()
    first.error, second.error = SourceError("no actuator was found"), Unreachable("metrics are down")
    with pytest.raises(SourceError, match="no actuator was found; metrics are down"):
        await Joined(first, second).whole.read()


@pytest.mark.parametrize("seed", range(20))
async def test_whatever_fails_no_container_is_counted_twice_in_a_reading(seed: int) -> None:
    chance = random.Random(seed)
    sources = [Told(*"abcdef") for _ in range(3)]
    joined = Joined(*sources)
    counted = 0
    for _ in range(200):
        for source in sources:
            source.pods = [pod for pod in "abcdef" if chance.random() < 0.7]
            source.error = SourceError("away") if chance.random() < 0.2 else None
        if all(source.error for source in sources):
            continue
        told = [one.partition(" ")[0] for one in (await joined.speakers()).split(", ")]
        assert len(told) == len(set(told))
        counted += len(told)
    assert counted > 500
