"""Models of the fleet are fitted while the recommender goes on, and a fit that fails leaves those at hand."""

import numpy as np
import pytest

from recommender.estimators.histogram import Estimate, Estimates
from recommender.estimators.peaks import HOUR
from recommender.estimators.quantile import FEATURES, Lessons
from recommender.fitting import Fitting
from recommender.speaking import Speaking


def learned(lessons: int = 1200) -> Speaking:
    """A fleet that has shown so much."""
    speaking = Speaking()
    speaking.want(0, kills_elsewhere=False)
    unknown = Estimate(np.full((1, 3), np.nan))
    speaking.turn(Estimates(unknown, unknown, np.zeros(1)), np.zeros(1), 0.0)
    random = np.random.default_rng(0)
    growth = np.exp(random.normal(size=lessons))
    speaking.lessons.take(random.normal(size=(lessons, FEATURES)).astype(np.float32), np.ones(lessons), growth)
    return speaking


async def test_nothing_is_fitted_before_it_is_time() -> None:
    speaking = learned()
    await Fitting(speaking, in_thread=False).run(HOUR)
    assert speaking.models is None


async def test_without_threads_a_fit_is_done_when_the_run_is() -> None:
    speaking = learned()
    await Fitting(speaking, in_thread=False).run(4 * HOUR)
    assert speaking.models is not None
    assert not speaking.is_fit_due(5 * HOUR)


async def test_in_a_thread_the_recommender_goes_on_and_takes_the_models_up_when_they_are_there() -> None:
    speaking = learned()
    fitting = Fitting(speaking, in_thread=True)
    await fitting.run(4 * HOUR)
    assert speaking.models is None
    await fitting.finished()
    await fitting.run(4 * HOUR + 60.0)
    assert speaking.models is not None


async def test_too_little_to_learn_from_is_looked_at_again_in_an_hour() -> None:
    speaking = learned(lessons=10)
    await Fitting(speaking, in_thread=False).run(4 * HOUR)
    assert speaking.models is None
    assert not speaking.is_fit_due(4.9 * HOUR)
    assert speaking.is_fit_due(5.1 * HOUR)


class Broken(Lessons):
    """Lessons that nothing can be made of."""

    def copy(self) -> Lessons:
        return self

    def fit(self, *_: object) -> None:
        raise MemoryError("no memory to fit in")


@pytest.mark.parametrize("in_thread", [False, True])
async def test_a_fit_that_fails_leaves_the_models_at_hand(*, in_thread: bool) -> None:
    speaking = learned()
    fitting = Fitting(speaking, in_thread=in_thread)
    await Fitting(speaking, in_thread=False).run(4 * HOUR)
    models = speaking.models
    speaking.lessons = Broken()
    await fitting.run(40 * HOUR)
    await fitting.finished()
    await fitting.run(40 * HOUR)
    assert speaking.models is models is not None
    assert speaking.is_fit_due(41.1 * HOUR)
