"""What is asked of a source that keeps past usage, and what it answers.

Owns these values. When they are asked is fetching.py's matter.
"""

from dataclasses import dataclass, field
from typing import Protocol

from elastipod.pods import ContainerKey, Workload
from elastipod.quantities import Resources
from recommender.history import ContainerHistory
from recommender.steps import UseInSteps


@dataclass(frozen=True, slots=True)
class Unknown:
    """Which times of a container are not known: before `until`, and not between `first` and `last`."""

    until: float
    first: float | None = None
    last: float | None = None


@dataclass(frozen=True, slots=True)
class HistoryRequest:
    """A workload whose past is wanted."""

    workload: Workload
    containers: dict[str, Unknown]
    pods: dict[str, str] = field(default_factory=dict)
    """UIDs of its living pods, by their names."""
    requests: dict[str, Resources] = field(default_factory=dict)
    """What its containers ask for: amounts that have nothing to do with it are of another unit."""
    is_waited_for: bool = True
    """Whether too little is known without it."""
    is_replayed: bool = False
    """Whether the use of each step is wanted, and not only what all of it comes to."""


@dataclass(slots=True)
class Fetched:
    """What a source has of some requests."""

    histories: dict[ContainerKey, ContainerHistory] = field(default_factory=dict)
    steps: dict[ContainerKey, UseInSteps] = field(default_factory=dict)
    missing: set[Workload] = field(default_factory=set)
    """Workloads of which something could not be had now."""
    problems: list[str] = field(default_factory=list)


class HistorySource(Protocol):
    """Where past usage is kept."""

    async def fetch(self, requests: list[HistoryRequest], now: float, largest_node: Resources) -> Fetched:
        """The histories of these. Raises SourceError where there are none to be had now."""
        ...
