"""Whatever fails in whatever order, the invariants hold, and the end is as it would have been."""

import pytest

from elastipod.cli.simulating import simulated_parts
from elastipod.localcluster.faults import FaultPlan
from elastipod.localcluster.simulation import Outcome, Simulation, SimulationSettings

SEEDS = 300
CHUNK = 10
LEAST_EVENTS = 100


def simulated(seed: int, faults: FaultPlan | None = None) -> Outcome:
    parts = simulated_parts(elects_leader=seed % 3 == 0)
    return Simulation(seed, parts, SimulationSettings(faults=faults)).run()


@pytest.mark.parametrize("first", range(0, SEEDS, CHUNK))
def test_invariants_hold_and_the_world_comes_to_rest(first: int) -> None:
    faults = 0
    for seed in range(first, first + CHUNK):
        outcome = simulated(seed)
        assert outcome.failures == [], f"seed {seed}"
        assert outcome.violations == [], f"seed {seed}: " + "; ".join(str(one) for one in outcome.violations[:5])
        assert outcome.events >= LEAST_EVENTS, f"seed {seed} is too quiet to count"
        faults += sum(outcome.fault_counts.values())
    assert faults >= 3 * CHUNK


@pytest.mark.parametrize("seed", [3, 17, 44, 101])
def test_a_seed_means_the_same_run_byte_for_byte(seed: int) -> None:
    once, again = simulated(seed), simulated(seed)
    assert once.trace == again.trace
    assert simulated(seed + 1).trace != once.trace


@pytest.mark.parametrize("seed", range(6))
def test_without_faults_all_is_well(seed: int) -> None:
    outcome = simulated(seed, FaultPlan())
    assert (outcome.failures, outcome.violations) == ([], [])
