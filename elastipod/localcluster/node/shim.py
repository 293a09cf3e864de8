"""The parent of one container's process: it outlives the cluster, and remembers how the container ended.

Started with a folder as its only argument: `spec.json` says what to run, `exit.json` will say how it ended. On standard
output it names the process, which waits until it is told to go, so that it can be put into its cgroup before it is
anything else. Uses the standard library only and is no part of the package's imports.
"""

import contextlib
import json
import os
import signal
import sys

_IGNORED = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGPIPE)
_START_FAILED = 128


def main(folder: str) -> None:
    """Start, wait, write down."""
    with open(os.path.join(folder, "spec.json"), encoding="utf-8") as file:
        spec = json.load(file)
    told, tell = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(told)
        _become(spec["argv"], spec["environment"], spec["workingFolder"], spec["log"], tell)
    os.close(tell)
    for number in _IGNORED:
        signal.signal(number, signal.SIG_IGN)
    _say(b"ready %d\n" % pid)
    problem = b""
    while piece := os.read(told, 4096):
        problem += piece
    _say(b"error " + problem.replace(b"\n", b" ") + b"\n" if problem else b"started\n")
    nowhere = os.open(os.devnull, os.O_RDWR)
    os.dup2(nowhere, 0)
    os.dup2(nowhere, 1)
    _, status = os.waitpid(pid, 0)
    ending = {
        "exitCode": os.WEXITSTATUS(status) if os.WIFEXITED(status) else 0,
        "signal": os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0,
        "problem": problem.decode("utf-8", "replace"),
    }
    _write_durably(folder, "exit.json", json.dumps(ending).encode())


def _become(argv: list[str], environment: dict[str, str], folder: str, log_path: str, tell: int) -> None:
    """Turn into the container's process, once told to."""
    try:
        if os.read(0, 3) != b"go\n":
            os.write(tell, b"the cluster ended before the container began")
            os._exit(_START_FAILED)
        os.setsid()
        log = os.open(log_path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, 0o600)
        nowhere = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nowhere, 0)
        os.dup2(log, 1)
        os.dup2(log, 2)
        os.chdir(folder)
        for number in _IGNORED:
            signal.signal(number, signal.SIG_DFL)
        os.execvpe(argv[0], argv, environment)
    except OSError as error:
        os.write(tell, f"{error.filename or argv[0]}: {error.strerror}".encode())
    os._exit(_START_FAILED)


def _say(text: bytes) -> None:
    # Where nobody listens any more, whoever comes next reads the folder.
    with contextlib.suppress(OSError):
        os.write(1, text)


def _write_durably(folder: str, name: str, content: bytes) -> None:
    temporary = os.path.join(folder, f".{name}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    os.write(descriptor, content)
    os.fsync(descriptor)
    os.close(descriptor)
    os.replace(temporary, os.path.join(folder, name))
    directory = os.open(folder, os.O_RDONLY)
    os.fsync(directory)
    os.close(directory)


if __name__ == "__main__":
    main(sys.argv[1])
