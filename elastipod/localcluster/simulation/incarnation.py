"""A process of a simulation: it can be killed, and is started again.

Owns that everything a process started ends with it, as the operating system would see to.
"""

import asyncio
from collections.abc import Callable, Coroutine
from contextvars import ContextVar, copy_context
from typing import Any

Tasks = dict["asyncio.Task[Any]", None]

_current: ContextVar[Tasks | None] = ContextVar("elastipod_process", default=None)


def track_tasks(loop: asyncio.AbstractEventLoop) -> None:
    """Have the loop note which process each task belongs to."""

    def factory(loop: asyncio.AbstractEventLoop, work: Any, context: Any = None) -> "asyncio.Task[Any]":
        task: asyncio.Task[Any] = asyncio.Task(work, loop=loop, context=context)
        tasks = _current.get() if context is None else context.get(_current)
        if tasks is not None:
            tasks[task] = None
            task.add_done_callback(lambda done: _forget(done, tasks))
        return task

    loop.set_task_factory(factory)


def _forget(done: "asyncio.Task[Any]", tasks: Tasks) -> None:
    tasks.pop(done, None)
    if not done.cancelled() and not isinstance(done.exception(), Exception):
        # Seen: a death is no error that someone forgot to look at.
        done.exception()


async def live(work: Callable[[], Coroutine[Any, Any, None]], killed: asyncio.Event) -> BaseException | None:
    """Run a process until it ends or is killed, and end all that it started; what it failed with, if it did."""
    tasks: Tasks = {}
    context = copy_context()
    context.run(_current.set, tasks)
    main = asyncio.get_running_loop().create_task(work(), context=context)
    death = asyncio.create_task(killed.wait())
    try:
        await asyncio.wait((main, death), return_when=asyncio.FIRST_COMPLETED)
        failure = main.exception() if main.done() and not main.cancelled() else None
    finally:
        death.cancel()
        while tasks:
            for task in list(tasks):
                task.cancel()
            await asyncio.wait(list(tasks))
    return failure
