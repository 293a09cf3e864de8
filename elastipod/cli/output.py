"""Printing results: as a table for people, as JSON or YAML for programs.

Owns layout and escaping: what comes from the cluster can not move the cursor or colour the terminal.
"""

import json
import sys
from collections.abc import Sequence
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
