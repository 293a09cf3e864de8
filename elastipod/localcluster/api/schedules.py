"""When a CronJob runs: what a schedule and a time zone may be.

Owns the grammar of Kubernetes' cron, five fields or a word. Computes no times: nothing runs CronJobs here.
"""

import re
import zoneinfo
from typing import Final

_WORDS: Final = frozenset({"@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly"})
_DURATION: Final = re.compile(r"@every -?([0-9]+(\.[0-9]*)?(ns|us|µs|ms|s|m|h))+")
_MONTHS: Final = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DAYS: Final = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_FIELDS: Final[tuple[tuple[int, int, tuple[str, ...]], ...]] = (
    *((0, 59, ()), (0, 23, ()), (1, 31, ())),
    *((1, 12, _MONTHS), (0, 6, _DAYS)),
)
"""Of minute, hour, day, month and weekday: the least, the most, and the names from the least on."""


def why_no_schedule(text: str) -> str:
    """What is wrong with a schedule; nothing where it is one."""
    if text.startswith("@"):
        return "" if text in _WORDS or _DURATION.fullmatch(text) else f"unrecognized descriptor: {text[:60]}"
    parts = text.split()
    if len(parts) != len(_FIELDS):
        return f"expected exactly 5 fields, found {len(parts)}"
    for part, (least, most, names) in zip(parts, _FIELDS, strict=True):
        for one in filter(None, part.split(",")):
            if why := _why_no_range(one, least, most, names):
                return f"{why}: {one[:60]}"
    return ""


def _why_no_range(text: str, least: int, most: int, names: tuple[str, ...]) -> str:
    span, slash, step = text.partition("/")
    if slash and (not step.isdecimal() or int(step) == 0):
        return "step of range should be a positive number"
    first, dash, last = span.partition("-")
    if span in ("*", "?"):
        return ""
    begin = _number(first, least, names)
    end = _number(last, least, names) if dash else (most if slash else begin)
    if begin is None or end is None:
        return "failed to parse int"
    if begin < least:
        return f"beginning of range ({begin}) below minimum ({least})"
    if end > most:
        return f"end of range ({end}) above maximum ({most})"
    return f"beginning of range ({begin}) beyond end of range ({end})" if begin > end else ""


def _number(text: str, least: int, names: tuple[str, ...]) -> int | None:
    if text.lower() in names:
        return names.index(text.lower()) + least
    return int(text) if text.isdecimal() else None


def why_no_time_zone(name: str) -> str:
    """What is wrong with a time zone; nothing where it is one."""
    if not name:
        return "timeZone must be nil or non-empty string"
    if name.lower() == "local":
        return "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones"
    try:
        zoneinfo.ZoneInfo(name)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        return f"unknown time zone {name[:60]}"
    return ""
