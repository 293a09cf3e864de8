"""Printing results: as a table for people, as JSON, YAML or CSV for programs.

Owns layout and escaping: what comes from the cluster can not move the cursor or colour the terminal.
"""

import csv
import json
import sys
from collections.abc import Callable, Sequence
from typing import Any

import yaml

from elastipod.cli.options import Output


def shown(text: object) -> str:
    """A text that is safe on a terminal: control and direction characters are escaped."""
    return "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in str(text))


def print_rows(
    rows: Sequence[dict[str, Any]], columns: Sequence[str], output: Output, *, wide: Sequence[str] = ()
) -> None:
    """Rows as kubectl prints them: upper-case headings, three blanks between columns; or all facts as JSON or YAML."""
    if output in (Output.JSON, Output.YAML):
        print_facts(list(rows), output)
        return
    names = [*columns, *(wide if output is Output.WIDE else ())]
    table = [[name.replace("_", " ").upper() for name in names]]
    table += [[shown("<none>" if row.get(name) in (None, "") else row[name]) for name in names] for row in rows]
    widths = [max(len(line[index]) for line in table) for index in range(len(names))]
    for line in table:
        sys.stdout.write(
            "   ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() + "\n"
        )


def print_facts(facts: Any, output: Output) -> None:
    """One object, as JSON or YAML."""
    if output is Output.YAML:
        sys.stdout.write(yaml.safe_dump(facts, sort_keys=False, allow_unicode=False))
    else:
        sys.stdout.write(json.dumps(facts, indent=2) + "\n")


def print_csv(rows: Sequence[dict[str, Any]], columns: Sequence[str] = ()) -> None:
    """Rows with a line of headings, `columns` among them even without a row; what is nested has one for each part."""
    flat = [_flat(row) for row in rows]
    names = list(dict.fromkeys((*columns, *(name for row in flat for name in row))))
    writer = csv.DictWriter(sys.stdout, names, lineterminator="\n")
    writer.writeheader()
    writer.writerows(flat)


def change(one: int | None, other: int | None, show: Callable[[int], str], between: str = " -> ") -> str:
    """Two amounts beside each other; nothing where neither is known."""
    if one is None and other is None:
        return ""
    return f"{'-' if one is None else show(one)}{between}{'-' if other is None else show(other)}"


def _flat(row: dict[str, Any]) -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for name, value in row.items():
        if isinstance(value, dict):
            flat |= {f"{name}_{part}": one for part, one in value.items()}
        else:
            flat[name] = _cell(value)
    return flat


def _cell(value: Any) -> Any:
    """A text that a spreadsheet does not take for a formula."""
    text = shown(value) if isinstance(value, str) else value
    return f"'{text}" if isinstance(text, str) and text[:1] in ("=", "+", "-", "@") else text
