"""The play: sets the stage, plays the acts, adds up what was saved, and cleans up whatever happens.

Owns the order of the acts and the form of the final object. What an act does is acts.py's matter.
"""

import asyncio
import contextlib
import os
import shutil
import tempfile
from collections.abc import Awaitable
from pathlib import Path
from typing import Any, Final

from elastipod.cli.demo import acts
from elastipod.cli.demo.facts import NotSeenError, Observer
from elastipod.cli.demo.machine import Kernel, Machine, Thought
from elastipod.cli.demo.pace import HURRIED
from elastipod.cli.demo.report import write_report
from elastipod.cli.demo.savings import saved
from elastipod.cli.demo.story import Story
from elastipod.cli.enforcement import hands_of, python_of_module
from elastipod.cli.running import RunningCluster, Wanted, running_cluster
from elastipod.clock import Clock, SystemClock
from elastipod.kube.connection import Connection
from elastipod.localcluster.node.simulated import SimulatedRuntime

_NODE_MEMORY: Final = 2 * 1024**3
_TITLES: Final = {
    "a": "(a) A job whose memory leaps past its limit",
    "b": "(b) A service that reserves far more than it uses",
    "c": "(c) A pod for which there is no room",
    "d": "(d) A resize for which there is no room",
    "e": "(e) What was saved",
}


class _Stage:
    """What the acts play on."""

    def __init__(self, story: Story, running: RunningCluster, folder: str) -> None:
        self.story = story
        self.clock: Clock = SystemClock()
        self.connection: Connection = running.connection()
        self.enforcement = running.enforcement.name
        self.folder = folder
        self.observer = Observer(self.connection, self.clock, _machine(running))
        self._kubeconfig = running.kubeconfig

    async def resize(self, name: str, cpu: str) -> None:
        """`elastipod resize NAME --cpu CPU`, as a person would."""
        process = await asyncio.create_subprocess_exec(
            *python_of_module("elastipod.cli"), "resize", name, "--cpu", cpu, "--kubeconfig", self._kubeconfig,
            stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
        )  # fmt: skip
        try:
            told, _ = await process.communicate()
        except asyncio.CancelledError:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()
            raise
        for line in told.decode("utf-8", "replace").splitlines():
            self.story.tell(f"elastipod resize says: {line}")


def _machine(running: RunningCluster) -> Machine:
    runtime = running.cluster.nodes[0].runtime
    if isinstance(runtime, SimulatedRuntime):
        return Thought(runtime)
    return Kernel(hands_of(running.cluster.settings.node_names[0], running.enforcement.root))


async def play(story: Story, report: Path, *, simulated: bool) -> dict[str, Any]:
    """All acts; the facts of them. Raises NotSeenError or ClusterError."""
    folder = Path(tempfile.mkdtemp(prefix="elastipod-demo-"))
    try:
        wanted = Wanted(
            f"demo-{os.getpid()}",
            str(folder / "cluster"),
            simulated=simulated,
            cpu_millicores=acts.NODE_CPU,
            memory_bytes=_NODE_MEMORY,
            with_parts=False,
            usage_seconds=1.0,
        )
        story.tell("A cluster starts on this machine: an API server, a scheduler, controllers, one node.")
        async with running_cluster(wanted) as running:
            why = f" ({running.enforcement.why})" if running.enforcement.why else ""
            story.tell(f"Pods are held to their sizes by: {running.enforcement.name}{why}")
            stage = _Stage(story, running, str(folder))
            await stage.observer.start()
            try:
                return await _acts(stage, running, report)
            finally:
                await stage.observer.stop()
                await stage.connection.close()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


async def _acts(stage: _Stage, running: RunningCluster, report: Path) -> dict[str, Any]:
    facts: dict[str, Any] = {"enforcement": stage.enforcement, "why": running.enforcement.why}
    failures: dict[str, str] = {}
    began = stage.clock.monotonic()

    async def act(name: str, play: Awaitable[dict[str, Any]]) -> None:
        try:
            facts[name] = {**facts.get(name, {}), **await play, "enforcement": stage.enforcement}
        except NotSeenError as error:
            stage.story.bad(str(error))
            failures[name] = str(error)

    stage.story.heading(_TITLES["a"])
    await act("a", _under("without_elastipod", acts.spike_alone(stage)))
    running.start_parts(HURRIED)
    stage.story.tell("Now elastipod starts: recommender, updater, and on the node actuator and guard.")
    await acts.oversized_service(stage)
    web = await stage.observer.until_running("web")
    await acts.until_protected(stage)
    await act("a", _under("with_elastipod", acts.spike_with_elastipod(stage)))
    stage.story.heading(_TITLES["b"])
    await act("b", acts.service_shrinks(stage, web))
    stage.story.heading(_TITLES["c"])
    await act("c", acts.pending_pod_runs(stage))
    stage.story.heading(_TITLES["d"])
    await act("d", acts.resize_waits(stage))
    stage.story.heading(_TITLES["e"])
    facts["e"] = {**saved(facts), "enforcement": stage.enforcement}
    for line in facts["e"].pop("told"):
        stage.story.good(line)
    await act("e", write_report(stage, report))
    facts["seconds"] = round(stage.clock.monotonic() - began, 1)
    facts["failures"] = failures
    facts["ended_well"] = not failures and _is_well(facts)
    why = f" ({facts['why']})" if facts["why"] else ""
    stage.story.heading(f"Over after {facts['seconds']:.0f} s; enforcement: {stage.enforcement}{why}")
    return facts


async def _under(name: str, play: Awaitable[dict[str, Any]]) -> dict[str, Any]:
    return {name: await play}


def _is_well(facts: dict[str, Any]) -> bool:
    """Whether each act showed what it is there to show."""
    spike, service, pending, waiting = facts["a"], facts["b"], facts["c"], facts["d"]
    return bool(
        spike["without_elastipod"]["kills"] == 1
        and spike["with_elastipod"]["kills"] == 0
        and spike["with_elastipod"]["exit_code"] == 0
        and spike["with_elastipod"]["output_complete"]
        and spike["with_elastipod"]["process_ids_after"] == spike["with_elastipod"]["process_ids_before"]
        and service["restarts"] == service["kills"] == 0
        and service["same_container"]
        and pending["restarts"] == pending["kills"] == 0
        and waiting["restarts"] == waiting["kills"] == 0
        and waiting["seconds_waited_after_room"] <= 5
    )
