"""Recorded runs of jobs in a simulated cluster, with all three parts of elastipod at work at their defaults.

Owns who starts one run after the other, as a CronJob does, each with the size that the webhook would give it, and adds
up what its pods reserve. The parts are the real ones; time, node and kernel are elastipod.localcluster.simulation's.
"""

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
import numpy as np

from elastipod.api import resources
from elastipod.cli.simulating import make_actuator, make_recommender, make_updater
from elastipod.kube.listing import list_rows
from elastipod.kube.podrows import decode_pod
from elastipod.kube.resources import AUTOSCALERS, CRON_JOBS, ELASTIC_POLICIES, JOBS, NAMESPACES, PODS, ResourceType
from elastipod.kube.rows import decode_autoscaler
from elastipod.localcluster.node.manifests import USAGE_MODEL
from elastipod.localcluster.node.simulated import SimulatedRuntime
from elastipod.localcluster.simulation.faults import FaultPlan
from elastipod.localcluster.simulation.load import NAMESPACE, SPIKE, LoadSettings, Script
from elastipod.localcluster.simulation.simulation import PartProgram, Simulation, SimulationSettings, Surroundings
from elastipod.pods import Container
from elastipod.quantities import Resources
from recommender.estimators.runs import ENOUGH_RUNS
from recommender.replay.series import Run
from recommender.replay.wholeruns import Told, highest
from recommender.sources.trace import GIB
from updater.settings import UpdaterSettings

NAME = "job"
LOOK_SECONDS = 5.0
BETWEEN_SECONDS = 60.0
"""More than what passes between two runs, on the average."""
KEPT = 3
"""So many Jobs that are over a CronJob keeps."""
MOST_STEPS = 400
"""Of a run's life; each write of its pod is kept with all of them."""


def simulate(runs: Sequence[Run]) -> Told:
    """All runs of a job, one after the other; what those cost that have enough earlier ones."""
    logging.disable(logging.CRITICAL)
    seen = Seen()

    def make_watched_actuator(around: Surroundings) -> Any:
        assert around.runtime is not None
        seen.runtimes.append(around.runtime)
        return make_actuator(around, sweep_seconds=5.0)

    parts = [
        PartProgram("recommender", make_recommender),
        PartProgram("updater", lambda around: make_updater(around, UpdaterSettings())),
        PartProgram("actuator", make_watched_actuator, on_every_node=True),
        PartProgram("owner", lambda around: Owner(around, runs, seen)),
    ]
    seconds = 60.0 + 1.1 * sum(len(run.memory_bytes) * run.step_seconds + BETWEEN_SECONDS for run in runs)
    settings = SimulationSettings(
        nodes=1,
        node_size=Resources(16_000, 128 * 1024**3),
        load=LoadSettings(busy_seconds=seconds),
        settling_seconds=0.0,
        quiet_seconds=0.0,
        faults=FaultPlan(),
    )
    outcome = Simulation(1, parts, settings, script=Script(), invariants=[]).run()
    if outcome.failures or not seen.is_over:
        raise RuntimeError(f"{runs[0].job}: {outcome.failures[:3] or 'not all runs came to their end'}")
    total = Told()
    for place in range(ENOUGH_RUNS, len(runs)):
        total.add(seen.told[place])
    return total


@dataclass
class Seen:
    """What came of each run, by its place."""

    told: dict[int, Told] = field(default_factory=dict)
    runtimes: list[SimulatedRuntime] = field(default_factory=list)
    is_over: bool = False


