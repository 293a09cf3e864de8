"""What Prometheus is asked, in its own language.

Owns the texts. Names from outside are quoted: nothing that a cluster is called can become a question.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from recommender.sources.prometheus.planning import EVERYTHING, Shard

CPU: Final = "container_cpu_usage_seconds_total"
MEMORY: Final = "container_memory_working_set_bytes"
POD_OWNER: Final = "kube_pod_owner"
REPLICA_SET_OWNER: Final = "kube_replicaset_owner"
JOB_OWNER: Final = "kube_job_owner"
APP_CONTAINERS: Final = "kube_pod_container_info"
INIT_CONTAINERS: Final = "kube_pod_init_container_info"
REQUESTS: Final = "kube_pod_container_resource_requests"
LIMITS: Final = "kube_pod_container_resource_limits"
INIT_REQUESTS: Final = "kube_pod_init_container_resource_requests"
INIT_LIMITS: Final = "kube_pod_init_container_resource_limits"
OOM_KILLED: Final = "kube_pod_container_status_last_terminated_reason"

CLOSED_PROBE: Final = "count_over_time(vector(1)[1m:30s])"
"""3 where both ends of a range count (Prometheus 2), 2 where the earlier does not (3)."""

_SPECIAL: Final = frozenset("\\.+*?()|[]{}^$")


@dataclass(frozen=True, slots=True)
class Names:
    """The labels that name a container; they are others where a relabelling moved them."""

    namespace: str = "namespace"
    pod: str = "pod"
    container: str = "container"


KNOWN_NAMES: Final = (
    Names(),
    Names("exported_namespace", "exported_pod", "exported_container"),
    Names("namespace", "pod_name", "container_name"),
    Names("kubernetes_namespace", "kubernetes_pod_name", "kubernetes_container_name"),
    Names("k8s_namespace_name", "k8s_pod_name", "k8s_container_name"),
)


@dataclass(frozen=True, slots=True)
class Selecting:
    """The series of containers' usage: by which labels, and of which jobs."""

    names: Names = Names()
    jobs: tuple[str, ...] = ()
    matchers: tuple[str, ...] = ()
    """Further ones, as PromQL writes them."""

    def series(self, metric: str, shard: Shard = EVERYTHING) -> str:
        """The series of a metric that are of containers, and of a shard where one is given.

        Without a container they are of whole pods; `POD` is what holds a pod's network.
        """
        names = self.names
        matchers = [f'{names.container}!=""', f'{names.container}!="POD"', f'{names.pod}!=""', f'{names.namespace}!=""']
        for label, wanted in (("job", self.jobs), (names.namespace, shard.namespaces), (names.pod, shard.pods)):
            if wanted:
                matchers.append(one_of(label, wanted))
        matchers += self.matchers
        return f"{metric}{{{','.join(matchers)}}}"

    def by_container(self, query: str) -> str:
        """One series for each container of each pod, however often it is scraped: the highest.

        It costs a server several times what the rates cost, so it is for few times, or for many series.
        """
        names = self.names
        return f"max by ({names.namespace},{names.pod},{names.container}) ({query})"

    def cpu(self, seconds: int, shard: Shard = EVERYTHING) -> str:
        """Cores used over so many seconds."""
        return f"rate({self.series(CPU, shard)}[{seconds}s])"

    def memory(self, milliseconds: int, shard: Shard = EVERYTHING) -> str:
        """The most memory in so many milliseconds, from each sample there is."""
        return f"max_over_time({self.series(MEMORY, shard)}[{milliseconds}ms])"

    def stamps(self, shard: Shard = EVERYTHING) -> str:
        """When the newest sample of a container was taken."""
        return " or ".join(f"timestamp({self.series(metric, shard)})" for metric in (CPU, MEMORY))


def one_of(label: str, texts: Iterable[str]) -> str:
    """A matcher for any of some texts."""
    wanted = list(texts)
    if len(wanted) == 1:
        return f"{label}={quoted(wanted[0])}"
    return f"{label}=~{quoted('|'.join(_escaped(text) for text in wanted))}"


def quoted(text: str) -> str:
    """A text as PromQL writes it."""
    for one, written in (("\\", "\\\\"), ('"', '\\"'), ("\n", "\\n"), ("\r", "\\r")):
        text = text.replace(one, written)
    return f'"{text}"'


def _escaped(text: str) -> str:
    return "".join(f"\\{one}" if one in _SPECIAL else one for one in text)
