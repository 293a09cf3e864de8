"""`elastipod local up|down|status`: a cluster on this machine.

Owns the verbs: what is asked for, how long to wait, what is told. The cluster's process is local_daemon.py.
"""

import asyncio
import os
import re
import signal
import sys
from collections.abc import Iterable
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated, Any, Final

import msgspec
import typer

from elastipod.cli.enforcement import python_of_module, run_in_scope, scoped
from elastipod.cli.interrupts import ENDING, heard
from elastipod.cli.options import Output, OutputOption
from elastipod.cli.output import print_facts, print_rows
from elastipod.clock import Clock, SystemClock
from elastipod.localcluster.folder import ClusterError, ClusterFacts, read_facts, running_pid
from elastipod.localcluster.node.runfolder import started_ticks
from elastipod.quantities import QuantityError, parse_cpu, stated_memory

if TYPE_CHECKING:
    from elastipod.cli.running import Wanted

app = typer.Typer(no_args_is_help=True, help="A cluster on this machine, with elastipod in it.")

_NAME: Final = re.compile(r"[a-z0-9]([a-z0-9-]{0,30}[a-z0-9])?")
_SPAN: Final = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ms|s|m)?")
_SPAN_SECONDS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, None: 1.0}
_DOWN_SECONDS: Final = 20.0
_LOOK_SECONDS: Final = 0.05
_MOST_LOG: Final = 65_536

NameOption = Annotated[str, typer.Option("--name", help="The cluster's name, for more than one.")]


@app.command()
def up(
    name: NameOption = "local",
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="The API server's port; 0 takes any.")] = 0,
    simulated: Annotated[
        bool, typer.Option("--simulated", help="Simulate pods even where cgroups could be used.")
    ] = False,
    nodes: Annotated[int, typer.Option("--nodes", min=1, max=100, help="How many nodes.")] = 1,
    cpu: Annotated[
        str, typer.Option("--cpu", help="CPU of each node, like 4 or 2500m; the machine's own if not given.")
    ] = "",
    memory: Annotated[
        str, typer.Option("--memory", help="Memory of each node, like 8Gi; the machine's own if not given.")
    ] = "",
    without_parts: Annotated[
        bool, typer.Option("--without-parts", help="No recommender, updater and actuator.")
    ] = False,
    foreground: Annotated[bool, typer.Option("--foreground", help="Stay; Ctrl-C ends the cluster.")] = False,
    wait: Annotated[str, typer.Option("--wait", help="How long to wait until it is ready, like 30s.")] = "30s",
    output: OutputOption = Output.TABLE,
) -> None:
    """Start a cluster, or find it running."""
    from elastipod.cli.local_daemon import serve
    from elastipod.cli.running import Wanted

    folder = state_folder(name)
    wait_seconds = _seconds(wait)
    wanted = Wanted(
        name,
        str(folder),
        port,
        simulated,
        nodes,
        _amount("--cpu", cpu, parse_cpu) or (os.cpu_count() or 1) * 1000,
        _amount("--memory", memory, stated_memory) or _machine_memory(),
        not without_parts,
    )
    try:
        if (pid := running_pid(folder)) is not None:
            _tell_up(asyncio.run(_await_ready(folder, pid, wait_seconds)), output, again=True)
        elif not foreground:
            _tell_up(_start(wanted, folder, wait_seconds), output, again=False)
        elif (command := scoped(sys.argv)) is not None:
            raise typer.Exit(run_in_scope(command))
        else:
            asyncio.run(serve(wanted, lambda facts: _tell_up(facts, output, again=False)))
    except (ClusterError, OSError) as error:
        sys.stderr.write(f"error: {error}\n")
        raise typer.Exit(1) from None


@app.command()
def down(name: NameOption = "local") -> None:
    """End a cluster: its pods, its processes, its cgroups, its files."""
    folder = state_folder(name)
    if not folder.exists():
        typer.echo(f"no cluster {name!r} is there")
        return
    asyncio.run(_end(folder, name, running_pid(folder)))
    typer.echo(f"cluster {name!r} is down")


@app.command()
def status(name: NameOption = "local", output: OutputOption = Output.TABLE) -> None:
    """What the cluster is doing."""
    folder = state_folder(name)
    pid = running_pid(folder)
    facts = read_facts(folder)
    if pid is None or facts is None:
        state = "dead" if folder.exists() and pid is None else "starting" if pid is not None else "down"
        row: dict[str, Any] = {"name": name, "state": state}
    else:
        row = {"name": name, "state": "running", **_shown(facts), "pid": pid}
    if output in (Output.JSON, Output.YAML):
        print_facts(row, output)
    else:
        print_rows([row], ("name", "state", "enforcement", "url"), output, wide=("nodes", "kubeconfig", "pid", "why"))
    if row["state"] != "running":
        raise typer.Exit(1)


