"""What an instant may look like: Kubernetes' Time and MicroTime, and the date-time of a custom kind's definition.

Owns the three grammars as Go and OpenAPI have them. Changes nothing: an instant is kept as it was written.
"""

import re
from collections.abc import Callable, Mapping
from datetime import date
from typing import Final

_TIME: Final = re.compile(r"(\d{4}-\d\d-\d\d)T(\d\d?):(\d\d):(\d\d)([.,]\d+)?(Z|[+-](\d\d):(\d\d))", re.ASCII)
_DATE_TIME: Final = re.compile(r"(\d{4}-\d\d-\d\d)[Tt](\d\d):(\d\d):(\d\d)(\.\d+)?([Zz]|[+-](\d\d):(\d\d))", re.ASCII)
_MICROSECONDS: Final = 7
"""A point or comma, and six digits."""
_MOST_SHOWN: Final = 60


def why_no_time(text: str) -> str:
    """What is wrong with a Time; nothing where it is one."""
    return "" if _is_instant(_TIME.fullmatch(text)) else _wrong(text, "2006-01-02T15:04:05Z07:00")


def why_no_micro_time(text: str) -> str:
    """What is wrong with a MicroTime, which tells microseconds always; nothing where it is one."""
    found = _TIME.fullmatch(text)
    if found is not None and len(found[5] or "") == _MICROSECONDS and _is_instant(found):
        return ""
    return _wrong(text, "2006-01-02T15:04:05.000000Z07:00")


def why_no_date_time(text: str) -> str:
    """What is wrong with a date-time; nothing where it is one."""
    return "" if _is_instant(_DATE_TIME.fullmatch(text)) else f'must be of type date-time: "{text[:_MOST_SHOWN]}"'


WHY_NO: Final[Mapping[str, Callable[[str], str]]] = {
    "time": why_no_time,
    "micro-time": why_no_micro_time,
    "date-time": why_no_date_time,
}
"""By the name that a shape has for it."""


def _is_instant(found: re.Match[str] | None) -> bool:
    """Whether there is such a day and hour."""
    if found is None:
        return False
    try:
        date.fromisoformat(found[1])
    except ValueError:
        return False
    hour, minute, second = int(found[2]), int(found[3]), int(found[4])
    zone_hour, zone_minute = int(found[7] or 0), int(found[8] or 0)
    return hour < 24 and max(minute, second, zone_minute) < 60 and zone_hour <= 24


def _wrong(text: str, layout: str) -> str:
    return f'parsing time "{text[:_MOST_SHOWN]}" as "{layout}": it is no such instant'
