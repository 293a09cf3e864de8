"""Recorded usage from files: Parquet and CSV.

Owns the columns of a trace and the strict reading of them. One row is one sample: `series`, `t` (seconds since the
series began, on an even grid), and `cpu` (cores) or `mem` (GiB) or both; a run of a job has `task` and `run` too.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from recommender.histogram import Floats
from recommender.replay.series import Run, Series

if TYPE_CHECKING:
    import pyarrow

GIB: Final = 1024.0**3
_COLUMNS: Final = {"cpu": 1.0, "mem": GIB}
_MOST_STEPS: Final = 10_000_000


class TraceError(ValueError):
    """A trace that can not be read: which file and column, what is wrong, and what to do."""


@dataclass(frozen=True, slots=True)
class Trace:
    """What one file holds."""

    name: str
    cpu: tuple[Series, ...] = ()
    memory: tuple[Series, ...] = ()
    runs: tuple[Run, ...] = ()


def read_trace(path: Path) -> Trace:
    """Read a file. Raises TraceError."""
    table = _read(path)
    names = _text(path, table, "series")
    times = _numbers(path, table, "t")
    measures = [column for column in _COLUMNS if column in table.column_names]
    if not measures:
        raise TraceError(f"{path}: there is neither a column cpu (cores) nor mem (GiB); add one")
    if table.num_rows == 0:
        raise TraceError(f"{path}: there are no rows; record some usage first")
    if not np.isfinite(times).all():
        raise TraceError(f"{path}: column t has rows without a time; drop these rows")
    kinds, which = np.unique(names, return_inverse=True)
    found: dict[str, list[Series]] = {column: [] for column in measures}
    rows_of = np.split(np.argsort(which, kind="stable"), np.cumsum(np.bincount(which))[:-1])
    values = {column: _usage(path, table, column) for column in measures}
    for name, rows in zip(kinds.tolist(), rows_of, strict=True):
        step, places = _grid(path, name, times[rows])
        for column in measures:
            even = np.full(int(places.max()) + 1, np.nan)
            even[places] = values[column][rows] * _COLUMNS[column]
            found[column].append(Series(name, step, even))
    first_rows = {name: rows[0] for name, rows in zip(kinds.tolist(), rows_of, strict=True)}
    runs = _runs(path, table, found.get("mem", []), {one.name: one.values for one in found.get("cpu", [])}, first_rows)
    return Trace(path.stem, tuple(found.get("cpu", ())), tuple(found.get("mem", ())), runs)


def _read(path: Path) -> "pyarrow.Table":
    from pyarrow import ArrowException, csv, parquet

    readers = {".parquet": lambda: parquet.read_table(path), ".csv": lambda: csv.read_csv(path)}
    reader: Any = readers.get(path.suffix)
    if reader is None:
        raise TraceError(f"{path}: a trace is a .parquet or a .csv file; convert it")
    try:
        table: pyarrow.Table = reader()
        table.column_names.count("series")  # names that are no text raise here
        return table
    except FileNotFoundError:
        raise TraceError(f"{path}: there is no such file") from None
    except (ArrowException, OSError, ValueError) as error:
        told = str(error).splitlines() or ["it is empty"]
        raise TraceError(f"{path}: this is no {path.suffix[1:]} file that can be read: {told[0]}") from None


def _column(path: Path, table: "pyarrow.Table", column: str) -> Any:
    if column not in table.column_names:
        raise TraceError(f"{path}: the column {column} is missing; a trace has series, t, and cpu or mem")
    return table.column(column)


def _text(path: Path, table: "pyarrow.Table", column: str) -> np.ndarray[Any, Any]:
    found = _column(path, table, column)
    if found.null_count:
        raise TraceError(f"{path}: column {column} has {found.null_count} rows without a name; name or drop them")
    names = np.array([str(one) for one in found.to_pylist()])
    if (names == "").any():
        raise TraceError(f"{path}: column {column} has rows with an empty name; name or drop them")
    return names


def _numbers(path: Path, table: "pyarrow.Table", column: str) -> Floats:
    from pyarrow import ArrowException, float64

    try:
        return np.asarray(_column(path, table, column).cast(float64()).to_numpy(), dtype=np.float64)
    except ArrowException:
        raise TraceError(f"{path}: column {column} is not all numbers; write plain numbers") from None


def _usage(path: Path, table: "pyarrow.Table", column: str) -> Floats:
    values = _numbers(path, table, column)
    if (values < 0).any():
        place = int(np.flatnonzero(values < 0)[0])
        raise TraceError(
            f"{path}: column {column} is {values[place]:g} in row {place + 1}; "
            "usage is 0 or more, leave out what is unknown"
        )
    if np.isinf(values).any():
        place = int(np.flatnonzero(np.isinf(values))[0])
        raise TraceError(f"{path}: column {column} is infinite in row {place + 1}; leave out what is unknown")
    return values


def _grid(path: Path, name: str, times: Floats) -> tuple[float, np.ndarray[Any, np.dtype[np.int64]]]:
    """The step of a series, and the place of each row on its grid."""
    ordered = np.sort(times)
    steps = np.diff(ordered)
    if (steps == 0).any():
        again = float(ordered[:-1][steps == 0][0])
        raise TraceError(f"{path}: column t of series {name} has {again:g} twice; a series has one sample at a time")
    step = float(steps.min()) if len(steps) else 60.0
    away = (times - ordered[0]) / step
    if away.max() >= _MOST_STEPS:
        raise TraceError(
            f"{path}: column t of series {name} spans {away.max():.0f} steps of {step:g} s, more than {_MOST_STEPS}; "
            "cut it or resample it"
        )
    places = np.rint(away).astype(np.int64)
    off = np.abs(places - away) > 0.01
    if off.any():
        raise TraceError(
            f"{path}: column t of series {name} is off the grid of {step:g} s at {times[off][0]:g}; resample it evenly"
        )
    return step, places


def _runs(
    path: Path, table: "pyarrow.Table", memory: list[Series], cores: dict[str, Floats], row_of: dict[str, int]
) -> tuple[Run, ...]:
    """The series as runs of jobs, where the file says which they are."""
    if "task" not in table.column_names or not memory:
        return ()
    tasks, numbers = _text(path, table, "task"), _numbers(path, table, "run")
    runs = []
    for one in memory:
        is_known = np.isfinite(one.values)
        used = one.values[is_known]
        beside = cores.get(one.name)
        row = row_of[one.name]
        if not np.isfinite(numbers[row]):
            raise TraceError(f"{path}: column run of series {one.name} has no number; number the runs of a task")
        if len(used):
            own = None if beside is None else beside[is_known]
            runs.append(Run(f"{path.stem}/{tasks[row]}", int(numbers[row]), one.step_seconds, used, own))
    return tuple(runs)