def state_folder(name: str) -> Path:
    """Where a cluster keeps what it must not forget."""
    if not _NAME.fullmatch(name):
        raise typer.BadParameter(f"{name!r} is not a name: small letters, digits and -", param_hint="--name")
    base = os.environ.get("XDG_STATE_HOME") or str(Path.home() / ".local" / "state")
    return Path(base).absolute() / "elastipod" / name


def _start(wanted: "Wanted", folder: Path, wait_seconds: float) -> ClusterFacts:
    """A cluster that is ready; one that does not get ready, or is interrupted, is ended. Raises ClusterError."""
    (folder / "logs").mkdir(mode=0o700, parents=True, exist_ok=True)
    folder.chmod(0o700)
    flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
    # Kept open, for its last words: a cluster that fails removes its folder.
    log = os.open(folder / "logs" / "cluster.log", flags, 0o600)
    begin = os.fstat(log).st_size
    # No interrupt before it is known what there is to end; once it is up, none any more.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)
    for number in heard():
        signal.signal(number, _interrupt_once)
    try:
        pid = _spawn(wanted, log, before)
        try:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
            facts = asyncio.run(_await_ready(folder, pid, wait_seconds))
            _hear_no_more()
            return facts
        except (ClusterError, KeyboardInterrupt) as failure:
            _hear_no_more()
            asyncio.run(_end(folder, wanted.name, pid))
            last = _last_line(os.pread(log, _MOST_LOG, begin))
            if isinstance(failure, ClusterError) and last:
                raise ClusterError(f"{failure}: {last}") from None
            raise
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        os.close(log)


def _interrupt_once(_number: int, _frame: FrameType | None) -> None:
    _hear_no_more()
    raise KeyboardInterrupt


def _hear_no_more() -> None:
    for number in ENDING:
        signal.signal(number, signal.SIG_IGN)


def _spawn(wanted: "Wanted", log: int, mask: Iterable[signal.Signals | int]) -> int:
    """The cluster's process, in a session of its own; it outlives us."""
    argv = [*python_of_module("elastipod.cli.local_daemon"), msgspec.json.encode(wanted).decode()]
    argv = scoped(argv) or argv
    return os.posix_spawn(
        argv[0],
        argv,
        os.environ,
        file_actions=[
            (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
            (os.POSIX_SPAWN_DUP2, log, 1),
            (os.POSIX_SPAWN_DUP2, log, 2),
        ],
        setsid=True,
        setsigmask=mask,
    )


async def _await_ready(folder: Path, pid: int, seconds: float) -> ClusterFacts:
    """What the cluster tells once it is ready. Raises ClusterError."""
    clock: Clock = SystemClock()
    until = clock.monotonic() + seconds
    while clock.monotonic() < until:
        facts = read_facts(folder)
        if facts is not None and facts.pid == running_pid(folder):
            return facts
        if started_ticks(pid) is None:
            raise ClusterError("the cluster ended before it was ready")
        await clock.sleep(_LOOK_SECONDS)
    raise ClusterError(f"the cluster is not ready after {seconds:g} s")


async def _end(folder: Path, name: str, pid: int | None) -> None:
    """End the cluster's process, by force if it must be, and clean up after it."""
    from elastipod.cli.running import clean

    clock = SystemClock()
    ticks = started_ticks(pid) if pid else None
    for number in (signal.SIGTERM, signal.SIGKILL):
        if not pid or ticks is None:
            break
        if started_ticks(pid) == ticks:
            os.kill(pid, number)
        until = clock.monotonic() + _DOWN_SECONDS
        while started_ticks(pid) == ticks and clock.monotonic() < until:
            await clock.sleep(_LOOK_SECONDS)
    if folder.exists():
        await clean(folder, name)


def _tell_up(facts: ClusterFacts, output: Output, *, again: bool) -> None:
    if output in (Output.JSON, Output.YAML):
        print_facts({"state": "running", **_shown(facts)}, output)
        return
    typer.echo(f"cluster {facts.name!r} {'runs already' if again else 'is up'} at {facts.url}")
    why = f" ({facts.why})" if facts.why else ""
    typer.echo(f"sizes are in force by: {facts.enforcement}{why}")
    typer.echo(f"export KUBECONFIG={facts.kubeconfig}")


def _shown(facts: ClusterFacts) -> dict[str, Any]:
    shown: dict[str, Any] = msgspec.to_builtins(facts)
    return shown


def _amount(option: str, text: str, parse: Any) -> int:
    if not text:
        return 0
    try:
        amount: int = parse(text)
    except QuantityError as error:
        raise typer.BadParameter(str(error), param_hint=option) from None
    if amount <= 0:
        raise typer.BadParameter("must be above 0", param_hint=option)
    return amount


def _seconds(text: str) -> float:
    match = _SPAN.fullmatch(text)
    if match is None:
        raise typer.BadParameter(f"{text!r} is no span: write it like 30s", param_hint="--wait")
    return float(match.group(1)) * _SPAN_SECONDS[match.group(2)]


def _machine_memory() -> int:
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def _last_line(text: bytes) -> str:
    lines = text.decode("utf-8", "replace").strip().splitlines()
    return lines[-1].removeprefix("error: ") if lines else ""
