"""`elastipod demo`: its facts as a program reads them, its story as a person does, and that it cleans up."""

import io
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from elastipod.cli.demo.savings import saved
from elastipod.cli.demo.story import Story
from elastipod.clock import ManualClock

GIB = 1024**3


class Terminal(io.StringIO):
    """Text that is kept, by what says it is a terminal."""

    def isatty(self) -> bool:
        return True


def play(report: Path) -> tuple[dict[str, Any], str]:
    """One whole run where pods are simulated: its facts, and what it told."""
    answer = subprocess.run(
        [sys.executable, "-m", "elastipod.cli", "demo", "--simulated", "-o", "json", "--report", str(report)],
        capture_output=True, text=True, timeout=150, check=False,
    )  # fmt: skip
    assert answer.returncode == 0, answer.stderr
    return json.loads(answer.stdout), answer.stderr


def test_the_whole_demo_ends_well_with_the_facts_of_each_act_and_a_report(tmp_path: Path) -> None:
    report = tmp_path / "made" / "report.html"
    facts, told = play(report)
    assert facts["ended_well"]
    assert facts["failures"] == {}
    assert facts["enforcement"] == "simulated"
    assert all(facts[act]["enforcement"] == "simulated" for act in "abcde")
    assert facts["seconds"] < 90

    alone, spike = facts["a"]["without_elastipod"], facts["a"]["with_elastipod"]
    assert (alone["kills"], alone["exit_code"], alone["reason"]) == (1, 137, "OOMKilled")
    assert (spike["kills"], spike["restarts"], spike["exit_code"]) == (0, 0, 0)
    assert spike["output_complete"] is True
    assert len(spike["process_ids_before"]) == 1
    assert spike["process_ids_after"] == spike["process_ids_before"]
    assert spike["container_id_after"] == spike["container_id_before"]
    assert spike["memory_limit_before"] == alone["memory_limit"]
    assert spike["memory_limit_before"] < spike["memory_used_at_most"] <= spike["memory_limit_after"]
    assert 0 < spike["longest_hold_ms"] < 5000

    service = facts["b"]
    assert (service["kills"], service["restarts"], service["same_container"]) == (0, 0, True)
    assert service["process_ids_after"] == service["process_ids_before"] != []
    assert service["cpu_request_after"] * 8 <= service["cpu_request_before"]
    assert service["memory_request_after"] * 8 <= service["memory_request_before"]
    assert service["memory_limit_after"] < service["memory_limit_before"]

    pending = facts["c"]
    assert (pending["kills"], pending["restarts"], pending["pending_pod_exit_code"]) == (0, 0, 0)
    assert pending["seconds_waited"] > 0
    assert pending["process_ids_after"] == pending["process_ids_before"]
    held, gave, back = (pending[f"cpu_requests_{when}"] for when in ("before", "given", "after"))
    donors = [name for name in held if gave[name] < held[name]]
    assert donors
    assert any(back[name] >= held[name] for name in donors)

    waiting = facts["d"]
    assert (waiting["kills"], waiting["restarts"], waiting["same_container"]) == (0, 0, True)
    assert waiting["was_waiting"]
    assert waiting["seconds_waited_after_room"] <= 5
    assert waiting["cpu_request_after"] > waiting["cpu_request_before"]

    assert facts["e"]["cores_saved"] > 0
    assert facts["e"]["gib_saved"] > 0
    assert facts["e"]["money_saved_per_month"] > 0
    assert facts["e"]["report"] == str(report)
    assert f"The report is in {report}" in told
    assert "Deployment/web" in report.read_text("utf-8")
    assert (facts["e"]["jobs_lost_without"], facts["e"]["jobs_lost_with"]) == (1, 0)
    for letter in "abcde":
        assert f"\n({letter}) " in told
    assert "\x1b" not in told


def test_what_was_saved_is_what_the_service_reserves_less() -> None:
    service = {
        "cpu_request_before": 1000,
        "cpu_request_after": 250,
        "memory_request_before": 2 * GIB,
        "memory_request_after": GIB // 2,
    }
    found = saved({"b": service})
    assert found["cores_saved"] == 0.75
    assert found["gib_saved"] == 1.5
    assert found["money_saved_per_month"] > 0
    assert "0.75 cores and 1.50 GiB less reserved" in found["told"][1]


def test_an_act_that_was_not_played_saved_nothing() -> None:
    found = saved({})
    assert (found["cores_saved"], found["gib_saved"], found["money_saved_per_month"]) == (0, 0, 0)


@pytest.mark.parametrize(("stream", "no_colour"), [(io.StringIO(), ""), (Terminal(), "1")])
def test_no_colour_where_nobody_sees_it_or_nobody_wants_it(
    stream: io.StringIO, no_colour: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_COLOR", no_colour)
    story = Story(ManualClock(), stream)
    story.heading("title")
    story.good("well")
    story.bad("ill")
    assert "\x1b" not in stream.getvalue()


def test_a_terminal_gets_colour_and_each_line_its_second(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    clock, stream = ManualClock(), Terminal()
    story = Story(clock, stream)
    clock.advance(12.34)
    story.good("well")
    assert stream.getvalue() == "   12.3s \x1b[32mwell\x1b[0m\n"


def test_the_picture_of_memory_has_one_column_width_however_long_it_was_looked_at() -> None:
    stream = io.StringIO()
    Story(ManualClock(), stream).picture([(number * 1024**2, GIB) for number in range(1000)])
    memory, limit = stream.getvalue().splitlines()
    assert memory.endswith("Mi at most")
    assert limit.count("█") == 60
    Story(ManualClock(), stream).picture([])
