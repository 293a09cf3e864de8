"""The keeper: the process that all others of a cluster are children of, and whose end is theirs.

A program of its own, of the standard library alone, run as a plain child or as the first process of namespaces. Reads
commands from standard input, one JSON object a line, and answers each with one. When the input ends, because its owner
closed it or is dead, it kills what it started and ends. What is to be started, and when, is its owner's to know.
"""

import ctypes
import json
import os
import signal
import sys
from typing import Any

_SET_DEATH_SIGNAL = 1  # PR_SET_PDEATHSIG of prctl(2)
_LIBC = ctypes.CDLL(None, use_errno=True)

_running: dict[str, int] = {}
_ended: dict[int, int] = {}


def main() -> None:
    """Until the input ends."""
    signal.signal(signal.SIGCHLD, lambda *_: _reap())
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for line in sys.stdin:
        print(json.dumps(_answer(json.loads(line))), flush=True)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    _reap()
    alive = [pid for pid in _running.values() if pid not in _ended]
    for pid in alive:
        os.kill(pid, signal.SIGKILL)
    for pid in alive:
        os.waitpid(pid, 0)


def _answer(command: dict[str, Any]) -> dict[str, Any]:
    name = command["name"]
    match command["do"]:
        case "start":
            _running[name] = _start(command["argv"], command["log"], command["environment"])
            return {"pid": _running[name]}
        case "signal":
            if _running[name] not in _ended:
                os.kill(_running[name], command["number"])
            return {}
        case _:
            return {"code": _ended.get(_running[name])}


def _start(argv: list[str], log: str, environment: dict[str, str]) -> int:
    pid = os.fork()
    if pid:
        return pid
    try:
        _LIBC.prctl(_SET_DEATH_SIGNAL, signal.SIGKILL)
        os.setsid()
        for number in (signal.SIGCHLD, signal.SIGINT, signal.SIGPIPE):
            signal.signal(number, signal.SIG_DFL)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), 1)
        os.dup2(1, 2)
        os.execvpe(argv[0], argv, os.environ | environment)
    except BaseException as error:
        os.write(2, f"{argv[0]}: {error}\n".encode())
    os._exit(127)


def _reap() -> None:
    """Take note of every child that ended; the first process of a namespace inherits orphans as well."""
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            return
        _ended[pid] = os.waitstatus_to_exitcode(status)


if __name__ == "__main__":
    main()
