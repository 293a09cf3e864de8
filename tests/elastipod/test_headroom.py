"""A limit that is lowered stays clear of the mark at which it would be raised."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elastipod.headroom import MIB, NEAR, gap, gap_v1, is_clear, least_limit


@given(st.integers(0, 1 << 42), st.integers(1, 5_000))
def test_what_is_in_use_stays_below_the_mark_of_the_least_limit(used: int, tasks: int) -> None:
    limit = least_limit(used)
    mark = limit - max(gap(limit, tasks=tasks), gap_v1(limit))
    assert used < NEAR * mark or used == 0


@given(st.integers(1, 1 << 42))
def test_the_least_limit_is_the_lowest_to_a_page(used: int) -> None:
    assert not is_clear(least_limit(used) - 4096, used)


@given(st.integers(0, 1 << 42), st.integers(0, 1 << 42))
def test_more_in_use_needs_no_lower_limit(one: int, other: int) -> None:
    assert least_limit(min(one, other)) <= least_limit(max(one, other))


@pytest.mark.parametrize(
    ("used", "most"), [(20 * MIB, 1.4), (50 * MIB, 1.4), (200 * MIB, 1.25), (1024 * MIB, 1.15), (16_384 * MIB, 1.09)]
)
def test_the_room_above_usage_is_modest(used: int, most: float) -> None:
    assert used * 1.08 < least_limit(used) < used * most
