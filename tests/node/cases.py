"""What is tried in the machine. Prints `CASE <name> ok` or `CASE <name> FAILED <why>` for each."""

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from actuator.lowering import Lowering
from actuator.nodehands import NodeHands, numbers
from actuator.shrinking import ShrinkRules, Wait
from actuator.usagefiles import UsageFiles
from elastipod.clock import SystemClock
from elastipod.localcluster.node.hands import GroupLimits
from elastipod.reasons import Reason

MIB = 1024 * 1024
LIMIT = 64 * MIB
WANTED = 180
POD, GROUP = "kubepods/burstable/pod1", "kubepods/burstable/pod1/c1"
STATE = Path("/tmp/state")
SLOWNESS = 3.0
"""Emulated processors take about this much longer."""
CLOCK = SystemClock()


@cache
def hands() -> NodeHands:
    """The machine's cgroups."""
    return NodeHands()


@contextmanager
def container(limit: int = LIMIT) -> Iterator[None]:
    """A pod of one container."""
    shutil.rmtree(STATE, ignore_errors=True)
    hands().create(GROUP)
    for group in (POD, GROUP):
        hands().apply(group, GroupLimits(100, None, limit))
    try:
        yield
    finally:
        hands().kill("kubepods")
        deadline = CLOCK.monotonic() + 10
        while hands().processes("kubepods") and CLOCK.monotonic() < deadline:
            threading.Event().wait(0.05)
        hands().remove("kubepods")


@contextmanager
def agent(limit: int = LIMIT, **options: Any) -> Iterator[subprocess.Popen[bytes]]:
    """The node side of the actuator."""
    argv = [sys.executable, "-m", "tests.node.agent", str(STATE), GROUP, str(limit), json.dumps(options)]
    (STATE / "ready").unlink(missing_ok=True)
    process = subprocess.Popen(argv)
    try:
        until((STATE / "ready").exists, "the agent is ready", 60)
        yield process
    finally:
        process.kill()
        process.wait()


@contextmanager
def guard() -> Iterator[None]:
    process = subprocess.Popen([sys.executable, "-m", "actuator.guard", str(STATE)], stderr=subprocess.DEVNULL)
    try:
        yield
    finally:
        process.terminate()
        assert process.wait(10) == 0


def hog(kind: str = "touch", mib: int = WANTED, threads: int = 1) -> subprocess.Popen[bytes]:
    argv = [sys.executable, "-m", "tests.node.hog", kind, str(mib), str(threads)]
    process = subprocess.Popen(argv, stdin=subprocess.PIPE)
    hands().add_process(GROUP, process.pid)
    assert process.stdin is not None
    process.stdin.write(b"\n")
    process.stdin.close()
    return process


def until(is_true: Callable[[], bool], what: str, seconds: float) -> float:
    began = CLOCK.monotonic()
    while not is_true():
        assert CLOCK.monotonic() - began < seconds * SLOWNESS, f"not within {seconds * SLOWNESS} s: {what}"
        threading.Event().wait(0.02)
    return CLOCK.monotonic() - began


def told() -> list[str]:
    return (STATE / "told").read_text().split()


def high_events() -> int:
    return numbers(hands().text(GROUP, "memory.events")).get("high", 0)


def ends(process: subprocess.Popen[bytes], code: int, seconds: float = 20) -> None:
    found = process.wait(seconds * SLOWNESS)
    assert found == code, f"ended with {found} and not {code}; {told() if STATE.exists() else ''}"


def an_unprotected_program_is_killed() -> None:
    with container():
        ends(hog(), -signal.SIGKILL)
        assert hands().oom_kills(GROUP) == 1


def spikes_survive(kind: str = "touch", threads: int = 1, tries: int = 3) -> None:
    for _ in range(tries):
        with container(), agent():
            ends(hog(kind, threads=threads), 0)
            assert hands().oom_kills(GROUP) == 0
            assert told().count("Raised") <= 4
            limit, high = hands().memory_limit(GROUP), hands().number(GROUP, "memory.high")
            assert limit is not None
            assert high is not None
            assert high < limit
            assert hands().memory_limit(POD) == limit


def page_cache_raises_nothing() -> None:
    with container(), agent():
        ends(hog("cache", 300), 0, 40)
        assert high_events() > 0
        assert "Raised" not in told(), told()
        assert hands().memory_limit(GROUP) == LIMIT


def an_empty_budget_ends_the_hold_at_its_deadline() -> None:
    with container(), agent(room=False):
        process = hog()
        until(lambda: high_events() > 0, "it is held", 10)
        waited = until(lambda: hands().number(GROUP, "memory.high") is None, "it is let go", 7)
        assert 4.0 <= waited <= 5.5 * 1.5, f"held for {waited:.2f} s"
        ends(process, -signal.SIGKILL)
        assert "NodeBudgetEmpty" in told()


def a_silent_api_kills_nothing() -> None:
    with container(), agent(api="silent"):
        ends(hog(), 0)
        assert hands().oom_kills(GROUP) == 0


