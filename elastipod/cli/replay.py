"""`elastipod replay`: recorded usage played through our estimators and other systems' rules, and scored.

Owns the options, the progress bar and what is printed. The rules and the words of the score are the recommender's.
"""

import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from elastipod.cli.options import Output
from elastipod.cli.output import print_facts, print_rows

if TYPE_CHECKING:
    from recommender.replay.page import Picture
    from recommender.replay.series import Panel, Run, Series

_COLUMNS: Final = ("source", "resource", "rule", "series", "slack", "kills_a_day", "unserved", "over", "resizes_a_day")
_WIDE: Final = ("reserved_hours", "used_hours", "money", "currency")
_JOB_COLUMNS: Final = ("job", "rule", "runs", "waste", "kills_a_run")
_PLANNERS: Final = ("vpa", "krr", "envelope", "ours", "own_peak")


class Shape(StrEnum):
    """How the rows are printed."""

    TABLE = "table"
    WIDE = "wide"
    JSON = "json"


@dataclass(frozen=True, slots=True)
class Recording:
    """One source's recorded usage, wherever it is from."""

    name: str
    cpu: "Sequence[Series]" = ()
    memory: "Sequence[Series]" = ()
    runs: "Sequence[Run]" = ()


def replay(
    files: Annotated[list[Path], typer.Argument(help="Traces: .parquet or .csv with series, t, and cpu or mem.")],
    rules: Annotated[
        str, typer.Option("--rules", help="Only these, separated by commas, such as vpa,auto; all where not given.")
    ] = "",
    output: Annotated[Shape, typer.Option("--output", "-o", help="How to print it.")] = Shape.TABLE,
    html: Annotated[Path | None, typer.Option("--html", help="Write a page with pictures to this file.")] = None,
) -> None:
    """Play recorded usage through estimators, and score them: slack, kills, throttling, resizes, money."""
    from recommender.sources.trace import TraceError, read_trace

    try:
        traces = [read_trace(file) for file in files]
        wanted = _wanted(rules)
    except (TraceError, ValueError) as error:
        sys.stderr.write(f"error: {error}\n")
        raise typer.Exit(1) from None
    recordings = [
        Recording(one.name, runs=one.runs) if one.runs else Recording(one.name, one.cpu, one.memory) for one in traces
    ]
    rows, jobs, pictures = play_all(recordings, wanted)
    if html is not None:
        from recommender.replay.page import page

        tables = [(f"{source}, {resource}", group) for (source, resource), group in _grouped(rows).items()]
        tables += [("Jobs", jobs)] if jobs else []
        html.write_text(page("elastipod replay", tables, pictures), encoding="utf-8")
    if output is Shape.JSON:
        print_facts({"series": rows, "jobs": jobs}, Output.JSON)
        return
    if rows:
        print_rows([_shown(row) for row in rows], _COLUMNS, Output(output), wide=_WIDE)
    if jobs:
        print_rows([_shown(row) for row in jobs], _JOB_COLUMNS, Output(output), wide=("mean_waste",))


def play_all(
    recordings: Sequence[Recording], wanted: Sequence[str]
) -> "tuple[list[dict[str, Any]], list[dict[str, Any]], list[Picture]]":
    """Rows for series, rows for jobs, and a picture for each source and resource."""
    from rich.console import Console
    from rich.progress import Progress

    from recommender.prices import ON_DEMAND
    from recommender.ranges import Resource
    from recommender.replay.comparing import RULES, outcomes, row
    from recommender.replay.scoring import summary
    from recommender.replay.series import side_by_side

    rows: list[dict[str, Any]] = []
    jobs: list[dict[str, Any]] = []
    pictures: list[Picture] = []
    with Progress(console=Console(stderr=True), disable=not sys.stderr.isatty(), transient=True) as progress:
        for one in recordings:
            for resource, series in ((Resource.CPU, one.cpu), (Resource.MEMORY, one.memory)):
                rules = [rule for rule in RULES[resource] if not wanted or rule in wanted]
                for panel in side_by_side(series):
                    task = progress.add_task(f"{one.name} {resource}", total=len(rules))
                    lines = []
                    for outcome in outcomes(panel, resource, rules):
                        rows.append(row(one.name, resource, outcome.rule, summary([outcome.scores]), ON_DEMAND))
                        lines.append((outcome.rule, outcome.request.allocated))
                        progress.advance(task)
                    pictures.append(_picture(one.name, resource, panel, lines))
            jobs += _jobs(one, progress)
    return rows, jobs, pictures


def _jobs(one: Recording, progress: Any) -> list[dict[str, Any]]:
    if not one.runs:
        return []
    from recommender.replay import jobs
    from recommender.replay.comparing import plain

    rows: list[dict[str, Any]] = []
    names = sorted({run.job for run in one.runs})
    for name in progress.track(names, description=f"{one.name} jobs"):
        own = [run for run in one.runs if run.job == name]
        rows += [
            {"job": name, "rule": planner, **plain(asdict(jobs.play_jobs(own, getattr(jobs, planner))))}
            for planner in _PLANNERS
        ]
    return rows


def _wanted(rules: str) -> list[str]:
    """The rules that were named. Raises ValueError for one that there is not."""
    from recommender.replay.comparing import RULES

    known = dict.fromkeys(rule for group in RULES.values() for rule in group)
    wanted = [rule.strip() for rule in rules.split(",") if rule.strip()]
    if unknown := [rule for rule in wanted if rule not in known]:
        raise ValueError(f"--rules: there is no rule {unknown[0]!r}; there are {', '.join(known)}")
    return wanted


def _picture(source: str, resource: str, panel: "Panel", lines: list[tuple[str, Any]]) -> "Picture":
    """A series that moves as much as most do, as the rules saw it."""
    import numpy as np

    from recommender.replay.page import Picture

    values = panel.values
    filled = np.where(panel.seen, values, 0.0)
    moving = filled.std(axis=0) / np.maximum(filled.mean(axis=0), 1e-12)
    column = int(np.argsort(moving)[len(moving) // 2])
    scale, unit = (1.0, "cores") if resource == "cpu" else (1024.0**3, "GiB")
    drawn = [("used", values[:, column] / scale)]
    drawn += [(rule, allocated[:, column] / scale) for rule, allocated in lines]
    return Picture(f"{source}, {resource}, series {panel.names[column]}", panel.step_seconds, unit, drawn)


def _grouped(rows: Sequence[dict[str, Any]]) -> dict[tuple[str, str], list[dict[str, Any]]]:
    groups: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for one in rows:
        groups.setdefault((one["source"], one["resource"]), []).append(one)
    return groups


def _shown(row: dict[str, Any]) -> dict[str, Any]:
    from recommender.replay.page import shown

    return {name: shown(value) for name, value in row.items()}
