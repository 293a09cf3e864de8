"""Where the node raises, only the hold is written, until the node is late."""

from actuator.spikerules import SpikeRules
from actuator.spikes import SpikeGuard
from actuator.spikewords import Accepted, AskApi, Granted, MemoryReading, Seen, Tell, WantRoom, WriteHigh, WriteLimit
from elastipod.headroom import MIB
from elastipod.reasons import Reason
from tests.actuator.guards import LIMIT, reasons

FULL_FOR_NODE = Seen(MemoryReading(LIMIT * 4 // 5, LIMIT, LIMIT * 4 // 5))
"""At the hold, whose gap is wide."""


def left_to_node(hold_seconds: float = 5.0, seen: Seen = FULL_FOR_NODE) -> tuple[SpikeGuard, int]:
    """A guard whose raise the API accepted at 0.1, and that limit."""
    rules = SpikeRules(node_raises=True, gap_fraction=0.2, hold_seconds=hold_seconds)
    one = SpikeGuard(rules, holds=True, spec_bytes=LIMIT, ceiling_bytes=400 * MIB)
    one.handle(seen, 0.0)
    [asked] = one.handle(Granted(64 * MIB), 0.0)
    assert isinstance(asked, AskApi)
    assert one.handle(Accepted(asked.limit_bytes), 0.1) == []
    return one, asked.limit_bytes


def test_where_the_node_raises_only_the_hold_is_written() -> None:
    one, asked = left_to_node()
    assert one.handle(FULL_FOR_NODE, 0.2) == []
    done = one.handle(Seen(MemoryReading(LIMIT, asked, LIMIT * 4 // 5)), one.next_at)
    assert [found for found in done if not isinstance(found, WriteHigh | Tell)] == [WriteLimit(asked)]
    assert reasons(done) == [Reason.RAISED]


def test_where_the_node_raises_too_late_the_cgroup_goes_first_and_before_the_hold_ends() -> None:
    one, asked = left_to_node()
    assert one.handle(FULL_FOR_NODE, 2.9) == []
    assert WriteLimit(asked) in one.handle(FULL_FOR_NODE, 3.0)


def test_huge_pages_leave_the_node_a_part_of_one_sleep() -> None:
    """Killed after 6.5 s behind a hold of 20 MiB (Linux 6.1), where small pages would have taken minutes."""
    seen = Seen(MemoryReading(LIMIT * 4 // 5, LIMIT, LIMIT * 4 // 5, huge_bytes=2 * MIB))
    one, asked = left_to_node(hold_seconds=30.0, seen=seen)
    assert one.handle(seen, 1.1) == []
    assert WriteLimit(asked) in one.handle(seen, 1.2)


def test_what_the_node_does_not_come_to_is_asked_again_a_little_higher() -> None:
    one, asked = left_to_node(hold_seconds=30.0)
    assert one.handle(FULL_FOR_NODE, 3.0) == []
    assert one.handle(FULL_FOR_NODE, 3.1) == [AskApi(asked + MIB)]
    assert one.handle(FULL_FOR_NODE, 6.5) == []
    one.handle(Accepted(asked + MIB), 7.0)
    assert one.handle(FULL_FOR_NODE, 9.9) == []
    assert one.handle(FULL_FOR_NODE, 10.0) == [AskApi(asked + 2 * MIB)]


def test_what_the_node_does_not_come_to_is_never_asked_above_the_ceiling() -> None:
    one, asked = left_to_node(hold_seconds=30.0)
    one.ceiling_bytes = asked
    assert one.handle(FULL_FOR_NODE, 3.1) == []


def test_what_the_node_put_in_force_is_done_though_more_was_asked_meanwhile() -> None:
    """A node that takes longer for a raise than we wait to ask again was never done: 50 s behind a hold (measured)."""
    one, asked = left_to_node(hold_seconds=30.0)
    assert one.handle(FULL_FOR_NODE, 3.1) == [AskApi(asked + MIB)]
    one.handle(Accepted(asked + MIB), 3.2)
    done = one.handle(Seen(MemoryReading(LIMIT, asked, LIMIT * 4 // 5)), 4.0)
    assert WriteLimit(asked) in done
    assert reasons(done) == [Reason.RAISED]
    # The rest of it is the node's, and nothing of ours is behind.
    assert one.handle(Seen(MemoryReading(LIMIT, asked + MIB, (asked + MIB) * 4 // 5)), 5.0) == []


def test_a_need_for_more_begins_anew_though_the_node_is_behind_what_was_asked_again() -> None:
    one, asked = left_to_node(hold_seconds=30.0)
    one.handle(FULL_FOR_NODE, 3.1)
    one.handle(Accepted(asked + MIB), 3.2)
    one.handle(Seen(MemoryReading(LIMIT, asked, LIMIT * 4 // 5)), 4.0)
    assert any(isinstance(found, WantRoom) for found in one.handle(Seen(MemoryReading(asked, asked)), 4.1))
    [more] = one.handle(Granted(128 * MIB), 4.1)
    assert more == AskApi(asked + 128 * MIB)
