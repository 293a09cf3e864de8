"""The command as a whole: what becomes of an error is one line that says what to do, and an exit code."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from elastipod import __version__
from elastipod.cli.verbs import command
from tests.cli.cluster import Cluster, write_kubeconfig

VERBS = ["recommend", "explain", "status", "resize", "demo", "local"]
READING = [["recommend"], ["explain", "web"], ["status"], ["resize", "web", "--cpu", "1"]]


def call(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    own = {key: value for key, value in os.environ.items() if key != "KUBECONFIG" and "KUBERNETES" not in key}
    return subprocess.run(
        [sys.executable, "-m", "elastipod.cli", *words],
        env={**own, **environment}, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip


def assert_one_line(answer: subprocess.CompletedProcess[str], *wanted: str) -> None:
    assert answer.returncode == 1
    assert answer.stdout == ""
    assert answer.stderr.startswith("error: ")
    assert answer.stderr.count("\n") == 1, answer.stderr
    for word in wanted:
        assert word in answer.stderr


@pytest.mark.parametrize("words", READING)
def test_a_kubeconfig_that_is_missing_is_named(tmp_path: Path, words: list[str]) -> None:
    assert_one_line(call(*words, "--kubeconfig", str(tmp_path / "gone")), str(tmp_path / "gone"))


def test_where_no_cluster_is_configured_the_ways_to_do_so_are_told(tmp_path: Path) -> None:
    assert_one_line(
        call("status", HOME=str(tmp_path)), "--kubeconfig", "KUBECONFIG", str(tmp_path / ".kube" / "config")
    )


def test_a_context_that_is_missing_is_named_with_those_that_are_there(tmp_path: Path) -> None:
    path = write_kubeconfig(tmp_path / "config", "http://127.0.0.1:9")
    assert_one_line(call("status", "--context", "gone", KUBECONFIG=str(path)), "'gone'", "other, test")


def test_a_server_that_does_not_answer_is_named(tmp_path: Path) -> None:
    path = write_kubeconfig(tmp_path / "config", "http://127.0.0.1:9")
    assert_one_line(call("recommend", KUBECONFIG=str(path)), "127.0.0.1:9")


@pytest.mark.parametrize("content", ["[not", "- a\n- list", "clusters: 5", "\x1b[31m: \x1b]0;title\x07"])
def test_a_kubeconfig_that_is_none_is_refused_by_name(tmp_path: Path, content: str) -> None:
    path = tmp_path / "config"
    path.write_text(content, "utf-8")
    answer = call("status", "--kubeconfig", str(path))
    assert_one_line(answer, str(path))
    assert "\x1b" not in answer.stderr


def test_an_unknown_pod_is_one_line_that_can_not_move_the_cursor(cluster: Cluster) -> None:
    answer = call("explain", "we\x1b[2Jb\u202e", KUBECONFIG=str(cluster.kubeconfig))
    assert_one_line(answer, "not found", "\\x1b[2J")
    assert answer.stderr.rstrip("\n").isprintable()


@pytest.mark.parametrize(
    "words", [["status", "-o", "xml"], ["explain"], ["resize", "web"], ["nonsense"], ["recommend", "--no-such"]]
)
def test_wrong_usage_ends_with_2(words: list[str]) -> None:
    answer = CliRunner().invoke(command(), words)
    assert answer.exit_code == 2
    assert "Traceback" not in answer.output


@pytest.mark.parametrize("verb", VERBS)
def test_each_verb_has_a_help_that_says_what_it_does(verb: str) -> None:
    answer = CliRunner().invoke(command(), [verb, "--help"])
    assert answer.exit_code == 0
    assert "\x1b" not in answer.output


def test_the_help_names_each_verb() -> None:
    answer = CliRunner().invoke(command(), ["--help"])
    assert answer.exit_code == 0
    assert all(verb in answer.output for verb in VERBS)


def test_the_version_is_told() -> None:
    assert CliRunner().invoke(command(), ["--version"]).output == f"elastipod {__version__}\n"


def test_a_reader_that_goes_away_is_no_crash(cluster: Cluster) -> None:
    cluster.add_web()
    process = subprocess.Popen(
        [sys.executable, "-m", "elastipod.cli", "recommend", "-o", "json"],
        env={**os.environ, "KUBECONFIG": str(cluster.kubeconfig)},
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    assert process.stdout is not None
    process.stdout.close()
    process.stdout = None
    _, errors = process.communicate(timeout=30)
    assert b"Traceback" not in errors


@pytest.mark.parametrize(
    ("words", "missing"),
    [
        (["explain", "web", "--kubeconfig", "/no/such"], ""),
        (["recommend", "--kubeconfig", "/no/such"], ""),
        (["report", "--prometheus", "http://127.0.0.1:1"], "numpy"),
        (["replay", "no-such-file"], "numpy"),
        (["demo"], "numpy"),
        (["local", "up", "--simulated", "--foreground"], "jsonpatch"),
    ],
)
def test_a_verb_needs_only_what_it_uses_and_names_what_is_not_installed(
    tmp_path: Path, words: list[str], missing: str
) -> None:
    absent = ("numpy", "sklearn", "prometheus_api_client", "jsonpatch", "cryptography", "pyarrow", "uvloop")
    script = f"import sys; sys.modules.update(dict.fromkeys({absent})); from elastipod.cli.main import run; run()"
    answer = subprocess.run(
        [sys.executable, "-c", script, *words],
        env={"PATH": os.environ["PATH"], "XDG_STATE_HOME": str(tmp_path)},
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert_one_line(answer, f"{missing} is not installed" if missing else "/no/such can not be read")
