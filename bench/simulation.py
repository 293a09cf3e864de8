"""How fast a simulated hour of a cluster with 1,000 pods passes, all three parts at work.

    python -m bench.simulation [pods] [seconds]

Told in seconds of CPU, which is what it takes on a quiet machine: a simulation waits for nothing. The floor is the
writes of that hour put into the store alone.
"""

import logging
import random
import sys
import time
from dataclasses import replace
from functools import partial
from typing import Final

from bench.figures import Figures
from elastipod.cli.simulating import make_actuator, simulated_parts
from elastipod.localcluster.api.kinds import POD
from elastipod.localcluster.api.store import Store
from elastipod.localcluster.simulation.faults import FaultPlan
from elastipod.localcluster.simulation.load import LoadSettings, Script, draw_script
from elastipod.localcluster.simulation.simulation import Simulation, SimulationSettings
from elastipod.quantities import Resources

GOAL_SECONDS: Final = 60.0
PODS_PER_NODE: Final = 50
PODS_PER_DEPLOYMENT: Final = 10


def run(pods: int, seconds: float) -> tuple[float, int]:
    """Seconds of CPU that the simulated ones took, and how many writes they held."""

    deployments = pods // PODS_PER_DEPLOYMENT
    load = LoadSettings((deployments, deployments), 1, (0, 0), (0, 0), (0, 0), busy_seconds=seconds - 60.0)
    script = draw_script(random.Random(1), load)
    acts = []
    for act in script.acts:
        create = act.create
        if create is not None and "replicas" in create.get("spec", {}):
            create = {**create, "spec": {**create["spec"], "replicas": PODS_PER_DEPLOYMENT}}
        if create is None or create.get("spec", {}).keys().isdisjoint({"hard", "limits"}):
            acts.append(replace(act, create=create))
    settings = SimulationSettings(
        nodes=max(pods // PODS_PER_NODE, 1),
        node_size=Resources(64_000, 64 * 1024**3),
        load=load,
        settling_seconds=30.0,
        quiet_seconds=30.0,
        faults=FaultPlan(),
    )
    # Looking around on every node each second would take most of the time; every event is told in a simulation.
    parts = [
        replace(part, make=partial(make_actuator, sweep_seconds=5.0)) if part.name == "actuator" else part
        for part in simulated_parts()
    ]
    began = time.process_time()
    outcome = Simulation(1, parts, settings, script=Script(acts)).run()
    took = time.process_time() - began
    writes = sum(outcome.writes.values())
    told = f"{len(outcome.violations)} violations, {len(outcome.failures)} failures"
    print(f"{outcome.end_state.running} pods running, {outcome.events} events, {writes} writes, {told}")
    return took, writes


def floor_seconds(writes: int) -> float:
    """The time that the writes alone take."""
    store = Store()
    spec = {"containers": [{"name": "main", "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}}}]}
    began = time.process_time()
    for number in range(writes):
        store.put(POD, {"metadata": {"name": f"pod-{number % 1000}", "namespace": "load"}, "spec": spec})
    return time.process_time() - began


def main() -> int:
    logging.disable(logging.CRITICAL)
    pods = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000
    seconds = float(sys.argv[2]) if len(sys.argv) > 2 else 3_600.0
    took, writes = run(pods, seconds)
    figures = Figures()
    floor = floor_seconds(writes)
    figures.show(
        f"{pods} pods for {seconds:.0f} s, CPU", took, "s", GOAL_SECONDS, floor=floor, of="its writes to the store"
    )
    return figures.exit_code


if __name__ == "__main__":
    sys.exit(main())
