"""The parent of one container's process: it outlives the cluster, and remembers what the container said and its end.

Started with a folder as its only argument: `spec.json` says what to run, `exit.json` will say how it ended. On standard
output it names the process, which waits until it is told to go, so that it can be put into its cgroup before it is
anything else. What it says goes into a log, a line each: `TIME F TEXT`, or `TIME P TEXT` for a piece of a line that
goes on. Uses the standard library only and is no part of the package's imports.
"""

import contextlib
import json
import os
import select
import signal
import sys
import time

_IGNORED = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGPIPE)
_START_FAILED = 128
_PIECE = 65_536
_MOST_LINE = 16_384
"""A longer line is written in pieces, as container runtimes do."""
_LAST_PIECES = 16
"""A pipe's worth: what is said after the container's end, by what it left behind, is not waited for."""


def main(folder: str) -> None:
    """Start, wait, write down."""
    with open(os.path.join(folder, "spec.json"), encoding="utf-8") as file:
        spec = json.load(file)
    log = os.open(spec["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, 0o600)
    told, tell = os.pipe()
    heard, said = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(told)
        _become(spec["argv"], spec["environment"], spec["workingFolder"], said, tell)
    os.close(tell)
    os.close(said)
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
    _listen(heard, log, pid)
    _, status = os.waitpid(pid, 0)
    ending = {
        "exitCode": os.WEXITSTATUS(status) if os.WIFEXITED(status) else 0,
        "signal": os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0,
        "problem": problem.decode("utf-8", "replace"),
    }
    _write_durably(folder, "exit.json", json.dumps(ending).encode())


def _become(argv: list[str], environment: dict[str, str], folder: str, output: int, tell: int) -> None:
    """Turn into the container's process, once told to."""
    try:
        if os.read(0, 3) != b"go\n":
            os.write(tell, b"the cluster ended before the container began")
            os._exit(_START_FAILED)
        os.setsid()
        nowhere = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nowhere, 0)
        os.dup2(output, 1)
        os.dup2(output, 2)
        os.chdir(folder)
        for number in _IGNORED:
            signal.signal(number, signal.SIG_DFL)
        os.execvpe(argv[0], argv, environment)
    except OSError as error:
        os.write(tell, f"{error.filename or argv[0]}: {error.strerror}".encode())
    os._exit(_START_FAILED)


def _listen(heard: int, log: int, pid: int) -> None:
    """Write down what the container says, until it has ended."""
    os.set_blocking(heard, False)
    ended = os.pidfd_open(pid)
    waiting = select.poll()
    waiting.register(heard, select.POLLIN)
    waiting.register(ended, select.POLLIN)
    rest = b""
    has_ended = False
    while not has_ended:
        ready = {descriptor for descriptor, _ in waiting.poll()}
        has_ended = ended in ready
        for _ in range(_LAST_PIECES if has_ended else 1):
            piece = _read(heard)
            if not piece:
                break
            rest = _write_lines(log, rest + piece)
        if heard in ready and piece == b"":
            waiting.unregister(heard)
    if rest:
        _append(log, b"%s P %s\n" % (_now(), rest))


def _read(descriptor: int) -> bytes | None:
    """What there is; nothing at its end, None where there is nothing yet."""
    try:
        return os.read(descriptor, _PIECE)
    except BlockingIOError:
        return None


def _write_lines(log: int, said: bytes) -> bytes:
    """Append the lines that are whole; the rest is given back."""
    *lines, rest = said.split(b"\n")
    now = _now()
    pieces = [b"%s F %s\n" % (now, line) for line in lines]
    while len(rest) > _MOST_LINE:
        pieces.append(b"%s P %s\n" % (now, rest[:_MOST_LINE]))
        rest = rest[_MOST_LINE:]
    _append(log, b"".join(pieces))
    return rest


def _append(log: int, text: bytes) -> None:
    # A full disk takes the output and not the container.
    with contextlib.suppress(OSError):
        while text:
            text = text[os.write(log, text) :]


def _now() -> bytes:
    seconds, nanoseconds = divmod(time.time_ns(), 1_000_000_000)
    return f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(seconds))}.{nanoseconds:09d}Z".encode()


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