def released_by_the_guard(number: int, seconds: float) -> None:
    limit = 160 * MIB
    with container(limit), agent(limit, gap=0.2, room=False) as process, guard():
        one = hog(mib=135)
        until(lambda: high_events() > 0, "it is held", 20)
        os.kill(process.pid, number)
        waited = until(lambda: hands().number(GROUP, "memory.high") is None, "the guard lets go", seconds)
        print(f"released after {waited:.2f} s", flush=True)
        ends(one, 0, 10)
        assert hands().oom_kills(GROUP) == 0


def a_shrink_below_what_is_used_is_refused() -> None:
    with container(200 * MIB):
        one = hog("hold", mib=120)
        until(lambda: hands().usage(GROUP).memory_bytes > 120 * MIB, "it has its memory", 20)
        lowering = Lowering(hands(), CLOCK, ShrinkRules(most_pressure=1.0))
        steps = [lowering.step(POD, GROUP, LIMIT) for _ in range(6)]
        # It may go on again where the kernel took something back meanwhile.
        assert Wait(Reason.KEPT_ABOVE_USAGE) in steps, steps
        limit = hands().memory_limit(GROUP)
        assert limit is not None
        assert hands().usage(GROUP).memory_bytes * 1.05 <= limit < 200 * MIB
        assert hands().memory_limit(POD) == limit
        assert hands().oom_kills(GROUP) == 0
        ends(one, 0, 40)


def a_bystander_in_the_container_lives() -> None:
    with container(), agent():
        (Path("/sys/fs/cgroup") / GROUP / "memory.oom.group").write_text("1")
        bystander = subprocess.Popen(["sleep", "600"])
        hands().add_process(GROUP, bystander.pid)
        ends(hog(), 0)
        assert bystander.poll() is None
        bystander.kill()
        bystander.wait()


def a_restarted_agent_takes_over_what_is_held() -> None:
    with container():
        with agent(room=False) as first:
            one = hog()
            until(lambda: high_events() > 0, "it is held", 10)
            first.kill()
            first.wait()
        with agent():
            ends(one, 0)
        assert hands().oom_kills(GROUP) == 0


def what_is_used_is_read() -> None:
    """CPU to its limit, memory to its own, and what the kernel says of both."""
    with container():
        files = UsageFiles(hands(), GROUP)
        hands().apply(GROUP, GroupLimits(100, 200, LIMIT))
        busy = subprocess.Popen([sys.executable, "-c", "while True: pass"])
        hands().add_process(GROUP, busy.pid)
        before, began = files.cpu_seconds(), CLOCK.monotonic()
        assert before is not None
        until(lambda: CLOCK.monotonic() - began > 3, "some seconds pass", 5)
        after, passed = files.cpu_seconds(), CLOCK.monotonic() - began
        assert after is not None
        assert 0.1 <= (after - before) / passed <= 0.3, f"{after - before:.2f} s of CPU in {passed:.2f} s"
        totals = files.totals()
        assert totals.throttled > 0.5 * totals.periods > 0, totals
        assert totals.cpu_stall_seconds > 0, totals
        assert totals.oom_kills == 0, totals
        busy.kill()
        busy.wait()
        hands().apply(GROUP, GroupLimits(100, None, LIMIT))
        writer = hog("cache", mib=300)
        until(lambda: (hands().number(GROUP, "memory.current") or 0) > LIMIT * 0.8, "its cache fills its limit", 30)
        assert files.working_set(None) < LIMIT / 2
        ends(writer, 0, 40)
        ends(hog(), -signal.SIGKILL)
        assert files.totals().oom_kills == 1
        assert files.totals().memory_stall_seconds > 0
        hands().remove("kubepods")
        try:
            files.cpu_seconds()
        except OSError:
            files.close()
            return
        raise AssertionError("a group that is gone is read on")


CASES: dict[str, Callable[[], None]] = {
    "control": an_unprotected_program_is_killed,
    "one-thread": spikes_survive,
    "eight-threads": lambda: spikes_survive(threads=8),
    "readinto": lambda: spikes_survive("readinto", tries=1),
    "fork": lambda: spikes_survive("fork", tries=1),
    "sockets": lambda: spikes_survive("sockets", tries=1),
    "page-cache": page_cache_raises_nothing,
    "silent-api": a_silent_api_kills_nothing,
    "empty-budget": an_empty_budget_ends_the_hold_at_its_deadline,
    "agent-killed": lambda: released_by_the_guard(signal.SIGKILL, 1.0),
    "agent-stopped": lambda: released_by_the_guard(signal.SIGSTOP, 1.0),
    "shrink-refused": a_shrink_below_what_is_used_is_refused,
    "bystander": a_bystander_in_the_container_lives,
    "restart": a_restarted_agent_takes_over_what_is_held,
    "usage": what_is_used_is_read,
}


def main() -> int:
    """All, or those that are named, one after the other."""
    # What the firmware left of its line ends here.
    print(flush=True)
    failed = 0
    for module in sorted(Path("/t/modules").iterdir()):
        subprocess.run(["insmod", str(module)], check=False)
    for name in sys.argv[1:] or CASES:
        began = CLOCK.monotonic()
        try:
            CASES[name]()
        except Exception as error:
            failed += 1
            traceback.print_exc()
            print(f"CASE {name} FAILED {type(error).__name__}: {' '.join(str(error).split())}", flush=True)
        else:
            print(f"CASE {name} ok ({CLOCK.monotonic() - began:.1f} s)", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
