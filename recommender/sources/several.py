"""Several sources of usage as one.

Owns who speaks for which container, each resource by itself: the first source that knows it. A later one speaks only
once those before it have been silent about it for a while, so that nothing is counted twice where one begins, is late,
or comes back.
"""

import asyncio
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from msgspec import structs

from elastipod.clock import Clock
from elastipod.kube.errors import KubeError
from recommender.samples import UsageSample
from recommender.sources.metrics_api import SourceError, UsageReading, UsageSource

_PATIENCE: Final = 1.5
"""In intervals: one reading without news is nothing, two are silence."""
_FORGET: Final = 60
"""In intervals."""
_Key = tuple[str, str, str]


@dataclass(slots=True)
class _Voice:
    """Who speaks for a resource of a container: the place of the source, and when it, or one before it, last did."""

    told_at: float
    has_spoken: bool = False
    # At first sight, those before it are taken for late.
    place: int = 0
    stamp: float = math.nan
    """The source's own, of what it said last."""


@dataclass(slots=True)
class _Voices:
    """Who speaks for a container."""

    cpu: _Voice
    memory: _Voice

    @property
    def are_of_one(self) -> bool:
        """Whether no two sources share it."""
        return self.cpu.place == self.memory.place or not (self.cpu.has_spoken and self.memory.has_spoken)


class SeveralSources:
    """The first source counts where it speaks, the next where it does not, and so on."""

    def __init__(self, sources: Sequence[UsageSource], clock: Clock, interval_seconds: float) -> None:
        self._sources, self._clock, self._interval = sources, clock, interval_seconds
        self._voices: dict[_Key, _Voices] = {}

    async def read(self) -> UsageReading:
        """One sample of each container. Raises KubeError or SourceError where no source answers."""
        answers = await asyncio.gather(*(_read(source) for source in self._sources))
        readings = [one for one in answers if isinstance(one, UsageReading)]
        if not readings:
            raise SourceError("; ".join(str(one) for one in answers))
        now = self._clock.monotonic()
        whole = UsageReading()
        problems, found = [], dict[_Key, UsageSample]()
        for place, answer in enumerate(answers):
            if isinstance(answer, UsageReading):
                whole.bad_values += answer.bad_values
                whole.bad_entries += answer.bad_entries
                # What was told of earlier times goes by who spoke then.
                whole.earlier += [list(self._spoken(place, told, now)) for told in answer.earlier]
                for one in answer.samples:
                    self._hear(place, one, now, found)
                problems.append(answer.problem)
            else:
                problems.append(str(answer))
        whole.samples = list(found.values())
        whole.problem = "; ".join(filter(None, problems))
        oldest = now - _FORGET * self._interval
        self._voices = {
            key: one for key, one in self._voices.items() if max(one.cpu.told_at, one.memory.told_at) >= oldest
        }
        return whole

    def _hear(self, place: int, sample: UsageSample, now: float, found: dict[_Key, UsageSample]) -> None:
        """Put what a source may say of a container beside what those before it said."""
        key, voices = _key(sample), self._voices_of(sample, now)
        speaks_for_cpu = self._speaks(voices.cpu, place, sample.cpu_cores, now)
        speaks_for_memory = self._speaks(voices.memory, place, sample.memory_bytes, now)
        if not speaks_for_cpu and not speaks_for_memory:
            return
        cpu = _news(voices.cpu, sample, sample.cpu_cores) if speaks_for_cpu else None
        memory = _news(voices.memory, sample, sample.memory_bytes) if speaks_for_memory else None
        if voices.are_of_one:
            found.setdefault(key, sample)
            return
        # Two sources have stamps of their own, and together they have one: what is no news is left out here.
        if cpu is None and memory is None:
            return
        before = found.get(key)
        if before is not None:
            sample = before
            cpu = cpu if before.cpu_cores is None else before.cpu_cores
            memory = memory if before.memory_bytes is None else before.memory_bytes
        found[key] = structs.replace(sample, cpu_cores=cpu, memory_bytes=memory)

    def _spoken(self, place: int, told: Iterable[UsageSample], now: float) -> Iterator[UsageSample]:
        """What a source says of what it was the one to speak for until now."""
        for one in told:
            voices = self._voices_of(one, now)
            cpu = one.cpu_cores if voices.cpu.place == place else None
            memory = one.memory_bytes if voices.memory.place == place else None
            if cpu is not None or memory is not None:
                yield one if voices.are_of_one else structs.replace(one, cpu_cores=cpu, memory_bytes=memory)

    def _voices_of(self, sample: UsageSample, now: float) -> _Voices:
        voices = self._voices.get(_key(sample))
        if voices is None:
            voices = self._voices[_key(sample)] = _Voices(_Voice(now), _Voice(now))
        return voices

    def _speaks(self, voice: _Voice, place: int, amount: float | None, now: float) -> bool:
        """Whether a source speaks for a resource; from here on, then, until one before it does."""
        if amount is None or (place > voice.place and now - voice.told_at < _PATIENCE * self._interval):
            return False
        voice.place, voice.told_at, voice.has_spoken = place, now, True
        return True


async def _read(source: UsageSource) -> UsageReading | KubeError | SourceError:
    try:
        return await source.read()
    except (KubeError, SourceError) as error:
        return error


def _news(voice: _Voice, sample: UsageSample, amount: float | None) -> float | None:
    """What a source says, unless it has said so before."""
    before, voice.stamp = voice.stamp, sample.measured_at
    return None if before == sample.measured_at else amount


def _key(sample: UsageSample) -> _Key:
    return sample.namespace, sample.pod, sample.container
