"""`elastipod replay`: what it prints, writes and refuses."""

import json
import math
from pathlib import Path

import pytest
from typer.testing import CliRunner

from elastipod.cli.verbs import command


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    """Two containers for six hours, in steps of 5 minutes."""
    lines = ["series,t,cpu,mem"]
    for name, level in (("web", 1.0), ("<b>db", 3.0)):
        for step in range(72):
            cpu = level * (1.0 + 0.5 * math.sin(step / 6))
            lines.append(f"{name},{step * 300},{cpu:.4f},{level + step / 200:.4f}")
    file = tmp_path / "usage.csv"
    file.write_text("\n".join(lines) + "\n")
    return file


@pytest.fixture
def jobs(tmp_path: Path) -> Path:
    """Seven runs of one job, alike but for their size."""
    lines = ["series,task,run,t,mem"]
    for run in range(7):
        lines += [f"r{run},align,{run},{step * 2},{(1 + run / 50) * (1 + step / 60):.4f}" for step in range(60)]
    file = tmp_path / "jobs.csv"
    file.write_text("\n".join(lines) + "\n")
    return file


def test_every_rule_has_a_row_with_its_score(trace: Path) -> None:
    answer = CliRunner().invoke(command(), ["replay", str(trace), "-o", "json"])
    assert answer.exit_code == 0, answer.output
    rows = json.loads(answer.stdout)["series"]
    assert {row["rule"] for row in rows if row["resource"] == "memory"} >= {"vpa", "krr", "autopilot", "auto", "apart"}
    assert {row["rule"] for row in rows if row["resource"] == "cpu"} >= {"vpa", "tight", "calm", "quantile-p95"}
    oracle = next(row for row in rows if row["rule"] == "oracle-24h")
    assert oracle["kills_a_day"] == 0
    assert next(row for row in rows if row["rule"] == "oracle-1h")["kills_a_day"] is None
    assert oracle["reserved_hours"] > oracle["used_hours"] > 0


def test_only_the_rules_that_are_named_are_played(trace: Path) -> None:
    answer = CliRunner().invoke(command(), ["replay", str(trace), "--rules", "vpa,peak-1h"])
    assert answer.exit_code == 0, answer.output
    assert answer.stdout.split("\n")[0].split()[:3] == ["SOURCE", "RESOURCE", "RULE"]
    assert [line.split()[:3] for line in answer.stdout.splitlines()[1:]] == [
        ["usage", "cpu", "vpa"],
        ["usage", "cpu", "peak-1h"],
        ["usage", "memory", "vpa"],
    ]


def test_jobs_are_scored_by_run(jobs: Path) -> None:
    answer = CliRunner().invoke(command(), ["replay", str(jobs), "-o", "json"])
    assert answer.exit_code == 0, answer.output
    rows = {row["rule"]: row for row in json.loads(answer.stdout)["jobs"]}
    assert rows["vpa"]["runs"] == 2
    assert rows["ours"]["waste"] < rows["vpa"]["waste"]


def test_where_there_is_nothing_to_measure_there_is_no_figure(tmp_path: Path) -> None:
    file = tmp_path / "short.csv"
    file.write_text("series,t,mem\na,0,1\na,60,1\n")
    answer = CliRunner().invoke(command(), ["replay", str(file), "--rules", "vpa", "-o", "json"])
    assert answer.exit_code == 0, answer.output
    assert [row["slack"] for row in json.loads(answer.stdout)["series"]] == [None]


def test_the_page_has_pictures_escapes_names_and_needs_no_network(trace: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    answer = CliRunner().invoke(command(), ["replay", str(trace), "--rules", "vpa,krr", "--html", str(page)])
    assert answer.exit_code == 0, answer.output
    text = page.read_text()
    assert text.count("<svg") == 4
    assert "<b>db" not in text
    assert "http" not in text.replace("http-equiv", "")
    assert "<script" not in text


def test_what_can_not_be_read_or_is_no_rule_is_refused_by_name(trace: Path, tmp_path: Path) -> None:
    for words, told in (
        ([str(tmp_path / "none.csv")], "none.csv: there is no such file"),
        ([str(trace), "--rules", "vpn"], "--rules: there is no rule 'vpn'; there are vpa, krr"),
    ):
        answer = CliRunner().invoke(command(), ["replay", *words])
        assert answer.exit_code == 1
        assert told in answer.stderr
