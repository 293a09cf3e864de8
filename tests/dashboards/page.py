"""What docs/dashboards.md says of alerts and panels, written from the code.

Owns the two tables. `make docs` writes them, `make check` compares.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from elastipod.dashboards.boards import BOARDS
from elastipod.dashboards.rules import GROUPS

PAGE: Final = Path(__file__).parents[2] / "docs" / "dashboards.md"
_END: Final = "<!-- end -->\n"


def dashboards_page(page: str) -> str:
    """The page as it should be."""
    for name, lines in (("panels", _panels()), ("alerts", _alerts())):
        begin = f"<!-- {name}: written by `make docs` -->\n"
        before, _, rest = page.partition(begin)
        page = f"{before}{begin}{''.join(lines)}{_END}{rest.partition(_END)[2]}"
    return page


def _panels() -> Iterator[str]:
    yield "| board | under the heading | panels |\n| --- | --- | --- |\n"
    for board in BOARDS:
        for row in board.rows:
            yield f"| {board.title} | {row.title} | {'; '.join(panel.title for panel in row.panels)} |\n"


def _alerts() -> Iterator[str]:
    yield "| alert | says | once it has held for | what to do |\n| --- | --- | --- | --- |\n"
    for group in GROUPS:
        for alert in group.alerts:
            says = re.sub(r"\{\{ range .*\{\{ \$one\.Labels\.(\w+) \}\}\{\{ end \}\}", r"*\1*", alert.summary)
            says = re.sub(r"\{\{ \$(?:labels\.)?(\w+)[^}]*\}\}", r"*\1*", says)
            yield f"| {alert.name} | {says} | {alert.holds_for} | {alert.what_to_do} |\n"
