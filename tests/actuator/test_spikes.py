"""When a container is held, when it is raised, and when it is let go."""

from hypothesis import given
from hypothesis import strategies as st

from actuator.spikerules import gap
from actuator.spikes import Phase, SpikeGuard
from actuator.spikewords import Accepted, AskApi, Granted, MemoryReading, Refused, Seen, WantRoom, WriteHigh, WriteLimit
from elastipod.headroom import MIB
from elastipod.reasons import Reason
from tests.actuator.guards import LIMIT, MARK, RULES, at_hold, calm, full, guard, reasons


def test_on_v2_the_spec_is_asked_before_the_cgroup_is_written() -> None:
    one = guard()
    [want] = one.handle(full(), 0.0)
    assert isinstance(want, WantRoom)
    assert one.handle(Granted(want.memory_bytes), 0.0) == [AskApi(LIMIT + want.memory_bytes)]
    raised = LIMIT + want.memory_bytes
    written = one.handle(Accepted(raised), 0.05)
    assert written[:2] == [WriteLimit(raised), WriteHigh(raised - gap(raised, RULES))]
    assert reasons(written) == [Reason.RAISED]


def test_on_v2_the_cgroup_goes_first_only_when_the_api_is_silent() -> None:
    one = guard()
    one.handle(full(), 0.0)
    one.handle(Granted(32 * MIB), 0.0)
    assert one.handle(full(), 0.1) == []
    late = one.next_at
    written = one.handle(full(), late)
    assert WriteLimit(LIMIT + 32 * MIB) in written
    assert late <= RULES.answer_seconds
    assert one.handle(Accepted(LIMIT + 32 * MIB), late + 1) == []


def test_a_stale_event_raises_nothing() -> None:
    assert guard().handle(calm(), 0.0) == []


def test_page_cache_is_no_need_and_is_told_once_a_second() -> None:
    one = guard()
    cache = full(cache=MARK // 2)
    assert reasons(one.handle(cache, 0.0)) == [Reason.PAGE_CACHE]
    assert one.handle(cache, 0.5) == []
    assert reasons(one.handle(cache, 1.1)) == [Reason.PAGE_CACHE]
    assert one.phase is Phase.CALM


def test_a_hold_without_room_ends_at_its_deadline() -> None:
    one = guard()
    one.handle(full(), 0.0)
    assert one.handle(Granted(0), 0.0) == []
    assert [type(found) for found in one.handle(full(), 4.9)] == [WantRoom]
    assert one.next_at == 5.0
    found = one.handle(full(), 5.0)
    assert found[0] == WriteHigh(None)
    assert reasons(found) == [Reason.NODE_BUDGET_EMPTY]
    assert one.handle(full(), 6.0) == []
    assert one.handle(calm(), 7.0) == []
    assert one.phase is Phase.CALM


def test_a_hold_ends_before_the_liveness_probe_kills() -> None:
    one = SpikeGuard(RULES, holds=True, spec_bytes=LIMIT, ceiling_bytes=4 * LIMIT, deadline_seconds=1.6)
    one.handle(full(), 0.0)
    one.handle(Granted(0), 0.0)
    assert one.next_at == 1.6


def test_a_refused_raise_waits_for_the_deadline_and_names_the_reason() -> None:
    one = guard()
    one.handle(full(), 0.0)
    one.handle(Granted(32 * MIB), 0.0)
    one.handle(Refused(Reason.QUOTA_EXCEEDED), 0.1)
    assert reasons(one.handle(full(), 5.0)) == [Reason.QUOTA_EXCEEDED]


def test_nothing_is_raised_above_the_ceiling() -> None:
    one = guard(ceiling=LIMIT + 8 * MIB)
    assert one.handle(full(), 0.0) == [WantRoom(8 * MIB)]
    at_ceiling = guard(ceiling=LIMIT)
    found = at_ceiling.handle(full(), 0.0)
    assert found[0] == WriteHigh(None)
    assert reasons(found) == [Reason.AT_CEILING]


def test_a_leak_is_not_fed_for_ever() -> None:
    one = guard(ceiling=1 << 50, holds=False)
    limit, told = LIMIT, []
    for number in range(5):
        found = one.handle(full(limit, holds=False), number * 60.0)
        told += reasons(found)
        for want in found:
            if isinstance(want, WantRoom):
                one.handle(Granted(want.memory_bytes), number * 60.0)
                limit += want.memory_bytes
        one.handle(Seen(MemoryReading(limit // 2, limit)), number * 60.0 + 1)
    assert told == [Reason.LEAK_SUSPECTED] * 2


def test_steps_of_one_spike_double() -> None:
    one = guard(ceiling=1 << 50, holds=False)
    limit, steps = LIMIT, []
    for number in range(4):
        [want] = one.handle(full(limit, holds=False), number * 0.01)
        assert isinstance(want, WantRoom)
        steps.append(want.memory_bytes)
        one.handle(Granted(want.memory_bytes), number * 0.01)
        limit += want.memory_bytes
    assert [step // steps[0] for step in steps] == [1, 2, 4, 8]


def test_on_v2_a_leap_in_huge_pages_begins_with_the_second_step() -> None:
    [small], [huge] = (guard().handle(at_hold(LIMIT, 0.0, huge=huge), 0.0) for huge in (False, True))
    assert isinstance(small, WantRoom)
    assert huge == WantRoom(2 * small.memory_bytes)


def test_the_hold_follows_the_limit_whoever_changed_it() -> None:
    one = guard()
    assert one.handle(Seen(MemoryReading(0, LIMIT, None)), 0.0) == [WriteHigh(MARK)]
    larger = 2 * LIMIT
    assert one.handle(Seen(MemoryReading(0, larger, MARK)), 1.0) == [WriteHigh(larger - gap(larger, RULES))]


def test_a_spec_that_has_it_already_is_not_asked_again() -> None:
    one = guard()
    one.agreement.spec_bytes = 2 * LIMIT
    one.handle(full(), 0.0)
    assert WriteLimit(LIMIT + 32 * MIB) in one.handle(Granted(32 * MIB), 0.0)


events = st.one_of(
    st.tuples(st.integers(0, 300), st.integers(0, 300), st.none() | st.integers(50, 300)).map(
        lambda drawn: Seen(
            MemoryReading(drawn[0] * MIB, None if drawn[2] is None else drawn[2] * MIB, drawn[1] * MIB, drawn[1] * MIB)
        )
    ),
    st.integers(0, 64).map(lambda number: Granted(number * MIB)),
    st.integers(90, 500).map(lambda number: Accepted(number * MIB)),
    st.just(Refused(Reason.FORBIDDEN)),
)


@given(st.booleans(), st.lists(st.tuples(st.floats(0, 3), events), max_size=40))
def test_no_patch_carries_less_than_was_written_and_no_hold_outlives_its_deadline(
    holds: bool, drawn: list[tuple[float, Seen | Granted | Accepted | Refused]]
) -> None:
    one = guard(holds=holds, ceiling=1 << 50)
    now = 0.0
    for wait, event in drawn:
        now += wait
        before = one.agreement.written_bytes
        for found in one.handle(event, now):
            if isinstance(found, AskApi):
                assert found.limit_bytes >= min(before, one.agreement.written_bytes)
            if isinstance(found, WriteLimit):
                assert found.limit_bytes <= max(one.agreement.written_bytes, one.agreement.spec_bytes)
        if holds and isinstance(event, Seen) and event.reading.limit_bytes is not None:
            assert one.next_at > now or one.phase is Phase.ASKED
