"""What is written is not lowered by an older size, and not kept above what somebody else wants."""

import pytest

from actuator.spikerules import gap
from actuator.spikes import SpikeGuard
from actuator.spikewords import Accepted, AskApi, Granted, MemoryReading, Seen, WriteHigh, WriteLimit
from elastipod.headroom import MIB
from elastipod.reasons import Reason
from tests.actuator.guards import LIMIT, RULES, at_hold, full, guard, raised_once, reasons


def test_an_older_request_that_the_node_puts_in_force_late_is_written_over_at_once() -> None:
    one = guard(holds=False)
    first = raised_once(one)
    one.handle(full(first, holds=False), 0.3)
    one.handle(Granted(64 * MIB), 0.3)
    second = one.agreement.written_bytes
    assert one.next_at <= 0.3 + RULES.look_seconds
    assert one.handle(full(first, holds=False), 0.304) == [WriteLimit(second)]


def test_it_looks_often_only_until_the_node_says_that_what_it_wrote_is_in_force() -> None:
    one = guard(holds=False)
    first = raised_once(one)
    one.handle(Seen(MemoryReading(LIMIT // 2, first)), 0.0)
    assert one.next_at <= RULES.look_seconds
    one.agreement.shown(first, first)
    one.handle(Seen(MemoryReading(LIMIT // 2, first)), 0.01)
    assert one.next_at == float("inf")


def test_it_looks_often_only_for_a_while_when_the_node_says_nothing() -> None:
    one = guard(holds=False)
    first = raised_once(one)
    one.handle(Seen(MemoryReading(LIMIT // 2, first)), RULES.force_seconds)
    assert one.next_at == float("inf")


def test_a_limit_that_somebody_lowers_after_the_raise_stays_lowered() -> None:
    one = guard(holds=False)
    first = raised_once(one)
    one.agreement.shown(first, LIMIT)
    one.agreement.shown(LIMIT + MIB, LIMIT)
    assert one.handle(Seen(MemoryReading(LIMIT // 2, LIMIT + MIB)), 0.5) == []


def test_on_v2_a_second_raise_is_left_to_the_node_while_it_has_the_first_to_put_in_force() -> None:
    one = guard()
    first = raised_once(one)
    one.handle(full(first), 0.2)
    [asked] = one.handle(Granted(64 * MIB), 0.2)
    assert isinstance(asked, AskApi)
    assert one.handle(Accepted(asked.limit_bytes), 0.21) == []
    assert one.handle(full(first), one.next_at) == []
    done = one.handle(full(asked.limit_bytes, high=first), 0.4)
    assert WriteHigh(asked.limit_bytes - gap(asked.limit_bytes, RULES)) in done
    assert reasons(done) == [Reason.RAISED]


def behind(*, huge: bool = False) -> tuple[SpikeGuard, int, int]:
    """A guard at its second hold, whose node has the first raise still to put in force; both limits."""
    one = guard()
    first = raised_once(one)
    one.handle(at_hold(first, 0.0, huge=huge), 0.2)
    [asked] = one.handle(Granted(64 * MIB), 0.2)
    assert isinstance(asked, AskApi)
    one.handle(Accepted(asked.limit_bytes), 0.21)
    return one, first, asked.limit_bytes


@pytest.mark.parametrize(("at", "is_written"), [(4.6, False), (4.7, True)])
def test_on_v2_a_second_raise_is_written_shortly_before_the_hold_ends(at: float, is_written: bool) -> None:
    one, first, asked = behind()
    assert (WriteLimit(asked) in one.handle(at_hold(first, 0.0), at)) is is_written


def test_on_v2_a_second_raise_is_written_when_most_of_the_gap_is_taken() -> None:
    one, first, asked = behind()
    assert one.handle(at_hold(first, 0.7), 0.3) == []
    assert WriteLimit(asked) in one.handle(at_hold(first, 0.8), 0.4)


def test_on_v2_a_leap_in_huge_pages_whose_second_raise_waits_for_the_node_is_held_harder_then() -> None:
    """A kubelet that was restarted puts the first raise in force late, onto what the second would have let grow."""
    one, first, _ = behind(huge=True)
    hard = first - first // 5
    assert one.handle(at_hold(first, 0.7, huge=True), 0.3) == []
    [held] = one.handle(at_hold(first, 0.8, huge=True), 0.4)
    assert isinstance(held, WriteHigh)
    assert held.high_bytes == pytest.approx(hard, abs=4096)
    assert one.handle(at_hold(first, 0.8, high=hard, huge=True), 0.5) == []


@pytest.mark.parametrize(
    ("left", "tasks", "at", "is_written"),
    [(400, 1, 1.9, False), (400, 1, 2.1, True), (600, 1, 2.1, False), (600, 2, 1.9, False), (400, 2, 0.3, True)],
)
def test_on_v2_a_second_raise_in_huge_pages_is_written_when_who_is_awake_may_take_what_is_left(
    left: int, tasks: int, at: float, is_written: bool
) -> None:
    """So many KiB. Who came first sleeps for two seconds."""
    one, first, asked = behind(huge=True)
    seen = Seen(MemoryReading(first - left * 1024, first, first * 4 // 5, huge_bytes=2 * MIB, tasks=tasks))
    assert (WriteLimit(asked) in one.handle(seen, at)) is is_written


def test_on_v2_a_raise_is_left_to_the_node_while_it_has_any_older_resize_to_put_in_force() -> None:
    one = guard()
    one.agreement.shown(LIMIT, LIMIT, is_resizing=True)
    one.handle(full(), 0.0)
    [asked] = one.handle(Granted(64 * MIB), 0.0)
    assert isinstance(asked, AskApi)
    assert one.handle(Accepted(asked.limit_bytes), 0.1) == []
    assert reasons(one.handle(full(asked.limit_bytes, high=LIMIT), 0.2)) == [Reason.RAISED]


def test_on_v2_a_raise_is_written_at_once_when_what_is_under_way_is_the_raise_itself() -> None:
    one = guard()
    one.handle(full(), 0.0)
    [asked] = one.handle(Granted(64 * MIB), 0.0)
    assert isinstance(asked, AskApi)
    one.agreement.shown(asked.limit_bytes, LIMIT, is_resizing=True)
    assert WriteLimit(asked.limit_bytes) in one.handle(Accepted(asked.limit_bytes), 0.1)


def test_on_v2_a_second_raise_is_written_at_once_when_the_first_is_in_force() -> None:
    one = guard()
    first = raised_once(one)
    one.agreement.shown(first, first)
    one.handle(full(first), 0.2)
    [asked] = one.handle(Granted(64 * MIB), 0.2)
    assert isinstance(asked, AskApi)
    assert WriteLimit(asked.limit_bytes) in one.handle(Accepted(asked.limit_bytes), 0.21)
