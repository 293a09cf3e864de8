"""An asyncio loop whose time is virtual: when nothing is ready, it jumps to the next timer.

Owns the order of things in a simulation: no thread, no socket and no real time takes part, so that the same program
runs the same way each time.
"""

import asyncio
import selectors
from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import Executor
from contextvars import Context
from typing import Any, Final, TypeVar, TypeVarTuple, Unpack

T = TypeVar("T")
Ts = TypeVarTuple("Ts")


_MOST_TURNS: Final = 100_000
_SHORTEST_SECONDS: Final = 1e-6


class NothingLeft(RuntimeError):
    """Everything waits for something that no timer will bring."""


class NoProgress(RuntimeError):
    """Something is always ready, and so time never moves."""


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """A loop for one simulation. `on_pause` is called whenever everything that was ready has run, before time moves."""

    def __init__(self, on_pause: Callable[[], None] | None = None) -> None:
        self._now = 0.0
        self._turns = 0
        self._on_pause = on_pause
        super().__init__(_NoSelector(self._move))

    def time(self) -> float:
        return self._now

    def call_at(
        self, when: float, callback: Callable[[Unpack[Ts]], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.TimerHandle:
        """As ever, but time moves by every wait, however short; rounding alone must not keep anyone waiting."""
        return super().call_at(max(when, self._now + _SHORTEST_SECONDS), callback, *args, context=context)

    def run_in_executor(
        self, executor: Executor | None, func: Callable[[Unpack[Ts]], T], *args: *Ts
    ) -> asyncio.Future[T]:
        """Refused: threads have no place in a run that must be repeatable."""
        raise RuntimeError(f"{func!r}{args!r} asks for a thread of {executor}, which a simulation does not have")

    def _move(self, seconds: float | None) -> None:
        if seconds is None:
            raise NothingLeft("every task waits, and no timer is set")
        if seconds > 0:
            if self._on_pause is not None:
                self._on_pause()
            self._now += seconds
            self._turns = 0
            return
        self._turns += 1
        if self._turns > _MOST_TURNS:
            running = sorted(repr(task)[:300] for task in asyncio.all_tasks(self) if not task.done())
            raise NoProgress(f"at {self._now:.3f} s nothing lets time move on: {running}")


class _NoSelector(selectors.BaseSelector):
    """Waits for no file; the loop's own pipe is all that is ever registered."""

    def __init__(self, move: Callable[[float | None], None]) -> None:
        self._move = move
        self._own: dict[int, selectors.SelectorKey] = {}

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        if self._own:
            raise RuntimeError("a simulation has no sockets")
        handle = int(fileobj)
        self._own[handle] = selectors.SelectorKey(fileobj, handle, events, data)
        return self._own[handle]

    def unregister(self, fileobj: Any) -> selectors.SelectorKey:
        return self._own.pop(fileobj)

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        self._move(timeout)
        return []

    def get_map(self) -> Mapping[Any, selectors.SelectorKey]:
        return self._own

    def close(self) -> None:
        self._own.clear()


def run_virtually(main: Coroutine[Any, Any, T], on_pause: Callable[[], None] | None = None) -> T:
    """Run a coroutine to its end in virtual time, and leave nothing behind."""
    with asyncio.Runner(loop_factory=lambda: VirtualTimeLoop(on_pause)) as runner:
        return runner.run(main)
