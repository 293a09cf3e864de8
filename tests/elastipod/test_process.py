"""What all processes of elastipod share, tried as a user would start them."""

import subprocess
import sys

import pytest


def _run(module: str, *argv: str, **environ: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", module, *argv],
        capture_output=True,
        text=True,
        timeout=60,
        env={"PATH": "/usr/bin:/bin", "HOME": "/nonexistent", **environ},
        check=False,
    )


@pytest.mark.parametrize("module", ["recommender", "updater", "updater.admission", "actuator"])
def test_help_names_every_setting(module: str) -> None:
    told = _run(module, "--help")
    assert told.returncode == 0
    assert "--interval-seconds" in told.stdout
    assert "--kubeconfig" in told.stdout


@pytest.mark.parametrize(
    ("argv", "environ", "named"),
    [
        (["--interval-seconds", "soon"], {}, "--interval-seconds"),
        ([], {"ELASTIPOD_LOG_LEVEL": "loud"}, "log_level"),
        (["--namespaces", "a,../b"], {}, "namespaces"),
        (["--kubeconfig", "/nonexistent/config"], {}, "/nonexistent/config"),
    ],
)
def test_a_process_that_can_not_start_says_why_in_one_line_and_ends_with_2(
    argv: list[str], environ: dict[str, str], named: str
) -> None:
    told = _run("updater", *argv, **environ)
    assert told.returncode == 2
    assert named in told.stderr
    assert "Traceback" not in told.stderr
    assert len(told.stderr.strip().splitlines()) == 1
