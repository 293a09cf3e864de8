"""`elastipod dashboards`: Grafana's dashboards and Prometheus' rules, for those who do not install the chart.

Owns writing the files. What is in them is elastipod.dashboards' matter.
"""

import sys
from pathlib import Path
from typing import Annotated

import typer

from elastipod.cli.output import shown


def dashboards(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Where to write them; made where it is not there.")],
) -> None:
    """Write Grafana's dashboards and Prometheus' rule files into a folder."""
    from elastipod.dashboards.boards import files

    for name, text in files().items():
        path = folder / name
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        except OSError as error:
            sys.stderr.write(
                f"error: {shown(path)} can not be written: {error.strerror}; name a folder that is yours\n"
            )
            raise typer.Exit(1) from None
        sys.stdout.write(f"{shown(path)}\n")
