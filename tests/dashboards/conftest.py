"""Prometheus' own tool, which tells what expressions and rules make of series that a test makes up."""

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from elastipod.dashboards.boards import files


@pytest.fixture
def promtool(tmp_path: Path) -> Callable[..., str]:
    """Runs a test over series as promtool notates them, a value a minute or `every` so often, and over the rules of the
    file that has one.

    Nothing, or what it has against it.
    """
    for name, text in files().items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)

    def run(series: dict[str, str], rule: str, *, every: str = "1m", **expected: Any) -> str:
        given = [{"series": name, "values": values} for name, values in series.items()]
        tests = {
            "rule_files": [name for name, text in files().items() if f": {rule}\n" in text],
            "evaluation_interval": every,
            "tests": [{"interval": every, "input_series": given, **expected}],
        }
        (tmp_path / "tests.yaml").write_text(yaml.safe_dump(tests))
        done = subprocess.run(
            ["promtool", "test", "rules", "tests.yaml"], cwd=tmp_path, capture_output=True, text=True, check=False
        )
        return "" if done.returncode == 0 else done.stdout + done.stderr

    return run
