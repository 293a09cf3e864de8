"""Where a node is other than a real one, and is meant to be.

Each is a case that must fail on that node: one that holds after all fails the run, and its line goes.
"""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True)
class Difference:
    """One case on one kind of node."""

    case: str
    node: str
    what: str
    why: str


DIFFERENCES: Final = (
    Difference(
        "test_amounts_under_the_kernels_least_are_its_least",
        "simulated",
        "A CPU limit under 10m or a request under 2m is in force as asked for.",
        "Nothing but a kernel has such a least, and no kernel takes part in a simulation.",
    ),
)
