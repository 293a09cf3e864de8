"""What of an answer is counted: amounts that can be, of containers that were asked about.

Owns telling amounts that are in another unit than they are said to be. Asks nothing.
"""

from collections.abc import Iterable, Mapping
from typing import Final

import numpy as np

from recommender.sources.prometheus.folding import Fold
from recommender.sources.prometheus.grid import Grid, Instance, Wanted

LEAST_BYTES: Final = 64 * 1024.0
"""Half of all containers use less memory than this only where bytes are something else."""
LEAST_SHARE: Final = 1 / 400
"""Half of all containers use less than this of what they ask for only then, too."""


def count(fold: Fold, grid: Grid, wanted: Mapping[Instance, Wanted], *, is_memory: bool, most: float) -> str:
    """Count what was read of what is wanted, and leave out what is more than any node has.

    Why none of it was counted, where none was.
    """
    amounts, of = grid.amounts, [wanted[instance] for instance in grid.instances]
    if most:
        is_too_large = amounts > most
        grid.dropped.too_large += int(is_too_large.sum())
        amounts[is_too_large] = np.nan
    peaks = np.fmax.reduce(amounts, axis=1)
    is_known = ~np.isnan(peaks)
    taken = amounts.size - int(np.isnan(amounts).sum())
    problem = suspicion(peaks[is_known], LEAST_BYTES if is_memory else 0.0, taken, grid.dropped.too_large)
    if is_memory:
        requests = np.array([one.request_bytes for one in of], dtype=np.float64)
        is_asked = is_known & (requests > 0)
        problem = problem or suspicion(peaks[is_asked] / requests[is_asked], LEAST_SHARE, 0, 0)
    if problem:
        return problem
    if is_memory:
        fold.add_memory(grid.span, amounts, of)
    else:
        fold.add_cpu(grid.span, amounts, of)
    return ""


def suspicion(amounts: Iterable[float], least: float, taken: int, too_large: int) -> str:
    """Why a resource's amounts can not be in the unit they are told to be in; nothing where they may be."""
    if too_large > taken:
        return "most amounts are larger than any node is: another unit"
    found = list(amounts)
    if found and float(np.median(found)) < least:
        return "most amounts are smaller than can be: another unit"
    return ""
