"""Whoever waits for events learns of a hold as long as it lasts."""

from elastipod.clock import LoopClock
from elastipod.localcluster.node.hands import GroupLimits
from elastipod.localcluster.node.runtime import ContainerSpec, Sandbox
from elastipod.localcluster.node.simulated import SimulatedRuntime
from elastipod.localcluster.simulation.virtualtime import run_virtually
from elastipod.pods import QosClass

MEBI = 1024 * 1024


def test_a_hold_that_is_not_lifted_is_told_again_and_one_that_is_lifted_is_not() -> None:
    async def main() -> None:
        runtime = SimulatedRuntime(LoopClock())
        told: list[str] = []
        runtime.on_high = told.append
        spec = ContainerSpec(
            Sandbox("uid", "load", "p", QosClass.BURSTABLE), "main", "abcdef01", 0, (), usage_model='[[0, 10, "64Mi"]]'
        )
        await runtime.start(spec, GroupLimits(), GroupLimits(memory_limit_bytes=128 * MEBI))
        runtime.set_high("abcdef01", 32 * MEBI)
        began = len(told)
        runtime.set_high("abcdef01", 32 * MEBI)
        assert 0 < began < len(told)
        assert [one[0] for one in runtime.holds()] == ["abcdef01"]
        lifted = len(told)
        runtime.set_high("abcdef01", 96 * MEBI)
        assert len(told) == lifted
        runtime.holds()
        assert runtime.holds() == []

    run_virtually(main())
