"""What of an answer is counted: amounts that can be, of containers that were asked about.

Owns telling amounts that are in another unit than they are said to be. Asks nothing.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from elastipod.pods import ContainerKey
from recommender.sources.past import Unknown
from recommender.sources.prometheus.folding import Fold
from recommender.sources.prometheus.grid import Grid, Instance

LEAST_BYTES: Final = 64 * 1024.0
"""Half of all containers use less memory than this only where bytes are something else."""
LEAST_SHARE: Final = 1 / 400
"""Half of all containers use less than this of what they ask for only then, too."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """Whose instance it is, and which of its times are wanted."""

    key: ContainerKey
    unknown: Unknown
    living_uid: str = ""
    series: int = 1
    """How many there are of it: one for each run of the container, and for each way it is scraped."""
    request_bytes: int = 0
    """How much memory its container asks for; 0 where that is not known."""


def count(fold: Fold, grid: Grid, wanted: Mapping[Instance, Wanted], *, is_memory: bool, most: float) -> str:
    """Count what was read of what is wanted, and leave out what is more than any node has.

    Why none of it was counted, where none was.
    """
    taken, peaks, shares = 0, [], []
    for instance, row in grid.rows():
        if most:
            is_too_large = row > most
            grid.dropped.too_large += int(is_too_large.sum())
            row[is_too_large] = np.nan
        known = row[~np.isnan(row)]
        taken += len(known)
        if len(known):
            peaks.append(float(known.max()))
            if wanted[instance].request_bytes:
                shares.append(peaks[-1] / wanted[instance].request_bytes)
    problem = suspicion(peaks, LEAST_BYTES if is_memory else 0.0, taken, grid.dropped.too_large)
    if is_memory:
        problem = problem or suspicion(shares, LEAST_SHARE, 0, 0)
    if problem:
        return problem
    for instance, row in grid.rows():
        one = wanted[instance]
        if is_memory:
            fold.add_memory(one.key, grid.span, row, one.unknown, one.living_uid)
        else:
            fold.add_cpu(one.key, grid.span, row, one.unknown)
    return ""


def suspicion(amounts: Iterable[float], least: float, taken: int, too_large: int) -> str:
    """Why a resource's amounts can not be in the unit they are told to be in; nothing where they may be."""
    if too_large > taken:
        return "most amounts are larger than any node is: another unit"
    found = list(amounts)
    if found and float(np.median(found)) < least:
        return "most amounts are smaller than can be: another unit"
    return ""
