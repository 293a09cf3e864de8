"""Traces are read strictly, and what is wrong with one is told by file and column."""

import re
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import parquet

from recommender.sources.trace import GIB, TraceError, read_trace

GOOD = "series,t,cpu,mem\na,0,1,2\na,60,1.5,2\nb,0,0.5,1\nb,120,0.25,1\nb,60,,1\n"


def written(folder: Path, text: str, name: str = "trace.csv") -> Path:
    file = folder / name
    file.write_text(text)
    return file


def test_a_trace_is_read_by_series_in_the_order_of_time(tmp_path: Path) -> None:
    trace = read_trace(written(tmp_path, GOOD))
    assert [one.name for one in trace.cpu] == ["a", "b"]
    assert trace.cpu[0].values.tolist() == [1.0, 1.5]
    assert trace.cpu[1].values == pytest.approx([0.5, np.nan, 0.25], nan_ok=True)
    assert trace.memory[0].values.tolist() == [2 * GIB, 2 * GIB]
    assert {one.step_seconds for one in trace.cpu} == {60.0}


def test_a_gap_is_not_seen_rather_than_filled(tmp_path: Path) -> None:
    trace = read_trace(written(tmp_path, "series,t,cpu\na,0,1\na,60,1\na,240,1\n"))
    assert np.isfinite(trace.cpu[0].values).tolist() == [True, True, False, False, True]


def test_parquet_and_csv_say_the_same(tmp_path: Path) -> None:
    table = pa.table(
        {
            "series": pa.array(["a", "a", "b"]).dictionary_encode(),
            "t": pa.array([0, 60, 0], pa.int32()),
            "cpu": pa.array([1.0, 1.5, 0.5], pa.float32()),
        }
    )
    parquet.write_table(table, tmp_path / "one.parquet")
    one = read_trace(tmp_path / "one.parquet")
    other = read_trace(written(tmp_path, "series,t,cpu\na,0,1\na,60,1.5\nb,0,0.5\n"))
    assert [(each.name, each.values.tolist()) for each in one.cpu] == [
        (each.name, each.values.tolist()) for each in other.cpu
    ]


def test_runs_of_jobs_are_numbered(tmp_path: Path) -> None:
    text = "series,task,run,t,mem\nx,align,1,0,1\nx,align,1,2,3\ny,align,0,0,2\ny,align,0,2,2\n"
    runs = read_trace(written(tmp_path, text)).runs
    assert sorted((run.job, run.number) for run in runs) == [("trace/align", 0), ("trace/align", 1)]
    assert max(run.memory_bytes.max() for run in runs) == 3 * GIB


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("t,cpu\n0,1\n", "column series is missing"),
        ("series,cpu\na,1\n", "column t is missing"),
        ("series,t,memory\na,0,1\n", "neither a column cpu"),
        ("series,t,cpu\n", "there are no rows"),
        ("series,t,cpu\na,0,-1\n", "column cpu is -1 in row 1"),
        ("series,t,cpu\na,0,inf\n", "column cpu is infinite in row 1"),
        ("series,t,cpu\na,0,much\n", "column cpu is not all numbers"),
        ("series,t,cpu\na,0,1\na,0,2\n", "series a has 0 twice"),
        ("series,t,cpu\na,0,1\na,60,2\na,100,2\n", "off the grid"),
        ("series,t,cpu\na,,1\n", "column t has rows without a time"),
        ("series,t,cpu\na,0,1\na,1,1\na,100000000,1\n", "cut it or resample it"),
        ("series,t,cpu\n,0,1\nb,0,1\n", "column series has rows with an empty name"),
        ("series,t,cpu\na,0,1\na,1,1\na,1e300,1\n", "cut it or resample it"),
        ("", "no csv file that can be read"),
        ("series,t,cpu\na,0,1\na,1,2,3\n", "no csv file that can be read"),
    ],
)
def test_a_refusal_names_file_and_column(tmp_path: Path, text: str, told: str) -> None:
    file = written(tmp_path, text)
    with pytest.raises(TraceError, match=re.escape(told)) as refused:
        read_trace(file)
    assert str(file) in str(refused.value)


def test_a_file_that_is_not_there_or_of_another_kind_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="no such file"):
        read_trace(tmp_path / "none.csv")
    with pytest.raises(TraceError, match=r"\.parquet or a \.csv"):
        read_trace(tmp_path / "trace.pickle")
    with pytest.raises(TraceError, match="no parquet file"):
        read_trace(written(tmp_path, "not parquet", "bad.parquet"))


@given(data=st.binary(max_size=200), suffix=st.sampled_from([".csv", ".parquet"]))
def test_any_bytes_are_read_or_refused(tmp_path_factory: pytest.TempPathFactory, data: bytes, suffix: str) -> None:
    file = tmp_path_factory.mktemp("any") / f"any{suffix}"
    file.write_bytes(data)
    with pytest.raises(TraceError, match="any"):
        read_trace(file)
