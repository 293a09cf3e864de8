"""What is asked of a Prometheus at once.

Owns the cutting of a long history of many series into questions that a server answers: 11,000 points a series, and few
enough samples that neither side has to hold many. What is refused as too much is halved. Asks nothing.
"""

from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

MOST_POINTS: Final = 11_000
"""A server answers no more points of a series at once."""
MOST_SAMPLES: Final = 1_000_000
"""Samples in one answer: a server holds 50 million at most for all that it is asked."""
_MOST_NAMES_BYTES: Final = 32_768
_LEAST_POINTS: Final = 16

_TOO_MUCH: Final = (413, 422, 503, 504)
"""The answer would be too large, or took too long."""


@dataclass(frozen=True, slots=True)
class Span:
    """Times from `start` to `end`, both among them, `step` seconds apart; Unix seconds."""

    start: int
    end: int
    step: int

    @property
    def points(self) -> int:
        return (self.end - self.start) // self.step + 1

    def cut(self, points: int) -> "list[Span]":
        """In pieces of so many points, each time in exactly one."""
        return [
            Span(start, min(start + (points - 1) * self.step, self.end), self.step)
            for start in range(self.start, self.end + 1, points * self.step)
        ]

    def halves(self) -> "list[Span]":
        """Two that make it up; none where it is too small for that to help."""
        return [] if self.points < 2 * _LEAST_POINTS else self.cut(-(-self.points // 2))


def span_before(end: float, seconds: float, step: int) -> Span:
    """The times on the grid of `step` in the seconds before `end`; a grid makes answers cacheable and joinable."""
    last = int(end) // step * step
    return Span(last - max(int(seconds) // step - 1, 0) * step, last, step)


@dataclass(frozen=True, slots=True)
class Shard:
    """Series that are asked for together: of whole namespaces, or of some pods of one."""

    namespaces: tuple[str, ...] = ()
    pods: tuple[str, ...] = ()
    series: int = 0


EVERYTHING: Final = Shard()


def plan_shards(
    pods: Mapping[str, Mapping[str, int]],
    points: int,
    most_samples: int = MOST_SAMPLES,
    shared: Container[str] = (),
) -> list[Shard]:
    """Shards for namespaces, pods and their numbers of series; a shard's answer is not much above the most.

    Small namespaces go together; of a large one, and of one that is `shared` with pods that are not asked about, some
    pods at a time.
    """
    most = max(most_samples // max(points, 1), 1)
    shards: list[Shard] = []
    small: dict[str, int] = {}
    for namespace, counts in sorted(pods.items()):
        total = sum(counts.values())
        if total > most or namespace in shared:
            shards += [Shard((namespace,), names, series) for names, series in _groups(counts, most)]
        else:
            small[namespace] = total
    return shards + [Shard(names, (), series) for names, series in _groups(small, most)]


def _groups(counts: Mapping[str, int], most: int) -> Iterator[tuple[tuple[str, ...], int]]:
    """Names in groups whose counts are at most so much, and whose names fit into a question."""
    names: list[str] = []
    series = size = 0
    for name, count in sorted(counts.items()):
        if names and (series + count > most or size + len(name) > _MOST_NAMES_BYTES):
            yield tuple(names), series
            names, series, size = [], 0, 0
        names.append(name)
        series += count
        size += len(name) + 1
    if names:
        yield tuple(names), series


def is_too_much(status: int, message: str) -> bool:
    """Whether a refusal says that less might be answered."""
    return status in _TOO_MUCH or (status == 400 and "exceeded maximum resolution" in message)
