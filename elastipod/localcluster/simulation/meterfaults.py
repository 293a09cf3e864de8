"""metrics.k8s.io in trouble: silent, empty, or telling what can not be.

Owns what is done to the measurements of a run, drawn from its seed. What an honest answer says is usage.py's matter.
"""

import random
from collections.abc import Callable, Iterable, Iterator
from enum import StrEnum
from typing import Any, Final

from elastipod.localcluster.api.failures import ApiFailure

Json = dict[str, Any]

_UNAVAILABLE: Final = 503
_NONSENSE: Final = {"NaN": "NaN", "negative": "-64Mi"}


class MeterTrouble(StrEnum):
    """A way for measurements to be of no use."""

    SILENT = "silent"
    """The server of the metrics does not answer."""
    EMPTY = "empty"
    NAN = "NaN"
    NEGATIVE = "negative"
    PARTIAL = "partial"
    """Some pods, containers or amounts are left out."""


class Meter:
    """What stands between the nodes' measurements and those who ask for them."""

    def __init__(self, spread: random.Random) -> None:
        self._spread = spread
        self._trouble: MeterTrouble | None = None
        self.lost_since: float | None = None
        """Since when no usage at all is to be had."""

    def fail(self, trouble: MeterTrouble, now: float) -> None:
        """From now on."""
        self._trouble = trouble
        self.lost_since = now if trouble is not MeterTrouble.PARTIAL else None

    def recover(self) -> None:
        self._trouble = self.lost_since = None

    def answer(self, items: Iterable[Json]) -> Iterator[Json]:
        """What is told of these measurements. Raises ApiFailure."""
        match self._trouble:
            case None:
                yield from items
            case MeterTrouble.SILENT:
                raise ApiFailure(_UNAVAILABLE, "the metrics server does not answer")
            case MeterTrouble.EMPTY:
                return
            case MeterTrouble.PARTIAL:
                for item in items:
                    yield from self._part_of(item)
            case nonsense:
                for item in items:
                    yield _with_usage(item, lambda _: {"cpu": _NONSENSE[nonsense], "memory": _NONSENSE[nonsense]})

    def _part_of(self, item: Json) -> Iterator[Json]:
        kept = self._spread.choice(("all", "nothing", "no containers", "one amount"))
        if kept == "no containers":
            yield {**item, "containers": []}
        elif kept == "one amount":
            lost = self._spread.choice(("cpu", "memory"))
            yield _with_usage(item, lambda usage: {name: told for name, told in usage.items() if name != lost})
        elif kept == "all":
            yield item


def _with_usage(item: Json, change: Callable[[Json], Json]) -> Json:
    if "containers" not in item:
        return {**item, "usage": change(item["usage"])}
    return {**item, "containers": [{**one, "usage": change(one["usage"])} for one in item["containers"]]}
