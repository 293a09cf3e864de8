"""Without holds (v1) a leap is raised at once, and the API is asked when it is over."""

from actuator.spikerules import gap_v1
from actuator.spikewords import AskApi, Granted, Instruction, MemoryReading, Seen, WriteLimit
from elastipod.headroom import MIB
from tests.actuator.guards import LIMIT, RULES, full, guard, leap


def test_on_v1_a_mark_stands_lower_while_a_leap_goes_on() -> None:
    one = guard(holds=False)
    raised = leap(one)
    assert one.mark(raised) == raised - 2 * gap_v1(raised, RULES)
    for now in (0.0, RULES.settle_seconds):
        one.handle(Seen(MemoryReading(LIMIT, raised)), now)
    assert one.mark(raised) == raised - gap_v1(raised, RULES)


def test_on_v1_the_cgroup_goes_first_and_the_spec_follows_when_the_leap_is_over() -> None:
    one = guard(holds=False)
    one.handle(full(holds=False), 0.0)
    raised = LIMIT + 64 * MIB
    assert one.handle(Granted(64 * MIB), 0.0)[0] == WriteLimit(raised)
    for used, now in ((105, 0.05), (110, 0.2), (112, 0.4)):
        assert one.handle(Seen(MemoryReading(used * MIB, raised)), now) == []
    assert one.next_at < 0.5
    assert one.unasked_bytes == raised
    assert one.handle(Seen(MemoryReading(112 * MIB, raised)), 0.4 + RULES.settle_seconds) == [AskApi(raised)]
    assert one.unasked_bytes == 0


def test_on_v1_a_leap_is_over_when_usage_falls() -> None:
    one = guard(holds=False)
    leap(one)
    assert one.handle(Seen(MemoryReading(10 * MIB, one.agreement.written_bytes)), 0.05) == [
        AskApi(one.agreement.written_bytes)
    ]


def test_on_v1_a_leap_is_taken_for_over_when_it_is_long() -> None:
    one = guard(holds=False)
    leap(one)
    now, used = 0.0, 101
    asked: list[Instruction] = []
    while not asked:
        now, used = now + 0.05, used + 2
        asked = one.handle(Seen(MemoryReading(used * MIB, 1000 * MIB)), now)
    assert RULES.leap_seconds <= now < RULES.leap_seconds + 0.1


def test_on_v1_raises_of_one_leap_are_asked_once() -> None:
    one = guard(holds=False)
    first = leap(one)
    one.handle(full(first, holds=False), 0.1)
    one.handle(Granted(64 * MIB), 0.1)
    assert one.handle(Seen(MemoryReading(first, first + 64 * MIB)), 0.15) == []
    assert one.handle(Seen(MemoryReading(first, first + 64 * MIB)), 0.41) == [AskApi(first + 64 * MIB)]


def test_on_v1_an_older_size_that_the_node_puts_in_force_in_a_leap_is_written_over() -> None:
    one = guard(holds=False)
    first = leap(one)
    assert one.handle(Seen(MemoryReading(LIMIT - MIB, LIMIT)), 0.05)[0] == WriteLimit(first)
