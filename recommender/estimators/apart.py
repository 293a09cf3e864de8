"""A request and a limit, each its own answer.

Owns what becomes of the limit when a request is found. The request says what is reserved and decides slack; the limit
says what is enforced and decides kills. So where a policy allows, the limit follows the most of a week, and not the
request.
"""

from typing import Final

import numpy as np

from elastipod.limitmodes import LimitMode
from recommender.histogram import Floats

LIMIT_MARGIN: Final = 1.3
"""An independent limit is the week's peak times this."""


def limit(mode: LimitMode, request: Floats, week_peak: Floats, ratio: Floats) -> Floats:
    """The limit of each row, never below its request; NaN is "no limit".

    `ratio` is limit to request as the owner stated them; NaN where there is no limit to keep.
    """
    match mode:
        case LimitMode.PROPORTIONAL:
            return np.asarray(request * np.maximum(ratio, 1.0))
        case LimitMode.INDEPENDENT:
            return np.asarray(np.fmax(request, week_peak * LIMIT_MARGIN))
        case LimitMode.UNSET:
            return np.full(request.shape, np.nan)
