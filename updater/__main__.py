"""`python -m updater`: the updater as a process of its own."""

import gc
import sys
from typing import Final

from elastipod.process import Program, Surroundings, run_process, run_quickly
from updater.exposition import Exposition
from updater.service import Updater
from updater.settings import UpdaterSettings

_OBJECTS_A_COLLECTION: Final = 10_000
"""Ours hold no cycles, so that the collector, which looks after 700 new ones else, rarely finds anything."""


def _make(around: Surroundings[UpdaterSettings]) -> Updater:
    updater = Updater(around.connection, around.clock, around.settings, around.metrics)
    around.metrics.registry.register(Exposition(updater.fleet, updater.attempts, around.clock))
    return updater


def main() -> int:
    """Run until told to stop."""
    gc.set_threshold(_OBJECTS_A_COLLECTION)
    return run_process(Program("updater", UpdaterSettings, _make, elects_leader=True, run=run_quickly))


if __name__ == "__main__":
    sys.exit(main())
