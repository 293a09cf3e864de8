"""Several sources of usage as one.

Owns who speaks for which container: the first source that knows it. A later one speaks only once those before it have
been silent about the container for a while, so that nothing is counted twice where one begins, is late, or comes back.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from elastipod.clock import Clock
from elastipod.kube.errors import KubeError
from recommender.samples import UsageSample
from recommender.sources.metrics_api import SourceError, UsageReading, UsageSource

_PATIENCE: Final = 1.5
"""In intervals: one reading without news is nothing, two are silence."""
_FORGET: Final = 60
"""In intervals."""


@dataclass(slots=True)
class _Voice:
    """Who speaks for a container: the place of the source, and when it, or one before it, last did."""

    place: int
    told_at: float


class SeveralSources:
    """The first source counts where it speaks, the next where it does not, and so on."""

    def __init__(self, sources: Sequence[UsageSource], clock: Clock, interval_seconds: float) -> None:
        self._sources, self._clock, self._interval = sources, clock, interval_seconds
        self._voices: dict[tuple[str, str, str], _Voice] = {}

    async def read(self) -> UsageReading:
        """One sample of each container. Raises KubeError or SourceError where no source answers."""
        answers = await asyncio.gather(*(_read(source) for source in self._sources))
        readings = [one for one in answers if isinstance(one, UsageReading)]
        if not readings:
            raise SourceError("; ".join(str(one) for one in answers))
        now = self._clock.monotonic()
        whole = UsageReading()
        problems = []
        for place, answer in enumerate(answers):
            if isinstance(answer, UsageReading):
                whole.bad_values += answer.bad_values
                whole.bad_entries += answer.bad_entries
                # What was told of earlier times goes by who spoke then.
                whole.earlier += [[one for one in told if self._spoke(place, one, now)] for told in answer.earlier]
                whole.samples += [one for one in answer.samples if self._speaks(place, one, now)]
                problems.append(answer.problem)
            else:
                problems.append(str(answer))
        whole.problem = "; ".join(filter(None, problems))
        oldest = now - _FORGET * self._interval
        self._voices = {key: voice for key, voice in self._voices.items() if voice.told_at >= oldest}
        return whole

    def _speaks(self, place: int, sample: UsageSample, now: float) -> bool:
        """Whether a source speaks for the sample's container; from here on, then, until one before it does."""
        # At first sight, those before it are taken for late.
        voice = self._voices.setdefault(_key(sample), _Voice(0, now))
        if place > voice.place and now - voice.told_at < _PATIENCE * self._interval:
            return False
        voice.place, voice.told_at = place, now
        return True

    def _spoke(self, place: int, sample: UsageSample, now: float) -> bool:
        """Whether a source was the one that spoke for the sample's container until now."""
        return self._voices.setdefault(_key(sample), _Voice(0, now)).place == place


async def _read(source: UsageSource) -> UsageReading | KubeError | SourceError:
    try:
        return await source.read()
    except (KubeError, SourceError) as error:
        return error


def _key(sample: UsageSample) -> tuple[str, str, str]:
    return sample.namespace, sample.pod, sample.container
