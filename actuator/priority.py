"""The right to run before others: what the kernel lets a thread have of it.

Owns the scheduling of the threads that save containers. Imports the standard library alone, as the guard uses it.
"""

import ctypes
import os
import threading
from contextlib import suppress

_MCL_CURRENT, _MCL_FUTURE, _MCL_ONFAULT = 1, 2, 4
_FIFO_PRIORITY = 10
_NICE = -15


def run_first() -> str:
    """Let the calling thread run before others, and keep its memory in memory, as far as we are allowed; what came of
    it."""
    with suppress(OSError, AttributeError):
        libc = ctypes.CDLL(None, use_errno=True)
        libc.mlockall(_MCL_CURRENT | _MCL_FUTURE | _MCL_ONFAULT)
    thread = threading.get_native_id()
    try:
        flags = os.SCHED_FIFO | os.SCHED_RESET_ON_FORK
        os.sched_setscheduler(thread, flags, os.sched_param(_FIFO_PRIORITY))
    except OSError:
        return run_early()
    return f"SCHED_FIFO {_FIFO_PRIORITY}"


def run_early() -> str:
    """Let the calling thread run before most others."""
    try:
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _NICE)
    except OSError:
        return "normal"
    return f"nice {_NICE}"
