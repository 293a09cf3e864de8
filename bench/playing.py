"""Recorded traces played for a page of the docs: who plays them, and where what was found is written.

Owns the processes, the words for a folder without traces, and the files. What is played is each benchmark's matter.
"""

import json
import sys
from collections.abc import Iterable
from concurrent.futures import Future, ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from elastipod.clock import SystemClock

_ROOT = Path(__file__).parent.parent


class Playing:
    """One benchmark's; its name is that of its page and of its goal in the Makefile."""

    def __init__(self, name: str, folder: Path) -> None:
        self._name, self._folder = name, folder
        self._clock = SystemClock()
        self._began = self._clock.now()

    def has_all(self, wanted: Iterable[str]) -> bool:
        """Whether all these traces are in the folder; what lacks is said on stderr."""
        missing = [f"{one}.parquet" for one in wanted if not (self._folder / f"{one}.parquet").is_file()]
        if missing:
            sys.stderr.write(
                f"{self._folder}: there is no {', '.join(missing)}; "
                f"name the folder with the traces: make {self._name} TRACES=/where/they/are\n"
            )
        return not missing

    def players(self) -> ProcessPoolExecutor:
        """Two at a time, a process per task: what one of them needs for a moment is not counted as another's."""
        return ProcessPoolExecutor(max_workers=2, max_tasks_per_child=1, mp_context=get_context("spawn"))

    def rows_of(self, tasks: Iterable["Future[list[dict[str, Any]]]"]) -> list[dict[str, Any]]:
        """What each task found of its source, in their order; told as it comes."""
        rows: list[dict[str, Any]] = []
        for task in tasks:
            rows += task.result()
            print(f"{rows[-1]['source']} {rows[-1]['resource']} played, {self._seconds:.0f} s", flush=True)
        return rows

    def write(self, facts: dict[str, Any], page: str) -> None:
        """The page into docs, and the facts it was made of into build."""
        build = _ROOT / "build"
        build.mkdir(exist_ok=True)
        (build / f"{self._name}.json").write_text(json.dumps(facts, indent=1) + "\n")
        (_ROOT / "docs" / f"{self._name}.md").write_text(page)
        print(f"wrote docs/{self._name}.md and build/{self._name}.json in {self._seconds:.0f} s")

    @property
    def _seconds(self) -> float:
        return self._clock.now() - self._began
