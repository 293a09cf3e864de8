"""A small cluster's past, as cAdvisor and kube-state-metrics tell it.

Owns the shapes of their series. What each container used is the test's to say.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from tests.recommender.prometheus.server import Metrics

MI = 1024**2
DAY = 86_400

NOW = 1_800_000_000
"""A whole hour."""

Use = Callable[[float], float]


def steady(amount: float) -> Use:
    return lambda _: amount


TENTH_CORE = steady(0.1)
HUNDRED_MI = steady(100 * MI)


@dataclass
class Fleet:
    """Series of pods that are added one after the other."""

    metrics: Metrics = field(default_factory=Metrics)
    scrape_seconds: int = 60
    names: tuple[str, str, str] = ("namespace", "pod", "container")
    job: str = "kubelet"
    now: int = NOW
    common: dict[str, str] = field(default_factory=dict)
    """Labels of all series, as of a cluster."""

    def pod(
        self,
        name: str,
        owner: tuple[str, str] | None,
        *,
        namespace: str = "shop",
        cores: Use = TENTH_CORE,
        memory: Use = HUNDRED_MI,
        container: str = "app",
        since: float | None = None,
        until: float | None = None,
        scrapes: int = 1,
        **labels: str,
    ) -> None:
        """A pod of one container, scraped from `since` until `until`: a day until now where not told."""
        since, until = self._day(since, until)
        times = range(int(since), int(until) + 1, self.scrape_seconds)
        counter, samples = 0.0, []
        for at in times:
            samples.append((at, round(counter, 6)))
            counter += cores(at) * self.scrape_seconds
        named = dict(zip(self.names, (namespace, name, container), strict=True))
        for number in range(scrapes):
            more = {
                "job": self.job,
                "id": f"/kubepods/pod-{name}/{container}",
                "instance": f"n{number}",
                **self.common,
                **labels,
            }
            used = [(at, memory(at)) for at in times]
            self.metrics.add("container_cpu_usage_seconds_total", {**named, **more}, samples)
            self.metrics.add("container_memory_working_set_bytes", {**named, **more}, used)
            # What stands for the whole pod, and for what holds its network.
            for other in ("", "POD"):
                whole = {**named, self.names[2]: other, **more}
                self.metrics.add("container_memory_working_set_bytes", whole, [(at, 2 * amount) for at, amount in used])
        if owner is not None:
            self.owner("pod", name, owner, namespace=namespace, since=since, until=until)

    def owner(
        self,
        label: str,
        name: str,
        owner: tuple[str, str],
        *,
        namespace: str = "shop",
        since: float | None = None,
        until: float | None = None,
    ) -> None:
        """A line of kube-state-metrics: what controls a pod, a replicaset or a job_name."""
        since, until = self._day(since, until)
        metric = {"pod": "kube_pod_owner", "replicaset": "kube_replicaset_owner", "job_name": "kube_job_owner"}[label]
        labels = {"namespace": namespace, label: name, "owner_kind": owner[0], "owner_name": owner[1], **self.common}
        times = range(int(since), int(until) + 1, 300)
        self.metrics.add(metric, {**labels, "owner_is_controller": "true", "job": "ksm"}, [(at, 1) for at in times])

    def asks(self, pod: str, resource: str, amount: float, *, namespace: str = "shop", kind: str = "requests") -> None:
        """A line of kube-state-metrics: what a container asks for."""
        unit = "core" if resource == "cpu" else "byte"
        labels = {"namespace": namespace, "pod": pod, "container": "app", "resource": resource, "unit": unit}
        labels |= self.common
        times = range(self.now - 3600, self.now + 1, 60)
        self.metrics.add(
            f"kube_pod_container_resource_{kind}", {**labels, "job": "ksm"}, [(at, amount) for at in times]
        )

    def metric(self, name: str, amount: float, **labels: str) -> None:
        """Another metric of kube-state-metrics or of a kubelet, the same for the last hour."""
        self.metrics.add(
            name, {**labels, **self.common}, [(at, amount) for at in range(self.now - 3600, self.now + 1, 60)]
        )

    def _day(self, since: float | None, until: float | None) -> tuple[float, float]:
        return self.now - DAY if since is None else since, self.now if until is None else until
