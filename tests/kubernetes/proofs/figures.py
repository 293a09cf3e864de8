"""How measured figures are told."""

import statistics
from collections.abc import Sequence


def told(what: str, unit: str, figures: Sequence[float]) -> str:
    """A figure of the real cluster's, with its middle and its far end."""
    ordered = sorted(figures)
    far = ordered[min(len(ordered) - 1, int(len(ordered) * 0.99))]
    return (
        f"real Kubernetes cluster: {what}: p50 {statistics.median(ordered):.3g} {unit}, p99 {far:.3g} {unit} "
        f"({len(ordered)} times)"
    )
