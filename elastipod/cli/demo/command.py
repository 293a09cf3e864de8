"""The verb: what is asked for, an interrupt, and the exit code.

The play itself needs what a local cluster and the recommender need, and is imported when it is wanted.
"""

import asyncio
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from elastipod.cli.demo.story import Story
from elastipod.cli.enforcement import python_of_module, run_in_scope, scoped
from elastipod.cli.interrupts import heard
from elastipod.cli.options import Output
from elastipod.cli.output import print_facts
from elastipod.clock import SystemClock
from elastipod.localcluster.folder import ClusterError


def demo(
    output: Annotated[
        Output, typer.Option("--output", "-o", help="json or yaml end with the facts as one object.")
    ] = Output.TABLE,
    simulated: Annotated[
        bool, typer.Option("--simulated", help="Simulate pods even where cgroups could be used.")
    ] = False,
    report: Annotated[
        Path, typer.Option(metavar="FILE", help="Where the report that it ends with is written, as an HTML page.")
    ] = Path("elastipod-report.html"),
) -> None:
    """Show the whole system on this machine, in about 90 seconds: real processes where the machine allows."""
    command = None if simulated else scoped([*python_of_module("elastipod.cli"), *sys.argv[1:]])
    if command is not None:
        raise typer.Exit(run_in_scope(command))
    try:
        from elastipod.cli.demo.facts import NotSeenError
        from elastipod.cli.demo.play import play
    except ModuleNotFoundError as error:
        sys.stderr.write(f"error: {error.name} is not installed; the demo needs elastipod[recommender,local]\n")
        raise typer.Exit(1) from None
    story = Story(SystemClock(), sys.stdout if output is Output.TABLE else sys.stderr)
    try:
        facts = asyncio.run(_interruptible(play(story, report, simulated=simulated)))
    except (NotSeenError, ClusterError) as error:
        sys.stderr.write(f"error: the demo can not go on: {error}\n")
        raise typer.Exit(1) from None
    if facts is None:
        raise typer.Exit(130)
    if output is not Output.TABLE:
        print_facts(facts, output)
    if not facts["ended_well"]:
        raise typer.Exit(1)


async def _interruptible(play: Awaitable[dict[str, Any]]) -> dict[str, Any] | None:
    """The play's facts, or None when it was interrupted; it is cleaned up once, however often Ctrl-C is pressed."""
    task = asyncio.ensure_future(play)
    loop = asyncio.get_running_loop()
    cancel = _cancel_once(task)
    for number in heard():
        loop.add_signal_handler(number, cancel)
    try:
        return await task
    except asyncio.CancelledError:
        return None


def _cancel_once(task: "asyncio.Future[Any]") -> Callable[[], None]:
    asked: list[bool] = []

    def cancel() -> None:
        if not asked:
            asked.append(True)
            task.cancel()

    return cancel
