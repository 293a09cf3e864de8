"""`python -m recommender`: the recommender as a process."""

import sys
from dataclasses import dataclass

from elastipod.process import ProcessSettings, run_process
from recommender.service import Recommender
from recommender.settings import RecommenderSettings


@dataclass(frozen=True)
class RecommenderProcessSettings(RecommenderSettings, ProcessSettings):
    """Settings of the recommender and of its process."""

    threads: bool = True
    """Compute in a thread of its own, so that the process answers meanwhile."""

    def __post_init__(self) -> None:
        RecommenderSettings.__post_init__(self)
        ProcessSettings.__post_init__(self)


def main() -> int:
    """Run until told to stop; the exit code."""
    return run_process(
        "recommender",
        RecommenderProcessSettings,
        lambda given: Recommender(given.connection, given.clock, given.settings, metrics=given.metrics),
        elects_leader=True,
    )


if __name__ == "__main__":
    sys.exit(main())
