"""A history that is found saved late, and what was heard meanwhile."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recommender.history import ContainerHistory, History
from recommender.joining import joined
from recommender.oom import OomEvidence
from tests.recommender.test_history import DAY, HOUR, MI, SETTINGS, START, use

_HALF_LIFE = SETTINGS.half_life_seconds


def heard(first: int, last: int, *, memory: float = math.nan) -> ContainerHistory:
    """A sample an hour, from hour to hour."""
    history = History(SETTINGS)
    for hour in range(first, last):
        use(history, "p", START + hour * HOUR, cpu=0.1 + hour % 7, memory=memory)
    return history.export(0)


def weight(history: ContainerHistory) -> float:
    """Of CPU, as it counts at the start."""
    assert history.cpu is not None
    return history.cpu.total * 2.0 ** ((history.cpu.reference_at - START) / _HALF_LIFE)


@given(before=st.integers(1, 40), gap=st.integers(0, 100), since=st.integers(1, 40))
def test_what_lies_one_after_the_other_is_summed_and_once_only(before: int, gap: int, since: int) -> None:
    saved, ours = heard(0, before), heard(before + gap, before + gap + since)
    both = joined(saved, ours, _HALF_LIFE)
    assert both.samples == before + since
    assert (both.first_sample_at, both.last_sample_at) == (saved.first_sample_at, ours.last_sample_at)
    assert weight(both) == pytest.approx(weight(saved) + weight(ours), rel=1e-5)
    assert joined(ours, saved, _HALF_LIFE) == both
    assert joined(saved, both, _HALF_LIFE) == both


def test_without_a_gap_it_is_as_if_nothing_had_been_between() -> None:
    both, whole = joined(heard(0, 30), heard(30, 50), _HALF_LIFE), heard(0, 50)
    assert both.cpu is not None
    assert whole.cpu is not None
    assert [bucket for bucket, _ in both.cpu.weights] == [bucket for bucket, _ in whole.cpu.weights]
    assert weight(both) == pytest.approx(weight(whole), rel=1e-5)


@pytest.mark.parametrize(("saved", "ours"), [((5, 20), (0, 30)), ((0, 20), (0, 30)), ((0, 30), (0, 30))])
def test_what_ours_goes_beyond_adds_nothing(saved: tuple[int, int], ours: tuple[int, int]) -> None:
    assert joined(heard(*saved), heard(*ours), _HALF_LIFE) == heard(*ours)


def test_of_two_that_overlap_the_longer_counts() -> None:
    assert joined(heard(0, 30), heard(25, 40), _HALF_LIFE) == heard(0, 30)
    assert joined(heard(0, 10), heard(5, 40), _HALF_LIFE) == heard(5, 40)


def test_nothing_is_lost_to_an_empty_one() -> None:
    assert joined(heard(0, 5), ContainerHistory(), _HALF_LIFE) == heard(0, 5)
    assert joined(ContainerHistory(), heard(0, 5), _HALF_LIFE) == heard(0, 5)


def test_the_running_window_is_the_later_ones_and_the_memory_that_of_both() -> None:
    saved, ours = heard(0, 5, memory=300 * MI), heard(72, 75, memory=100 * MI)
    both = joined(saved, ours, _HALF_LIFE)
    assert both.windows == ours.windows
    assert both.memory is not None
    assert len(both.memory.weights) == 2


def test_the_higher_floor_stays_and_no_kill_counts_again() -> None:
    old = OomEvidence(600.0 * MI, 500.0 * MI, START - DAY, 2, 0, ("a", "b"))
    new = OomEvidence(200.0 * MI, 150.0 * MI, START, 1, 0, ("c",))
    for saved, ours in ((old, new), (new, old)):
        both = joined(ContainerHistory(oom=saved), ContainerHistory(oom=ours), _HALF_LIFE).oom
        assert (both.floor_bytes, both.proven_bytes, both.at, both.kills) == (600.0 * MI, 500.0 * MI, START, 3)
        assert set(both.kill_ids) == {"a", "b", "c"}
