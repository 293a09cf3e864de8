"""`python -m updater`: the updater as a process of its own."""

import sys

from elastipod.process import Program, Surroundings, run_process, run_quickly
from updater.exposition import Exposition
from updater.service import Updater
from updater.settings import UpdaterSettings


def _make(around: Surroundings[UpdaterSettings]) -> Updater:
    updater = Updater(around.connection, around.clock, around.settings, around.metrics)
    around.metrics.registry.register(Exposition(updater.fleet, updater.attempts, around.clock))
    return updater


def main() -> int:
    """Run until told to stop."""
    return run_process(Program("updater", UpdaterSettings, _make, elects_leader=True, run=run_quickly))


if __name__ == "__main__":
    sys.exit(main())
