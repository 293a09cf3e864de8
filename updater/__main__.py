"""`python -m updater`: the updater as a process of its own."""

import gc
import sys
from typing import Final

from elastipod.process import Program, Surroundings, run_process, run_quickly
from updater.service import Updater
from updater.settings import UpdaterSettings

_OBJECTS_A_COLLECTION: Final = 10_000
"""Ours hold no cycles, so that the collector, which looks after 700 new ones else, rarely finds anything."""


def _make(around: Surroundings[UpdaterSettings]) -> Updater:
    return Updater(around.connection, around.clock, around.settings, around.metrics)


def main() -> int:
    """Run until told to stop."""
    gc.set_threshold(_OBJECTS_A_COLLECTION)
    program = Program(
        "updater", UpdaterSettings, _make, elects_leader=True, more_metrics=Updater.shown, run=run_quickly
    )
    return run_process(program)


if __name__ == "__main__":
    sys.exit(main())
