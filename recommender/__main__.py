"""`python -m recommender`: the recommender as a process of its own."""

import sys

from elastipod.process import Program, Surroundings, run_process, run_quickly
from recommender.service import Recommender
from recommender.settings import RecommenderSettings


def _make(around: Surroundings[RecommenderSettings]) -> Recommender:
    return Recommender(around.connection, around.clock, around.settings, metrics=around.metrics, in_thread=True)


def main() -> int:
    """Run until told to stop."""
    program = Program(
        "recommender", RecommenderSettings, _make, elects_leader=True, at_end=Recommender.save, run=run_quickly
    )
    return run_process(program)


if __name__ == "__main__":
    sys.exit(main())
