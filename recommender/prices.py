"""What a core and a GiB cost for an hour, node by node.

Owns the price table (CSV), which of its rows holds for a node, and what holds where none does: OpenCost's published
defaults (configs/default.json, on-demand and spot). What amounts they are multiplied with is savings.py's matter.
"""

import csv
import io
import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from elastipod.pods import Node
from recommender import nodekinds
from recommender.nodekinds import NodeKind, capacity_type, kind_of

HOURS_A_MONTH: Final = 730.0
_GIB: Final = 1024.0**3
_SELECTING: Final = ("instance_type", "capacity_type", "region")
_PRICING: Final = ("core_hour", "gib_hour")
_COLUMNS: Final = (*_SELECTING, *_PRICING, "currency")
_CURRENCY: Final = re.compile(r"[A-Z]{3}")
_NUMBER: Final = re.compile(r"(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?", re.ASCII)
_MOST_ROWS: Final = 100_000
_MOST: Final = 1e6
_MOST_NAMED: Final = 5


class PriceError(ValueError):
    """A price table that can not be used; the message names the line and the column."""


@dataclass(frozen=True, slots=True)
class Prices:
    """Money for an hour."""

    core_hour: float
    gib_hour: float
    currency: str = "USD"
    source: str = ""
    """Where they come from, for people."""

    @property
    def byte_hour(self) -> float:
        return self.gib_hour / _GIB

    def per_hour(self, cores: float, memory_bytes: float) -> float:
        return cores * self.core_hour + memory_bytes * self.byte_hour

    def per_month(self, cores: float, memory_bytes: float) -> float:
        """For a month of 730 hours."""
        return HOURS_A_MONTH * self.per_hour(cores, memory_bytes)


ON_DEMAND: Final = Prices(0.031611, 0.004237, "USD", "OpenCost's default, on demand")
SPOT: Final = Prices(0.006655, 0.000892, "USD", "OpenCost's default, spot")


class PriceTable:
    """Prices by class of node: the row that says most holds, instance type before region before capacity type."""

    def __init__(self, rows: Mapping[NodeKind, Prices] | None = None) -> None:
        """An empty field of a row's class stands for any."""
        self._rows = dict(rows or {})
        self.currency = next((one.currency for one in self._rows.values()), ON_DEMAND.currency)

    def of(self, node: Node) -> Prices:
        """What holds for a node."""
        kind = kind_of(node)
        return self._row_of(kind) or self.default(is_spot=kind.capacity_type == nodekinds.SPOT)

    def note_on(self, nodes: Iterable[Node]) -> str:
        """How many nodes, and of which kinds, the table has no row for; nothing where it has, or there is no table."""
        missed: Counter[NodeKind] = Counter()
        if self._rows:
            missed.update(kind for kind in map(kind_of, nodes) if self._row_of(kind) is None)
        if not missed:
            return ""
        shown = [f"{number} {kind}" for kind, number in missed.most_common(_MOST_NAMED)]
        if len(missed) > _MOST_NAMED:
            shown.append(f"and those of {len(missed) - _MOST_NAMED} more kinds")
        count = missed.total()
        return (
            f"The price table has no row for {count} node{'' if count == 1 else 's'} ({', '.join(shown)}): "
            "OpenCost's published defaults hold there. Add rows for them, or one for all others."
        )

    def _row_of(self, kind: NodeKind) -> Prices | None:
        for instance in dict.fromkeys((kind.instance_type, "")):
            for region in dict.fromkeys((kind.region, "")):
                for capacity in dict.fromkeys((kind.capacity_type, "")):
                    found = self._rows.get(NodeKind(instance, capacity, region))
                    if found is not None:
                        return found
        return None

    @property
    def words(self) -> str:
        """Where the prices come from, for people."""
        known = f"{ON_DEMAND.source} ({_in_words(ON_DEMAND)}), and on spot nodes {_in_words(SPOT)}"
        if not self._rows:
            return known
        rows = f"a price table of {len(self._rows)} row{'' if len(self._rows) == 1 else 's'}"
        everywhere = self._rows.get(NodeKind())
        return f"{rows}, and elsewhere {known if everywhere is None else _in_words(everywhere)}"

    def default(self, *, is_spot: bool = False) -> Prices:
        """What holds for a node that no row speaks of, and where no node is known.

        Raises PriceError where the table has another currency than the defaults and no row for all nodes.
        """
        found = self._rows.get(NodeKind())
        if found is not None:
            return found
        if self.currency != ON_DEMAND.currency:
            raise PriceError(
                f"the price table is in {self.currency} and has no row for all other nodes: add one with empty "
                f"{', '.join(_SELECTING)}"
            )
        return SPOT if is_spot else ON_DEMAND


