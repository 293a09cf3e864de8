"""What a process tells of itself."""

import io
import json
import logging
from collections.abc import Generator

import pytest

from elastipod.pods import Workload
from elastipod.telemetry import Metrics, configure_logging, get_logger

HOSTILE = 'a\x1b[31m\n{"level":"error"}\u202eb'


@pytest.fixture
def lines() -> Generator[io.StringIO, None, None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield io.StringIO()
    root.handlers[:] = handlers
    root.setLevel(level)
    for ours in ("elastipod", "recommender", "updater", "actuator"):
        logging.getLogger(ours).setLevel(logging.NOTSET)


def test_a_log_line_is_a_sentence_and_its_fields(lines: io.StringIO) -> None:
    configure_logging("info", stream=lines)
    get_logger("updater.service").info("resize requested", pod="d/web-0", cpu_millicores=250)
    line = json.loads(lines.getvalue())
    assert (line["event"], line["level"], line["pod"], line["cpu_millicores"]) == (
        "resize requested",
        "info",
        "d/web-0",
        250,
    )


def test_what_is_below_the_level_is_not_told(lines: io.StringIO) -> None:
    configure_logging("warning", stream=lines)
    get_logger("updater.service").info("resize requested")
    assert lines.getvalue() == ""


@pytest.mark.parametrize("as_json", [True, False])
def test_no_value_can_forge_a_line_or_move_the_cursor_f78(lines: io.StringIO, as_json: bool) -> None:
    configure_logging("info", as_json=as_json, stream=lines)
    get_logger("updater.service").warning("object left out", key=HOSTILE)
    told = lines.getvalue()
    assert told.count("\n") == 1
    assert "\x1b" not in told
    assert "\u202e" not in told


def test_an_exception_comes_with_its_traceback(lines: io.StringIO) -> None:
    configure_logging("info", stream=lines)
    try:
        raise OSError("disk full")
    except OSError:
        get_logger("actuator.service").exception("run failed", part="actuator")
    assert "disk full" in json.loads(lines.getvalue())["trace"]


def test_of_too_many_workloads_the_last_count_without_their_names() -> None:
    metrics = Metrics()
    counter = metrics.workload_counter("holds", "Holds", "result", most=2)
    for name in ("a", "b", "c", "d", "a"):
        counter.count(Workload("shop", "Job", name), "app", "raised")

    def counted(**names: str) -> float | None:
        labels = {"namespace": "", "workload_kind": "", "workload": "", "container": "", "result": "raised", **names}
        return metrics.registry.get_sample_value("elastipod_workload_holds_total", labels)

    known = {"namespace": "shop", "workload_kind": "Job", "container": "app"}
    assert [counted(**known, workload=name) for name in "abc"] == [2.0, 1.0, None]
    assert counted() == 2.0
