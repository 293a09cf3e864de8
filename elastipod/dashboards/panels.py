"""What a panel is, and what a board is made of.

Owns the words that boards are written in. Which panels there are is each board's matter; how Grafana wants them,
grafana.py's.
"""

from dataclasses import dataclass
from enum import StrEnum


class Unit(StrEnum):
    """What a panel's numbers are, in Grafana's words."""

    CORES = "suffix: cores"
    BYTES = "bytes"
    MONEY = "locale"
    """In the currency that the legend names."""
    PRICE = "none"
    """As MONEY, with all its digits."""
    COUNT = "short"
    DAYS = "d"
    SECONDS = "s"
    FRACTION = "percentunit"
    PER_SECOND = "cps"


class Kind(StrEnum):
    """How a panel is drawn, in Grafana's words."""

    CURVES = "timeseries"
    NUMBER = "stat"
    TABLE = "table"


@dataclass(frozen=True, slots=True)
class Query:
    """PromQL, and what its series are called."""

    expression: str
    legend: str = ""


@dataclass(frozen=True, slots=True)
class Panel:
    """One picture. `width` is in 24ths of a row, `height` in Grafana's units of 30 pixels."""

    title: str
    description: str
    unit: Unit
    queries: tuple[Query, ...]
    kind: Kind = Kind.CURVES
    width: int = 12
    height: int = 8


@dataclass(frozen=True, slots=True)
class Variable:
    """A choice at the top of a board: the values of a label."""

    name: str
    label: str
    metric: str
    """With the choices before it, as a selector."""
    has_all: bool = True
    """Whether all can be chosen, and are until somebody chooses; else the first is."""


@dataclass(frozen=True, slots=True)
class Annotation:
    """Moments that are marked in every picture: where the expression has a value, looked at once a minute."""

    name: str
    expression: str
    text: str
    colour: str


@dataclass(frozen=True, slots=True)
class Row:
    """Panels under a heading."""

    title: str
    panels: tuple[Panel, ...]


@dataclass(frozen=True, slots=True)
class Board:
    """A dashboard. Its `name` is that of its file and part of its uid, and stays."""

    name: str
    title: str
    description: str
    variables: tuple[Variable, ...]
    rows: tuple[Row, ...]
    annotations: tuple[Annotation, ...] = ()

    @property
    def panels(self) -> tuple[Panel, ...]:
        """All of them, in order."""
        return tuple(panel for row in self.rows for panel in row.panels)