def read_prices(text: str, where: str = "the price table", currency: str = ON_DEMAND.currency) -> PriceTable:
    """A table as CSV with a header; columns that select may be left out or empty. Raises PriceError.

    The currency is that of rows that name none.
    """
    # A byte order mark is what spreadsheets begin a file with.
    lines = csv.reader(io.StringIO(text.removeprefix("\ufeff")), strict=True)
    try:
        header = next((line for line in lines if line), None)
        if header is None:
            raise PriceError(f"{where} is empty: the first line names the columns {', '.join(_COLUMNS)}")
        columns = [one.strip() for one in header]
        _check_columns(columns, where)
        rows: dict[NodeKind, Prices] = {}
        for line in lines:
            if not any(one.strip() for one in line):
                continue
            at = f"{where}, line {lines.line_num}"
            if len(line) != len(columns):
                raise PriceError(f"{at} has {len(line)} fields, the header {len(columns)}")
            if len(rows) >= _MOST_ROWS:
                raise PriceError(f"{at}: more than {_MOST_ROWS} rows")
            fields = dict(zip(columns, (one.strip() for one in line), strict=True))
            of = NodeKind(
                fields.get("instance_type", ""),
                capacity_type(fields.get("capacity_type", "")),
                fields.get("region", ""),
            )
            if of in rows:
                raise PriceError(f"{at} speaks of the same nodes as a line before")
            rows[of] = Prices(
                _price(fields, "core_hour", at), _price(fields, "gib_hour", at), _currency(fields, currency, at), at
            )
    except csv.Error as error:
        raise PriceError(f"{where}, line {lines.line_num}: {error}") from None
    if not rows:
        raise PriceError(f"{where} has no line below its header: add one with prices, such as one for all nodes")
    currencies = sorted({one.currency for one in rows.values()})
    if len(currencies) > 1:
        raise PriceError(f"{where}, column currency: {' and '.join(currencies)} can not be added up; use one")
    table = PriceTable(rows)
    table.default()
    return table


def load_prices(path: str, currency: str = ON_DEMAND.currency) -> PriceTable:
    """The table in a file; OpenCost's defaults alone where none is named. Raises PriceError."""
    if not path:
        return PriceTable()
    try:
        return read_prices(Path(path).read_text("utf-8"), path, currency)
    except (OSError, UnicodeDecodeError) as error:
        raise PriceError(f"{path} can not be read: {error}") from None


def is_currency(text: str) -> bool:
    """Whether a text is a currency's three letters."""
    return _CURRENCY.fullmatch(text) is not None


def _check_columns(columns: list[str], where: str) -> None:
    unknown = [one for one in columns if one not in _COLUMNS]
    missing = [one for one in _PRICING if one not in columns]
    if unknown or missing or len(set(columns)) != len(columns):
        what = f"unknown {', '.join(map(repr, unknown))}" if unknown else f"missing {', '.join(missing)}"
        if not unknown and not missing:
            what = "a column stands there twice"
        raise PriceError(f"{where}, line 1: {what}; the columns are {', '.join(_COLUMNS)}, with commas between")


def _price(fields: Mapping[str, str], column: str, at: str) -> float:
    text = fields[column]
    price = float(text) if _NUMBER.fullmatch(text) else math.nan
    if not 0.0 <= price <= _MOST:
        raise PriceError(f"{at}, column {column}: {text[:40]!r} is no price for an hour; write one such as 0.0316")
    return price


def _currency(fields: Mapping[str, str], default: str, at: str) -> str:
    text = fields.get("currency", "") or default
    if not is_currency(text):
        raise PriceError(f"{at}, column currency: {text[:40]!r} is no currency; write its three letters, such as EUR")
    return text


def _in_words(prices: Prices) -> str:
    return f"{prices.core_hour:g} {prices.currency} for a core and {prices.gib_hour:g} for a GiB, an hour"
