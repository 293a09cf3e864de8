"""How far below a limit a hold and a mark stand, and what time that gives."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actuator.spikerules import gap, gap_v1
from actuator.spikes import SpikeGuard
from actuator.spikewords import Granted, WantRoom
from actuator.throttle import seconds_to_kill
from elastipod.headroom import MIB, gap_fraction
from tests.actuator.guards import LIMIT, RULES, full


@pytest.mark.parametrize(
    ("high", "share", "threads", "seconds"),
    [(64, 0.05, 1, 0.7), (64, 0.1, 1, 5.5), (64, 0.2, 1, 43.7), (64, 0.1, 8, 0.7), (64, 0.1, 32, 0.2),
     (128, 0.1, 1, 10.9), (128, 0.2, 8, 10.9), (256, 0.05, 8, 0.3), (256, 0.1, 32, 0.7)],
)  # fmt: skip
def test_the_time_to_the_kill_is_the_kernels(high: int, share: float, threads: int, seconds: float) -> None:
    assert seconds_to_kill(high * MIB, int(high * (1 + share) * MIB), threads) == pytest.approx(seconds, rel=0.2)


@pytest.mark.parametrize(
    ("high", "threads", "share"),
    [(256, 8, 0.057), (1024, 8, 0.036), (4096, 8, 0.03), (256, 64, 0.11), (1024, 64, 0.072)],
)
def test_the_gap_gives_the_wanted_time(high: int, threads: int, share: float) -> None:
    assert gap_fraction(high * MIB, 0.5, threads) == pytest.approx(share, rel=0.06)


@given(st.integers(1, 1 << 40), st.integers(0, 5000))
def test_a_gap_lies_within_a_fifth_and_in_whole_pages(limit: int, tasks: int) -> None:
    found = gap(limit, RULES, tasks)
    assert 0 <= found <= limit * 0.2
    assert found % 4096 == 0
    if limit >= 200 * MIB:
        assert found >= limit * 0.05 - 4096


@given(st.integers(32 * MIB, 1 << 40))
def test_the_ladder_has_the_mark_of_each_limit_that_a_leap_leads_to(limit: int) -> None:
    one = SpikeGuard(RULES, holds=False, spec_bytes=limit, ceiling_bytes=1 << 50)
    rungs = one.ladder(limit, 0.0)
    for rung in rungs:
        assert rung == one.mark(limit)
        [want] = one.handle(full(limit, holds=False), 0.0)
        assert isinstance(want, WantRoom)
        limit += want.memory_bytes
        one.handle(Granted(want.memory_bytes), 0.0)


def test_the_ladder_ends_at_the_ceiling() -> None:
    one = SpikeGuard(RULES, holds=False, spec_bytes=LIMIT, ceiling_bytes=LIMIT)
    assert one.ladder(LIMIT, 0.0) == (LIMIT - gap_v1(LIMIT, RULES),)
