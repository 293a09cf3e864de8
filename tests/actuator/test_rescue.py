"""Who is looked at in a sweep."""

from pathlib import Path

import pytest

from actuator.budget import NodeBudget
from actuator.cgroupfs import CgroupFs
from actuator.kernelmemory import KernelMemory
from actuator.outcomes import Outcome
from actuator.rescue import Rescue
from actuator.spikerules import SpikeRules
from actuator.spikewords import AskApi
from elastipod.clock import ManualClock
from tests.actuator.trees import GROUP, MIB, target, v2_tree


@pytest.mark.parametrize(("used", "closely", "is_seen"), [(10, False, False), (10, True, True), (60, False, True)])
def test_only_who_is_far_from_its_mark_waits_for_a_close_sweep(
    tmp_path: Path, used: int, closely: bool, is_seen: bool
) -> None:
    root = v2_tree(tmp_path / "cg")
    memory, outcomes = KernelMemory(CgroupFs(root)), list[Outcome]()
    usage, limit = root / GROUP / "memory.current", root / GROUP / "memory.max"
    limit.write_text(f"{100 * MIB}\n")
    usage.write_text(f"{used * MIB}\n")
    rescue = Rescue(memory, SpikeRules(), NodeBudget(0), ManualClock(), lambda _key, found: outcomes.append(found))
    memory.open(target())
    rescue.add(target(), 0.0)
    rescue.sweep(rescue.keys, 1.0, closely=True)
    usage.write_text(f"{95 * MIB}\n")
    rescue.sweep(rescue.keys, 2.0, closely=closely)
    assert any(isinstance(one, AskApi) for one in outcomes) is is_seen
    memory.close_all()
