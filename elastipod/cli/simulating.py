"""The three parts, wired into a simulation.

Owns how each is made there: without threads, with waits short enough for a run of minutes.
"""

from dataclasses import replace
from typing import Final

from actuator.settings import ActuatorSettings
from actuator.simulated import simulated_actuator
from elastipod.localcluster.simulation.invariants import CgroupWrite
from elastipod.localcluster.simulation.simulation import PartProgram, Surroundings
from elastipod.loop import Part
from recommender.service import Recommender
from recommender.settings import RecommenderSettings
from updater.service import Updater
from updater.settings import UpdaterSettings

UPDATER_SETTINGS: Final = UpdaterSettings(cool_down_seconds=60.0, settled_seconds=30.0)
ACTUATOR_SETTINGS: Final = ActuatorSettings()


def make_recommender(around: Surroundings) -> Part:
    """The recommender, computing in place."""
    return Recommender(around.connection, around.clock, RecommenderSettings())


def make_updater(around: Surroundings, settings: UpdaterSettings = UPDATER_SETTINGS) -> Part:
    """The updater."""
    return Updater(around.connection, around.clock, settings, spread=around.spread)


def make_actuator(
    around: Surroundings, settings: ActuatorSettings = ACTUATOR_SETTINGS, *, sweep_seconds: float = 1.0
) -> Part:
    """The actuator of one node, over its containers in thought."""
    if around.node is None or around.runtime is None:
        raise ValueError("an actuator needs a node")
    size = around.node

    def on_write(group: str, file: str, value: str) -> None:
        around.on_cgroup_write(CgroupWrite(around.actor, group, file, value))

    return simulated_actuator(
        around.connection,
        around.clock,
        replace(settings, node_name=size.name),
        around.runtime,
        size.allocatable.memory,
        spread=around.spread,
        on_write=on_write,
        sweep_seconds=sweep_seconds,
    )


def simulated_parts(*, elects_leader: bool = True) -> list[PartProgram]:
    """All of elastipod; with or without Leases, whose renewals are a good part of a run."""
    return [
        PartProgram("recommender", make_recommender, elects_leader=elects_leader),
        PartProgram("updater", make_updater, elects_leader=elects_leader),
        PartProgram("actuator", make_actuator, on_every_node=True),
    ]
