"""What must hold after every step of a run, whatever goes wrong meanwhile.

Owns the words and the round of all invariants; each stands in the module of what it looks at. An invariant judges by
the API server's store, the nodes' own state and the writes themselves, never by what a part believes.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from elastipod.localcluster.api.store import Store
from elastipod.localcluster.simulation.trace import Write
from elastipod.quantities import Resources

OURS: Final = ("recommender", "updater", "actuator")
"""The parts whose writes are judged."""


@dataclass(frozen=True, slots=True)
class Violation:
    """An invariant that did not hold: which, when, for what, and the numbers."""

    invariant: str
    at: float
    object: str
    what: str

    def __str__(self) -> str:
        return f"{self.invariant} at {self.at:.3f} s, {self.object}: {self.what}"


@dataclass(frozen=True, slots=True)
class NodeTruth:
    """A node's own state: what it has and what it has given away."""

    name: str
    allocatable: Resources
    allocated: Resources
    unstored: tuple[str, ...] = ()
    """Containers that run at a size which the node would not know after a restart."""


@dataclass(frozen=True, slots=True)
class Hold:
    """Processes kept waiting at their limit; `ended_at` is None while they wait."""

    container: str
    since: float
    ended_at: float | None = None


@dataclass(frozen=True, slots=True)
class CgroupWrite:
    """One write to a cgroup by a part of ours; the group is a path below the hierarchy's root."""

    actor: str
    group: str
    file: str
    value: str


class World(Protocol):
    """The truth that invariants judge by. Instants are the run's seconds."""

    store: Store

    def now(self) -> float: ...

    def unix_now(self) -> float: ...

    def nodes(self, names: Collection[str]) -> Iterable[NodeTruth]:
        """The nodes of these names."""
        ...

    def lowest_memory(self, pod_uid: str, container: str, seconds: float) -> int | None:
        """The least a container had in use within the last seconds; None where nothing is known."""
        ...

    def holds(self) -> Iterable[Hold]:
        """What is held now, and what was let go since this was last asked."""
        ...

    def metrics_lost_since(self, namespace: str) -> float | None:
        """Since when no usage is to be had for a namespace; None while it is."""
        ...


class Invariant:
    """One promise. Each hook answers with what is broken."""

    name = ""

    def after_write(self, _world: World, _write: Write, /) -> Iterable[Violation]:
        return ()

    def at_pause(self, _world: World, /) -> Iterable[Violation]:
        return ()

    def after_cgroup_write(self, _world: World, _write: CgroupWrite, /) -> Iterable[Violation]:
        return ()

    def broken(self, world: World, thing: str, what: str) -> Violation:
        """The violation, told."""
        return Violation(self.name, world.now(), thing, what)


class Watchman:
    """Goes the round of all invariants and keeps what they found."""

    def __init__(self, world: World, invariants: Sequence[Invariant]) -> None:
        self.violations: list[Violation] = []
        self._world = world
        self._invariants = invariants

    def after_write(self, write: Write) -> None:
        for invariant in self._invariants:
            self.violations += invariant.after_write(self._world, write)

    def at_pause(self) -> None:
        for invariant in self._invariants:
            self.violations += invariant.at_pause(self._world)

    def after_cgroup_write(self, write: CgroupWrite) -> None:
        for invariant in self._invariants:
            self.violations += invariant.after_cgroup_write(self._world, write)
