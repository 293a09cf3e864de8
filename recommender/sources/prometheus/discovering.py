"""What a Prometheus has that can be used, found by asking it.

Owns the choice of labels and jobs, and naming what is missing. The questions are few and small.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from recommender.sources.prometheus.client import PrometheusClient
from recommender.sources.prometheus.queries import (
    CLOSED_PROBE,
    CPU,
    KNOWN_NAMES,
    MEMORY,
    POD_OWNER,
    Names,
    Selecting,
)

_NODE_JOB: Final = re.compile("kubelet|cadvisor|kubernetes[-_]nodes", re.IGNORECASE)
_CLOSED: Final = 3.0


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

    def window_milliseconds(self, step: int) -> int:
        """A range of a step in which each sample stands once: an end that also counts is moved off the grid."""
        return step * 1000 - self.is_closed


def discover(client: PrometheusClient, at: float, job: str = "") -> Found:
    """Look for containers' usage and kube-state-metrics. Raises PrometheusError."""
    problems: list[str] = []
    selecting = [_selecting(client, metric, at, job, problems) for metric in (CPU, MEMORY)]
    states = next((names for names in KNOWN_NAMES if _count(client, f'{POD_OWNER}{{{names.pod}!=""}}', at)), None)
    if states is None:
        problems.append(f"{POD_OWNER} is not there (kube-state-metrics), so pods are matched by name")
    closed = client.numbers(CLOSED_PROBE, at // 60 * 60)
    return Found(selecting[0], selecting[1], states, bool(closed) and closed[0][1] == _CLOSED, tuple(problems))


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


def _selecting(client: PrometheusClient, metric: str, at: float, job: str, problems: list[str]) -> Selecting | None:
    """How a metric's series name a container: as most of them do."""
    found: list[tuple[float, int, Selecting, dict[str, float]]] = []
    for place, names in enumerate(KNOWN_NAMES):
        selecting = Selecting(names)
        answer = client.numbers(f"count by (job) ({selecting.series(metric)})", at)
        counts = {labels.get("job", ""): number for labels, number in answer}
        if job and job not in counts:
            continue
        total = counts[job] if job else sum(counts.values())
        if total > 0:
            found.append((total, -place, selecting, counts))
    if not found:
        problems.append(_missing(client, metric, job))
        return None
    _, _, selecting, counts = max(found, key=lambda one: one[:2])
    jobs, others = choose_jobs(counts, job)
    if others:
        problems.append(
            f"{metric}: series of {', '.join(others)[:200]} are not believed, those of {', '.join(jobs)} are"
        )
    # Series without the label have an empty job, which a matcher finds too.
    return Selecting(selecting.names, jobs if others else ())


def _missing(client: PrometheusClient, metric: str, job: str) -> str:
    labels = [label for label in client.label_names(metric) if not label.startswith("__")]
    if not labels:
        return f"{metric} is not there: nothing scrapes the kubelets' cAdvisor"
    of_job = f" of job {job}" if job else ""
    if any({names.namespace, names.pod, names.container} <= set(labels) for names in KNOWN_NAMES):
        return f"{metric}{of_job}: no container has a series now, though some had; see whether it is scraped"
    shown = ", ".join(labels)[:300]
    return f"{metric}{of_job}: no labels name namespace, pod and container; it has {shown}"


def _count(client: PrometheusClient, selector: str, at: float) -> float:
    return sum(number for _, number in client.numbers(f"count({selector})", at))
