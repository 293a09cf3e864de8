"""What a node can give is shared out once."""

from hypothesis import given
from hypothesis import strategies as st

from actuator.budget import Ask, NodeBudget, share_out


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
