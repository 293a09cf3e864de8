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
_SLICE_NANOSECONDS = 100_000
_SCHED_SETATTR = {"x86_64": 314, "aarch64": 274}


class _Attributes(ctypes.Structure):
    """struct sched_attr (include/uapi/linux/sched/types.h), its first version."""

    _fields_ = (
        ("size", ctypes.c_uint32),
        ("policy", ctypes.c_uint32),
        ("flags", ctypes.c_uint64),
        ("nice", ctypes.c_int32),
        ("priority", ctypes.c_uint32),
        ("runtime", ctypes.c_uint64),
        ("deadline", ctypes.c_uint64),
        ("period", ctypes.c_uint64),
    )


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
    """Let the calling thread run before most others: seldom passed over, and (Linux 6.12 and newer) soon after it
    wakes, as one that asks for short slices goes before one in the middle of a longer one, in other cgroups too."""
    thread = threading.get_native_id()
    try:
        os.setpriority(os.PRIO_PROCESS, thread, _NICE)
    except OSError:
        return "normal"
    wanted = _Attributes(ctypes.sizeof(_Attributes), os.SCHED_OTHER, 0, _NICE, 0, _SLICE_NANOSECONDS, 0, 0)
    number = _SCHED_SETATTR.get(os.uname().machine)
    if number is None or ctypes.CDLL(None).syscall(number, thread, ctypes.byref(wanted), 0) != 0:
        return f"nice {_NICE}"
    return f"nice {_NICE}, slices of {_SLICE_NANOSECONDS // 1000} us"
