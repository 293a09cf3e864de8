"""Who watches the memory of a node's containers, as the actuator sees it: what it is asked, and what it tells.

Owns the words and the protocol; watcher.py fulfils it in threads, loopwatcher.py on the event loop.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from actuator.memory import Target
from actuator.spikewords import Accepted, AskApi, Refused, Tell


@dataclass(frozen=True, slots=True)
class Gone:
    """The container ended."""


@dataclass(frozen=True, slots=True)
class Failed:
    """Something the kernel refused, or that is not ours to set."""

    message: str


@dataclass(frozen=True, slots=True)
class Watched:
    """The container is under protection now."""


Outcome = AskApi | Tell | Gone | Failed | Watched
OnOutcome = Callable[[str, Outcome], None]


class SpikeWatcher(Protocol):
    """`Watcher` in a thread, or `LoopWatcher` on the event loop."""

    enforcement: str
    holds: bool
    on_outcome: OnOutcome

    def add(self, target: Target) -> None: ...

    def complete(self) -> None:
        """All that is to be watched at the start was added."""
        ...

    def drop(self, key: str) -> None: ...

    def answer(self, key: str, answer: Accepted | Refused) -> None: ...

    async def run(self) -> None:
        """For ever; leaves nothing held when cancelled."""
        ...
