"""Pods that need more memory at once than their limit, and what became of them."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Final
from uuid import uuid4

from elastipod.quantities import parse_memory
from tests.kubernetes.calls import Calls, Json
from tests.kubernetes.cluster import Cluster
from tests.kubernetes.pods import actual, cgroup_of
from tests.kubernetes.processes import wait_for
from tests.kubernetes.proofs.workloads import MIB, container, controlled, created, growing, leaping, pod, tell
from tests.localcluster.served import PODS

BATCHES, EACH = 10, 4
"""Two for each processor of the machines that this runs on: those of one moment are to be at full speed."""
_SECONDS: Final = 180.0


@dataclass(frozen=True, slots=True)
class Outcome:
    """How one pod's container began and ended."""

    uid: str
    reason: str
    exit_code: int
    restarts: int
    same_container: bool
    desired: str
    """Its memory limit in the spec at the end."""
    actual: str
    """And in its status."""


def run_job(cluster: Cluster, name: str, size: str, before: Callable[[list[str]], None] = lambda _: None) -> Outcome:
    """A Job that reads so much at once; `before` is called with its pod's name when it runs."""
    with created(cluster, controlled("Job", name, container(leaping(name, size)))):
        [began] = wait_running(cluster.calls, 1, f"app={name}")
        before([began["metadata"]["name"]])
        tell(cluster, **{name: ""})
        [outcome] = ends(cluster.calls, [began])
        return outcome


def run_spikes(cluster: Cluster, before: Callable[[list[str]], None]) -> list[Outcome]:
    """40 pods, those of a batch at the same moment."""
    outcomes = []
    for batch in range(BATCHES):
        sign = f"batch-{uuid4()}"
        names = [f"spike-{batch}-{number}" for number in range(EACH)]
        for name in names:
            cluster.calls.post(PODS, pod(name, container(leaping(sign)), labels={"app": "spike"}))
        try:
            began = wait_running(cluster.calls, EACH, "app=spike")
            before(names)
            tell(cluster, **{sign: ""})
            outcomes += ends(cluster.calls, began)
        finally:
            remove(cluster.calls, names)
    return outcomes


class Growth:
    """A Job that grows in steps, each when it is told to."""

    def __init__(self, cluster: Cluster, name: str, began: Json) -> None:
        self.name, self.began = name, began
        self._cluster, self._steps = cluster, 0
        self._group = cluster.cgroup("memory", cgroup_of(began))

    def step(self) -> None:
        """Tell it to grow to its next size."""
        tell(self._cluster, **{f"{self.name}-{self._steps}": ""})
        self._steps += 1

    def wait_used(self, mib: int) -> None:
        """Until it uses so much."""
        self._wait("memory.usage_in_bytes", mib * MIB)

    def wait_raised(self, mib: int) -> None:
        """Until so much is its limit on the node."""
        self._wait("memory.limit_in_bytes", mib * MIB)

    def wait_agreed(self) -> None:
        """Until spec, status and node say the same limit."""
        wait_for(self._limits, _SECONDS, f"{self.name} has one limit", lambda found: len(set(found)) == 1)

    def outcome(self) -> Outcome:
        """How it ended."""
        [outcome] = ends(self._cluster.calls, [self.began])
        return outcome

    def _wait(self, file: str, least: int) -> None:
        wait_for(
            lambda: self._number(file), _SECONDS, f"{file} of {self.name} is {least}", lambda found: found >= least
        )

    def _number(self, file: str) -> int:
        return int((self._group / file).read_text())

    def _limits(self) -> list[int]:
        pod = self._cluster.calls.get(f"{PODS}/{self.began['metadata']['name']}")
        told = (pod["spec"]["containers"][0]["resources"], actual(pod))
        return [self._number("memory.limit_in_bytes"), *(parse_memory(one["limits"]["memory"]) for one in told)]


@contextmanager
def growing_job(cluster: Cluster, name: str, *steps: str) -> Iterator[Growth]:
    """That Job, once it runs, until the end of the block."""
    with created(cluster, controlled("Job", name, container(growing(name, *steps)))):
        [began] = wait_running(cluster.calls, 1, f"app={name}")
        yield Growth(cluster, name, began)


def wait_running(calls: Calls, count: int, selector: str, seconds: float = _SECONDS) -> list[Json]:
    """These pods, once all their containers run."""

    def look() -> list[Json]:
        found: list[Json] = calls.get(PODS, labelSelector=selector)["items"]
        return [one for one in found if one["status"]["phase"] == "Running"]

    return wait_for(look, seconds, f"{count} pods of {selector} run", lambda found: len(found) == count)


def ends(calls: Calls, began: Iterable[Json]) -> list[Outcome]:
    """What becomes of these pods, once they are over."""
    outcomes = []
    for before in began:
        path = f"{PODS}/{before['metadata']['name']}"
        after = wait_for(
            partial(calls.get, path), _SECONDS, f"{path} ends",
            lambda found: found["status"]["phase"] in ("Succeeded", "Failed"),
        )  # fmt: skip
        outcomes.append(_outcome(before, after))
    return outcomes


def identities(pods: Iterable[Json]) -> set[tuple[str, int]]:
    """The containers of pods, sidecars too, and how often each was restarted."""
    statuses = [
        one
        for pod in pods
        for kind in ("containerStatuses", "initContainerStatuses")
        for one in pod["status"].get(kind, [])
    ]
    return {(one["containerID"], one["restartCount"]) for one in statuses}


def remove(calls: Calls, names: Iterable[str]) -> None:
    """Delete pods, until they are gone."""
    for name in names:
        calls.call("DELETE", f"{PODS}/{name}", gracePeriodSeconds="0")
    for name in names:
        wait_for(partial(calls.call, "GET", f"{PODS}/{name}"), _SECONDS, f"{name} is gone", lambda one: one[0] == 404)


def _outcome(before: Json, after: Json) -> Outcome:
    first, last = (one["status"]["containerStatuses"][0] for one in (before, after))
    ended = last["state"]["terminated"]
    return Outcome(
        uid=after["metadata"]["uid"],
        reason=ended["reason"],
        exit_code=ended["exitCode"],
        restarts=last["restartCount"],
        same_container=first["containerID"] == last["containerID"],
        desired=after["spec"]["containers"][0]["resources"]["limits"]["memory"],
        actual=last.get("resources", {}).get("limits", {}).get("memory", ""),
    )
