"""Past usage in steps of five minutes, as whoever replays it wants it.

Owns how amounts of any resolution become steps. Whose amounts they are, and what is replayed, is others' matter.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from recommender.histogram import Floats

STEP: Final = 300.0
"""What is used is looked at in steps of so long."""


@dataclass(frozen=True, slots=True, eq=False)
class UseInSteps:
    """The most that a container's pods used in each step: a line for CPU in cores and one for memory in bytes."""

    ends_at: float
    """When the last step ends; a whole number of steps."""
    used: NDArray[np.float32]
    """NaN where nothing is known."""

    @classmethod
    def nothing(cls, ends_at: float, seconds: float) -> "UseInSteps":
        """Nothing known of so long before a time."""
        steps = max(int(seconds // STEP), 1)
        return cls(ends_at // STEP * STEP, np.full((2, steps), np.nan, dtype=np.float32))

    def take(self, which: int, times: Floats, amounts: NDArray[np.float32], step_seconds: float) -> None:
        """Take amounts up, each of which holds from one step of its own before its time; of several the highest."""
        known = np.flatnonzero(~np.isnan(amounts))
        last = self.used.shape[1] - 1
        places = last - np.floor((self.ends_at - times[known]) / STEP).astype(np.int64)
        for back in range(max(int(step_seconds // STEP), 1)):
            here = places - back
            fits = (here >= 0) & (here <= last)
            np.fmax.at(self.used[which], here[fits], amounts[known[fits]])
