"""A program that is measured: started, watched through /proc, ended."""

import os
import subprocess
import time
from pathlib import Path
from typing import Final

_QUIET_SECONDS: Final = 1.0
_KIB: Final = 1024


def cpu_seconds(pid: int) -> float:
    """What of a core it has used; this hardly depends on what else the machine does."""
    fields = Path(f"/proc/{pid}/stat").read_text("ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def rss_bytes(pid: int) -> int:
    """Its memory."""
    status = Path(f"/proc/{pid}/status").read_text("ascii")
    return int(status.partition("VmRSS:")[2].split()[0]) * _KIB


class Process:
    """A program, its CPU time, and the account that it works as."""

    def __init__(self, user: str, argv: list[str], log: Path, *, answers: bool = False) -> None:
        """`answers` is for one that is talked with: what it prints is read and not logged."""
        self.user = user
        with log.open("ab") as out:
            self.popen = subprocess.Popen(
                argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE if answers else out, stderr=out
            )

    def cpu_seconds(self) -> float:
        return cpu_seconds(self.popen.pid)

    def rss_bytes(self) -> int:
        return rss_bytes(self.popen.pid)

    def wait_quiet(self, most_seconds: float = 60.0) -> None:
        """Until it has done nothing to speak of for a while."""
        until = time.monotonic() + most_seconds
        while time.monotonic() < until:
            before = self.cpu_seconds()
            time.sleep(_QUIET_SECONDS)
            if self.cpu_seconds() - before <= 0.02 * _QUIET_SECONDS:
                return

    def end(self) -> None:
        self.popen.terminate()
        self.popen.wait(20)
