import pytest
from hypothesis import given
from hypothesis import strategies as st

from actuator.budget import Ask, NodeBudget, share_out
from actuator.spikerules import SpikeRules, gap, gap_v1
from actuator.spikes import Phase, SpikeGuard
from actuator.spikewords import (
    Accepted,
    AskApi,
    Granted,
    Instruction,
    MemoryReading,
    Refused,
    Seen,
    Tell,
    WantRoom,
    WriteHigh,
    WriteLimit,
)
from actuator.throttle import seconds_to_kill
from elastipod.headroom import MIB, gap_fraction
from elastipod.reasons import Reason

RULES = SpikeRules()
LIMIT = 100 * MIB
MARK = LIMIT - gap(LIMIT, RULES)


def guard(*, holds: bool = True, ceiling: int = 400 * MIB) -> SpikeGuard:
    return SpikeGuard(RULES, holds=holds, spec_bytes=LIMIT, ceiling_bytes=ceiling)


def full(limit: int = LIMIT, *, high: int | None = None, cache: int = 0, holds: bool = True) -> Seen:
    mark = limit - (gap(limit, RULES) if holds else gap_v1(limit, RULES))
    return Seen(MemoryReading(mark, limit, mark if holds and high is None else high, cache))


FULL_FOR_NODE = Seen(MemoryReading(LIMIT * 4 // 5, LIMIT, LIMIT * 4 // 5))
"""At the hold, whose gap is wide."""


def calm(limit: int = LIMIT) -> Seen:
    return Seen(MemoryReading(limit // 2, limit, limit - gap(limit, RULES)))


def reasons(instructions: list[Instruction]) -> list[Reason]:
    return [one.reason for one in instructions if isinstance(one, Tell)]


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


def test_on_v1_a_mark_stands_lower_while_a_leap_goes_on() -> None:
    one = guard(holds=False)
    raised = leap(one)
    assert one.mark(raised) == raised - 2 * gap_v1(raised, RULES)
    for now in (0.0, RULES.settle_seconds):
        one.handle(Seen(MemoryReading(LIMIT, raised)), now)
    assert one.mark(raised) == raised - gap_v1(raised, RULES)


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
    assert one.handle(Seen(MemoryReading(10 * MIB, one.written_bytes)), 0.05) == [AskApi(one.written_bytes)]


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


def leap(one: SpikeGuard, now: float = 0.0) -> int:
    """A guard that has been given its first step, and the limit it leads to."""
    one.handle(full(holds=one.holds), now)
    one.handle(Granted(64 * MIB), now)
    return LIMIT + 64 * MIB


def raised_once(one: SpikeGuard, now: float = 0.0) -> int:
    """A guard whose first step the API has accepted, and the limit it leads to."""
    raised = leap(one, now)
    if not one.holds:
        assert one.handle(Seen(MemoryReading(LIMIT // 2, raised)), now) == [AskApi(raised)]
    one.handle(Accepted(raised), now)
    return raised


def test_an_older_request_that_the_node_puts_in_force_late_is_written_over_at_once() -> None:
    one = guard(holds=False)
    first = raised_once(one)
    one.handle(full(first, holds=False), 0.3)
    one.handle(Granted(64 * MIB), 0.3)
    second = one.written_bytes
    assert one.next_at <= 0.3 + RULES.look_seconds
    assert one.handle(full(first, holds=False), 0.304) == [WriteLimit(second)]


def test_it_looks_often_only_until_the_node_says_that_what_it_wrote_is_in_force() -> None:
    one = guard(holds=False)
    first = raised_once(one)
    one.handle(Seen(MemoryReading(LIMIT // 2, first)), 0.0)
    assert one.next_at <= RULES.look_seconds
    one.shown(first, first)
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
    one.shown(first, LIMIT)
    one.shown(LIMIT + MIB, LIMIT)
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


def at_hold(limit: int, taken: float, *, high: int = 0, huge: bool = False) -> Seen:
    """With so much of the gap taken."""
    mark = limit - gap(limit, RULES)
    used = mark + int(taken * (limit - mark))
    return Seen(MemoryReading(used, limit, high or mark, huge_bytes=2 * MIB * huge))


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
    one.shown(LIMIT, LIMIT, is_resizing=True)
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
    one.shown(asked.limit_bytes, LIMIT, is_resizing=True)
    assert WriteLimit(asked.limit_bytes) in one.handle(Accepted(asked.limit_bytes), 0.1)


def test_on_v2_a_second_raise_is_written_at_once_when_the_first_is_in_force() -> None:
    one = guard()
    first = raised_once(one)
    one.shown(first, first)
    one.handle(full(first), 0.2)
    [asked] = one.handle(Granted(64 * MIB), 0.2)
    assert isinstance(asked, AskApi)
    assert WriteLimit(asked.limit_bytes) in one.handle(Accepted(asked.limit_bytes), 0.21)


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
    one.spec_bytes = 2 * LIMIT
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
        before = one.written_bytes
        for found in one.handle(event, now):
            if isinstance(found, AskApi):
                assert found.limit_bytes >= min(before, one.written_bytes)
            if isinstance(found, WriteLimit):
                assert found.limit_bytes <= max(one.written_bytes, one.spec_bytes)
        if holds and isinstance(event, Seen) and event.reading.limit_bytes is not None:
            assert one.next_at > now or one.phase is Phase.ASKED


def test_room_goes_to_the_important_first_and_to_equals_alike() -> None:
    asks = [Ask("a", 100, 0), Ask("b", 100, 0), Ask("c", 50, 10)]
    assert share_out(asks, 120) == {"c": 50, "a": 35, "b": 35}
    assert share_out([Ask("a", 10), Ask("b", 100)], 60) == {"a": 10, "b": 50}


@given(st.lists(st.tuples(st.integers(0, 1000), st.integers(-5, 5)), max_size=20), st.integers(0, 3000))
def test_shares_never_exceed_what_is_free_nor_what_was_asked(drawn: list[tuple[int, int]], free: int) -> None:
    asks = [Ask(str(number), amount, priority) for number, (amount, priority) in enumerate(drawn)]
    shares = share_out(asks, free)
    assert sum(shares.values()) <= free
    assert all(0 <= shares[ask.key] <= ask.memory_bytes for ask in asks)


def test_a_grant_counts_until_it_is_used_or_its_time_is_over() -> None:
    budget = NodeBudget(reserve_bytes=100, grant_seconds=10)
    assert budget.free(1000, 0.0) == 900
    budget.take("a", 300, used_bytes=50, now=0.0)
    assert budget.free(1000, 0.0) == 600
    budget.use("a", 150)
    assert budget.free(900, 1.0) == 600
    assert budget.free(900, 10.0) == 800
    budget.take("a", 5000, used_bytes=0, now=20.0)
    assert budget.free(900, 20.0) == 0
    budget.give_back("a")
    assert budget.free(900, 20.0) == 800
