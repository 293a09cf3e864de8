"""Nodes whose clocks are off, by the stamps of their samples.

Owns the judgement. No sample is dropped for it: age goes by arrival, and a stamp only tells one sample from the next.
"""

from collections.abc import Callable, Sequence
from typing import Final

from recommender.samples import UsageSample

MOST_SECONDS: Final = 300.0
"""A sample that is read in time is a minute or two old; clocks this far apart are told."""


def skewed_nodes(samples: Sequence[UsageSample], now: float, node_of: Callable[[UsageSample], str]) -> dict[str, float]:
    """By node, how many seconds its newest stamp is ahead of now (below zero: behind), where that is far.

    The newest counts: one sample that is stale says nothing about a clock.
    """
    suspects = {node_of(one) for one in samples if abs(one.measured_at - now) > MOST_SECONDS} - {""}
    if not suspects:
        return {}
    newest: dict[str, float] = {}
    for one in samples:
        node = node_of(one)
        if node in suspects and one.measured_at - now > newest.get(node, float("-inf")):
            newest[node] = one.measured_at - now
    return {node: ahead for node, ahead in sorted(newest.items()) if abs(ahead) > MOST_SECONDS}