class Owner:
    """Starts the next run when one is over, and adds up what its pods reserve."""

    name = "owner"
    interval_seconds = LOOK_SECONDS

    def __init__(self, around: Surroundings, runs: Sequence[Run], seen: Seen) -> None:
        self.wake = asyncio.Event()
        self._connection, self._clock = around.connection, around.clock
        self._runs, self._seen = runs, seen
        self._place, self._attempt, self._uid, self._began = -1, 0, "", 0.0
        self._over: list[str] = []
        self._looked_at = around.clock.now()
        cores, memory_bytes = highest(runs)
        self._peak = Resources(round(cores * 1000), round(memory_bytes))

    async def watch(self) -> None:
        await asyncio.Event().wait()

    async def run_once(self) -> None:
        if self._seen.is_over:
            return
        if not self._uid:
            await self._begin()
        before, now = self._looked_at, self._clock.now()
        self._looked_at = now
        pods = await list_rows(self._connection, PODS, decode_pod, namespace=NAMESPACE)
        mine = [pod for pod in pods if pod.name.startswith(f"{self._job_name}-")]
        told = self._seen.told.get(self._place)
        if told is not None:
            for pod in mine:
                one = pod.containers[0]
                began, ended = _life(one, now)
                hours = max(ended - max(began, before), 0.0) / 3600
                told.core_hours += one.requests.cpu / 1000 * hours
                told.gib_hours += one.requests.memory / GIB * hours
                # From its being asked for: what starting a pod takes is in it.
                told.finish_seconds = ended - self._began
            told.holds += sum(len(runtime.holds()) for runtime in self._seen.runtimes)
            if any(pod.is_terminal for pod in mine):
                told.resizes += sum(max(pod.generation - 1, 0) for pod in mine)
        if told is not None and not any(pod.is_terminal for pod in mine):
            return
        if told is not None:
            self._over.append(self._job_name)
        if len(self._over) > KEPT:
            await self._connection.delete(JOBS, NAMESPACE, self._over.pop(0))
        if told is not None and any(pod.phase == "Failed" for pod in mine):
            # The webhook gives the next pod what is recommended then.
            told.kills += 1
            self._attempt += 1
        else:
            self._place, self._attempt = self._place + 1, 0
            self._seen.is_over = self._place == len(self._runs)
            if self._seen.is_over:
                return
            self._seen.told[self._place], self._began = Told(), now
        await self._start(self._runs[self._place])

    @property
    def _job_name(self) -> str:
        return f"{NAME}-{self._place}-{self._attempt}"

    async def _begin(self) -> None:
        await self._create(NAMESPACES, {"metadata": {"name": NAMESPACE}})
        template = {"spec": {"containers": [{"name": "main", "image": "none"}], "restartPolicy": "Never"}}
        spec = {"schedule": "0 0 1 1 *", "suspend": True, "jobTemplate": {"spec": {"template": template}}}
        made = msgspec.json.decode(await self._create(CRON_JOBS, {"metadata": {"name": NAME}, "spec": spec}))
        self._uid = made["metadata"]["uid"]
        target = {"apiVersion": "batch/v1", "kind": "CronJob", "name": NAME}
        scaler = {
            "targetRef": target,
            "updatePolicy": {"updateMode": "InPlace"},
            "recommenders": [{"name": "elastipod"}],
        }
        await self._create(AUTOSCALERS, {"metadata": {"name": NAME}, "spec": scaler})
        policy = {"selector": {"kind": "CronJob", "name": NAME}, "estimator": "Auto"}
        await self._create(ELASTIC_POLICIES, {"metadata": {"name": NAME}, "spec": policy})

    async def _start(self, run: Run) -> None:
        size = await self._size()
        amounts = {"cpu": f"{size.cpu}m", "memory": str(size.memory)}
        container = {"name": "main", "image": "none", "resources": {"requests": amounts, "limits": amounts}}
        annotations = {USAGE_MODEL: msgspec.json.encode(usage_model(run)).decode(), SPIKE: "Pause"}
        template = {
            "metadata": {"annotations": annotations},
            "spec": {"containers": [container], "restartPolicy": "Never", "terminationGracePeriodSeconds": 2},
        }
        owner = {"apiVersion": "batch/v1", "kind": "CronJob", "name": NAME, "uid": self._uid, "controller": True}
        metadata = {"name": self._job_name, "ownerReferences": [owner]}
        await self._create(JOBS, {"metadata": metadata, "spec": {"backoffLimit": 0, "template": template}})

    async def _size(self) -> Resources:
        """What the webhook gives: the target, and where there is none what the owner says, the peak."""
        [scaler] = await list_rows(self._connection, AUTOSCALERS, decode_autoscaler, namespace=NAMESPACE)
        found = scaler.status and scaler.status.recommendation
        wants = (found and found.container_recommendations) or []
        if self._place < ENOUGH_RUNS or not wants:
            return self._peak
        return resources(wants[0].target).or_else(self._peak)

    async def _create(self, resource: ResourceType, body: dict[str, Any]) -> bytes:
        whole = {"apiVersion": resource.api_version, "kind": resource.kind, **body}
        namespace = NAMESPACE if resource.namespaced else None
        return await self._connection.create(resource, namespace, msgspec.json.encode(whole))


def _life(one: Container, now: float) -> tuple[float, float]:
    """When a container began and ended, or now where it runs on; nothing has passed where it has not begun."""
    ended = one.termination
    if ended is not None:
        return ended.started_at or now, ended.finished_at or now
    return one.started_at or now, now


def usage_model(run: Run) -> dict[str, Any]:
    """A run as a simulated container's life: of samples that have to be one step, the most memory and the mean CPU."""
    assert run.cores is not None
    width = -(-len(run.memory_bytes) // MOST_STEPS)
    starts = np.arange(0, len(run.memory_bytes), width)
    memory = np.maximum.reduceat(run.memory_bytes, starts)
    cores = np.add.reduceat(np.nan_to_num(run.cores), starts) / np.diff(np.append(starts, len(run.cores)))
    times = starts * run.step_seconds
    steps = zip(
        times.tolist(), np.rint(cores * 1000).astype(int).tolist(), np.rint(memory).astype(int).tolist(), strict=True
    )
    return {"steps": [list(one) for one in steps], "seconds": len(run.memory_bytes) * run.step_seconds}
