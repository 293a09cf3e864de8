"""What a Prometheus has that can be used, found by asking it.

Owns the choice of labels and jobs, and naming what is missing. The questions are few and small.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from recommender.sources.prometheus.client import PrometheusClient
from recommender.sources.prometheus.clusters import BY_CLUSTER, Clusters
from recommender.sources.prometheus.queries import (
    CLOSED_PROBE,
    CPU,
    KNOWN_NAMES,
    MEMORY,
    POD_OWNER,
    REQUESTS,
    Names,
    Selecting,
)

_NODE_JOB: Final = re.compile("kubelet|cadvisor|kubernetes[-_]nodes", re.IGNORECASE)
_CLOSED: Final = 3.0

_Counts = list[tuple[dict[str, str], float]]


@dataclass(frozen=True, slots=True)
class Found:
    """What there is to ask for."""

    cpu: Selecting | None = None
    memory: Selecting | None = None
    states: Names | None = None
    """The labels of kube-state-metrics' series; None where there are none."""
    is_closed: bool = True
    """Whether both ends of a range count."""
    problems: tuple[str, ...] = ()
    """What is missing, by name."""
    matchers: tuple[str, ...] = ()
    """What every series has to match."""

    def window_milliseconds(self, step: int) -> int:
        """A range of a step in which each sample stands once: an end that also counts is moved off the grid."""
        return step * 1000 - self.is_closed


def discover(client: PrometheusClient, at: float, job: str = "", matchers: tuple[str, ...] = ()) -> Found:
    """Look for containers' usage and kube-state-metrics, among the series that match.

    Raises PrometheusError, and as one of these SeveralClusters.
    """
    problems: list[str] = []
    looking = _Looking(client, at, job, matchers)
    selecting = [looking.selecting(metric, problems) for metric in (CPU, MEMORY)]
    states = next((names for names in KNOWN_NAMES if looking.has_states(POD_OWNER, names)), None)
    looking.has_states(REQUESTS, states or Names())
    looking.clusters.check()
    if states is None:
        problems.append(f"{POD_OWNER} is not there (kube-state-metrics), so pods are matched by name")
    closed = client.numbers(CLOSED_PROBE, at // 60 * 60)
    return Found(
        selecting[0], selecting[1], states, bool(closed) and closed[0][1] == _CLOSED, tuple(problems), matchers
    )


def choose_jobs(counts: Mapping[str, float], wanted: str = "") -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The jobs whose series are believed, and the others.

    The job with the most series, and those that are called what scrapes kubelets: a pod may expose what it likes about
    others, but not as many. A job that is asked for is believed alone.
    """
    if wanted:
        return (wanted,), tuple(sorted(set(counts) - {wanted}))
    most = max(counts, key=lambda job: (counts[job], job), default="")
    believed = sorted(job for job in counts if job == most or _NODE_JOB.search(job))
    return tuple(believed), tuple(sorted(set(counts) - set(believed)))


class _Looking:
    """One look at what there is, and the clusters that are seen by it."""

    def __init__(self, client: PrometheusClient, at: float, job: str, matchers: tuple[str, ...]) -> None:
        self.clusters = Clusters()
        self._client = client
        self._at = at
        self._job = job
        self._matchers = matchers

    def selecting(self, metric: str, problems: list[str]) -> Selecting | None:
        """How a metric's series name a container: as most of them do."""
        job = self._job
        found: list[tuple[float, int, Selecting, dict[str, float], _Counts]] = []
        for place, names in enumerate(KNOWN_NAMES):
            selecting = Selecting(names, matchers=self._matchers)
            answer = self._client.numbers(f"count by (job,{BY_CLUSTER}) ({selecting.series(metric)})", self._at)
            counts: dict[str, float] = {}
            for labels, number in answer:
                of = labels.get("job", "")
                counts[of] = counts.get(of, 0.0) + number
            total = counts.get(job, 0.0) if job else sum(counts.values())
            if total > 0:
                found.append((total, -place, selecting, counts, answer))
        if not found:
            problems.append(self._missing(metric))
            return None
        _, _, selecting, counts, answer = max(found, key=lambda one: one[:2])
        jobs, others = choose_jobs(counts, job)
        self.clusters.see(labels for labels, _ in answer if labels.get("job", "") in jobs)
        if others:
            problems.append(
                f"{metric}: series of {', '.join(others)[:200]} are not believed, those of {', '.join(jobs)} are"
            )
        # Series without the label have an empty job, which a matcher finds too.
        return replace(selecting, jobs=jobs if others else ())

    def has_states(self, metric: str, names: Names) -> bool:
        """Whether a metric of kube-state-metrics names pods so."""
        matchers = ",".join((f'{names.pod}!=""', *self._matchers))
        found = self._client.numbers(f"count by ({BY_CLUSTER}) ({metric}{{{matchers}}})", self._at)
        self.clusters.see(labels for labels, _ in found)
        return any(number for _, number in found)

    def _missing(self, metric: str) -> str:
        labels = [label for label in self._client.label_names(metric) if not label.startswith("__")]
        if not labels:
            return f"{metric} is not there: nothing scrapes the kubelets' cAdvisor"
        of = f" of job {self._job}" if self._job else ""
        of += f" that matches {', '.join(self._matchers)[:200]}" if self._matchers else ""
        if any({names.namespace, names.pod, names.container} <= set(labels) for names in KNOWN_NAMES):
            return f"{metric}{of}: no container has a series now, though some had; see whether it is scraped"
        shown = ", ".join(labels)[:300]
        return f"{metric}{of}: no labels name namespace, pod and container; it has {shown}"
