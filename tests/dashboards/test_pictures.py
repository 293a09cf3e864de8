"""The boards are drawn, and whoever lacks what that takes is told at once."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.dashboards.pictures import draw, page

Json = dict[str, Any]


def test_what_is_missing_to_draw_the_boards_is_named_and_nothing_is_written(tmp_path: Path) -> None:
    words = [sys.executable, "-m", "tests.dashboards.pictures", str(tmp_path / "pictures")]
    root = Path(__file__).parents[2]
    done = subprocess.run(
        words, cwd=root, env={"PATH": str(tmp_path)}, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 1
    assert done.stderr == "no pictures: prometheus and promtool not installed; no Chromium is installed\n"
    assert not list(tmp_path.iterdir())


def panel(kind: str, place: int, *series: Json, **more: Any) -> Json:
    at = {"x": 0, "y": 8 * place, "w": 12, "h": 8}
    return {"type": kind, "title": kind, "at": at, "unit": "bytes", "series": list(series), **more}


@pytest.mark.browser
async def test_every_kind_of_panel_is_drawn_without_a_word_of_the_console(tmp_path: Path) -> None:
    flat = {"labels": {"workload": "</script>"}, "name": "flat", "values": [0.0, 0.0, 0.0]}
    broken = {"labels": {}, "name": "broken", "values": [-3e9, None, 5e9]}
    number = {"labels": {"workload": "web"}, "name": "one", "value": 7.0}
    panels = [
        panel("row", 0),
        panel("timeseries", 1, flat, broken, times=[1.0, 2.0, 5.0]),
        panel("timeseries", 2, {**flat, "values": [1.0]}, times=[1.0]),
        panel("timeseries", 3, times=[]),
        panel("stat", 4, number, times=[]),
        panel("table", 5, number, times=[]),
    ]
    await draw(tmp_path, {"board": page(panels, [[2.0, "darkorange"]])})
    assert [one.name for one in tmp_path.iterdir()] == ["board.webp"]
    assert (tmp_path / "board.webp").read_bytes()[8:12] == b"WEBP"
