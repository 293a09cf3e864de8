"""How far below a memory limit a spike is met, and so how close to what is in use a limit may be set.

Owns the gap between a limit and its mark, which the actuator holds or raises at and the updater stays out of: a limit
lowered into the gap would be raised again at once. Measured on Linux 6.1 to 7.3; the formula is the inverse of
calculate_high_delay (mm/memcontrol.c).
"""

import math
from typing import Final

MIB: Final = 1024 * 1024
NEAR: Final = 0.97
"""From this share of its mark on, what is in use counts as at the mark."""
_PAGE: Final = 4096
_FRACTION: Final = 0.05
_LEAST_GAP: Final = 8 * MIB
_LEAST_GAP_V1: Final = 16 * MIB
_LEAST_FRACTION: Final = 0.03
_MOST_FRACTION: Final = 0.2
_MOST_TASKS: Final = 64


def gap_fraction(high_bytes: int, seconds: float, tasks: int = 1) -> float:
    """The gap, as a share of `high`, in which the kernel's throttle gives so many seconds; at least 3 % and 8 MiB."""
    if high_bytes <= 0:
        return _MOST_FRACTION
    x = math.cbrt(seconds * max(tasks, 1) / (85 * high_bytes / MIB))
    return max(x, _LEAST_FRACTION, _LEAST_GAP / high_bytes)


def gap(limit_bytes: int, seconds: float = 1.0, tasks: int = 1, fraction: float = 0.0) -> int:
    """How far below the limit the hold stands (v2), in whole pages; at most a fifth of the limit."""
    if fraction:
        wanted = limit_bytes * fraction
    else:
        # high is not known yet; the limit less the least gap is near enough, as the root is flat.
        around = max(limit_bytes - _LEAST_GAP, limit_bytes // 2)
        wanted = around * gap_fraction(around, seconds, min(max(tasks, 1), _MOST_TASKS))
        wanted = max(wanted, limit_bytes * _FRACTION)
    return int(min(wanted, limit_bytes * _MOST_FRACTION)) // _PAGE * _PAGE


def gap_v1(limit_bytes: int, fraction: float = 0.0) -> int:
    """How far below the limit the first mark stands (v1): 5 % or 16 MiB, at most a quarter of the limit."""
    wanted = max(limit_bytes * (fraction or _FRACTION), _LEAST_GAP_V1)
    return int(min(wanted, limit_bytes // 4)) // _PAGE * _PAGE


def is_clear(limit_bytes: int, used_bytes: int) -> bool:
    """Whether so much in use stays below the mark of this limit, on either version and with any number of tasks."""
    widest = max(gap(limit_bytes, tasks=_MOST_TASKS), gap_v1(limit_bytes))
    return used_bytes < NEAR * (limit_bytes - widest)


def least_limit(used_bytes: int) -> int:
    """The lowest limit that so much in use is clear of, to a page."""
    # The widest gap is a quarter.
    low, high = used_bytes // _PAGE, math.ceil(used_bytes / (NEAR * 0.75)) // _PAGE + 2
    while high - low > 1:
        middle = (low + high) // 2
        if is_clear(middle * _PAGE, used_bytes):
            high = middle
        else:
            low = middle
    return high * _PAGE
