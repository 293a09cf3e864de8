"""Whether a Prometheus tells of one cluster, or of several that would be taken for one.

Owns the labels by which clusters are told apart, and what choosing one looks like. Pods are called alike in many
clusters, so series of several are never taken together.
"""

import re
from collections.abc import Collection, Iterable, Mapping
from typing import Final

from recommender.sources.prometheus.client import Unusable
from recommender.sources.prometheus.queries import quoted

CLUSTER_LABELS: Final = ("cluster", "cluster_name", "k8s_cluster_name")
BY_CLUSTER: Final = ",".join(CLUSTER_LABELS)
_MATCHER: Final = re.compile(r'[a-zA-Z_][a-zA-Z0-9_]* *(?:=~|!~|!=|=) *"(?:[^"\\\n\r]|\\[^\n\r])*"')
_MOST_KNOWN: Final = 100
_MOST_NAMED: Final = 5


class SeveralClusters(Unusable):
    """Series of several clusters are there, and none is chosen."""


class Clusters:
    """The clusters that series were seen of."""

    def __init__(self) -> None:
        self._values: dict[str, set[str]] = {label: set() for label in CLUSTER_LABELS}
        self._is_partly_named: set[str] = set()

    def see(self, metric: Iterable[Mapping[str, str]]) -> None:
        """Label sets of one metric's series. Where only some of them name a cluster, the others are of one as well."""
        sets = list(metric)
        for label, known in self._values.items():
            found = {labels.get(label, "") for labels in sets}
            self._add(known, found - {""})
            if len(found) > 1 and "" in found:
                self._is_partly_named.add(label)

    def see_past(self, labels: Mapping[str, str]) -> None:
        """One series of the past. What names no cluster may be from before there was such a label."""
        for label, known in self._values.items():
            if value := labels.get(label, ""):
                self._add(known, (value,))

    def check(self) -> None:
        """Raises SeveralClusters."""
        for label, named in self._values.items():
            values = sorted(named) + [""] * (label in self._is_partly_named)
            if len(values) > 1:
                shown = ", ".join(quoted(value[:40]) for value in values[:_MOST_NAMED])
                more = f" and {len(values) - _MOST_NAMED} more" if len(values) > _MOST_NAMED else ""
                raise SeveralClusters(
                    f"series of several clusters, {label} is {shown}{more}: choose one by prometheus_matchers, "
                    f"as {label}={quoted(values[0][:40])}"
                )

    @staticmethod
    def _add(known: set[str], values: Collection[str]) -> None:
        known.update(sorted(values)[: max(_MOST_KNOWN - len(known), 0)])


def is_matcher(text: str) -> bool:
    """Whether a text is a label's matcher as PromQL writes it, and nothing more."""
    return _MATCHER.fullmatch(text) is not None
