"""The words of a table: a column, a span of time, and how a cell is read from an object.

Owns nothing of any kind; columns.py has their columns.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from elastipod.clock import from_rfc3339

Json = dict[str, Any]

NONE: Final = "<none>"
UNKNOWN: Final = "<unknown>"


@dataclass(frozen=True, slots=True)
class Column:
    """One column: its head, how a cell is read from an object, and whether only `-o wide` shows it."""

    name: str
    cell: Callable[[Json], Any]
    wide: bool = False
    type: str = "string"


@dataclass(frozen=True, slots=True)
class Since:
    """A span that begins at an instant and ends at another, or now."""

    begin: str | None
    end: str | None = None
    otherwise: str = UNKNOWN
    shown_as: str = "{}"

    def shown(self, now: float) -> str:
        if not self.begin:
            return self.otherwise
        try:
            return self.shown_as.format(
                human_span((from_rfc3339(self.end) if self.end else now) - from_rfc3339(self.begin))
            )
        except ValueError:
            return "<invalid>"


def human_span(seconds: float) -> str:
    """As apimachinery's duration.HumanDuration: 45s, 3m20s, 5h, 2d3h."""
    whole = int(seconds)
    if whole < 0:
        return "0s" if whole == -1 else "<invalid>"
    for below, size, unit, rest_size, rest_unit in _SPANS:
        if whole < below:
            rest = whole % size // rest_size if rest_unit else 0
            return f"{whole // size}{unit}{rest}{rest_unit}" if rest else f"{whole // size}{unit}"
    years, days = divmod(whole // 86400, 365)
    return f"{years}y{days}d" if days else f"{years}y"


_SPANS: Final = (
    (120, 1, "s", 1, ""),
    (600, 60, "m", 1, "s"),
    (10_800, 60, "m", 1, ""),
    (28_800, 3600, "h", 60, "m"),
    (172_800, 3600, "h", 1, ""),
    (691_200, 86_400, "d", 3600, "h"),
    (63_072_000, 86_400, "d", 1, ""),
)
"""Below so many seconds: the size and sign of the unit, and of what is left over, where it is shown."""


def at(json: Json, path: str, otherwise: Any = "") -> Any:
    """What lies at a path, or something else where nothing does."""
    found: Any = json
    for part in path.split("."):
        found = found.get(part) if isinstance(found, dict) else None
    return otherwise if found is None else found


def field(path: str, otherwise: Any = "") -> Callable[[Json], Any]:
    """The cell that shows what lies at a path."""
    return lambda json: at(json, path, otherwise)


def condition(name: str, otherwise: str | None = "") -> Callable[[Json], str | None]:
    """The cell that shows how a condition stands."""

    def found(json: Json) -> str | None:
        stated = (one.get("status", "") for one in at(json, "status.conditions", []) if one.get("type") == name)
        return next(stated, otherwise)

    return found


def labels_shown(labels: Any) -> str:
    """`a=b,c=d`."""
    return ",".join(f"{key}={value}" for key, value in sorted((labels or {}).items())) or NONE
