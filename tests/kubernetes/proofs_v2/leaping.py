"""Pods that read 200 MiB at once when they are told to, under a limit of 100 MiB, and what the node says of them.

They stay when they have read, until their group was looked at.
"""

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Final, TypeVar

from elastipod.quantities import parse_memory
from tests.kubernetes.calls import Json
from tests.kubernetes.pods import actual, cgroup_of
from tests.kubernetes.processes import wait_for
from tests.kubernetes.proofs.spikes import Outcome, ends, remove, wait_running
from tests.kubernetes.proofs.workloads import SIGNS, container, pod
from tests.kubernetes.vm import VmCluster
from tests.localcluster.served import PODS

T = TypeVar("T")

SIZE: Final = "200M"
SPIKES: Final = int(os.environ.get("ELASTIPOD_SPIKES", "10"))
"""An even number; fewer where time is short."""
_SECONDS: Final = 600.0


@dataclass(frozen=True, slots=True)
class Group:
    """A container's memory on its node."""

    max_bytes: int
    high_bytes: int | None
    """Where it is held; None while it is not."""
    pod_max_bytes: int
    kills: int
    stalled_seconds: float
    """How long all its tasks stood still for memory."""


Tell = Callable[[str, Iterable[Group]], None]
"""Tells what they were through and how long they stood still."""


class Leap:
    """One such pod, which runs."""

    def __init__(self, cluster: VmCluster, began: Json) -> None:
        self.began = began
        self.name: str = began["metadata"]["name"]
        self.path = f"{PODS}/{self.name}"
        self.folder = f"/sys/fs/cgroup/{cgroup_of(began, driver=cluster.driver)}"
        self._cluster = cluster

    @property
    def sign(self) -> str:
        """A command for the node that tells it to read."""
        return f"echo > {SIGNS}/{self.name}"

    def begin(self) -> None:
        self._cluster.in_node(self.sign)

    def wait_read(self) -> bool:
        """Until it has read all, or is no more; needs no API server."""
        look = f"if [ -e {SIGNS}/{self.name}-done ]; then echo read; elif ! [ -d {self.folder} ]; then echo gone; fi"
        return self._wait(partial(self._cluster.in_node, look), "is over") == "read\n"

    def wait_max(self, least_bytes: int) -> None:
        """Until its limit on the node is that high; needs no API server."""
        self._wait(lambda: int(self._cluster.in_node(f"cat {self.folder}/memory.max")) >= least_bytes, "is raised")

    def group(self) -> Group:
        told = self._cluster.in_node(
            f"cd {self.folder}; cat memory.max memory.high ../memory.max memory.events memory.pressure"
        ).splitlines()
        events = dict(line.split() for line in told if len(line.split()) == 2)
        [full] = [line for line in told if line.startswith("full ")]
        return Group(
            max_bytes=int(told[0]),
            high_bytes=None if told[1] == "max" else int(told[1]),
            pod_max_bytes=int(told[2]),
            kills=int(events["oom_kill"]),
            stalled_seconds=int(full.rpartition("=")[2]) / 1e6,
        )

    def stated(self) -> int:
        """Its limit in the spec."""
        found = self._cluster.calls.get(self.path)
        return parse_memory(found["spec"]["containers"][0]["resources"]["limits"]["memory"])

    def wait_agreed(self) -> Group:
        """Its group, once spec, status and node have one limit, and the hold stands below it."""

        def look() -> tuple[Group, set[int]]:
            group, found = self.group(), self._cluster.calls.get(self.path)
            stated = found["spec"]["containers"][0]["resources"], actual(found)
            limits = {parse_memory(one["limits"]["memory"]) for one in stated}
            return group, {group.max_bytes, group.pod_max_bytes, *limits}

        def is_right(found: tuple[Group, set[int]]) -> bool:
            group, limits = found
            high, limit = group.high_bytes, group.max_bytes
            return len(limits) == 1 and high is not None and limit * 4 // 5 <= high < limit

        return self._wait(look, "has one limit", is_right)[0]

    def outcome(self) -> Outcome:
        """How it ended, when it was over."""
        if self.wait_read():
            self._cluster.in_node(f"echo > {SIGNS}/{self.name}-end")
        [outcome] = ends(self._cluster.calls, [self.began])
        return outcome

    def carried(self) -> Group:
        """How its group stood at the end; it read all, nothing was killed, and all say the same limit."""
        assert self.wait_read()
        group = self.wait_agreed()
        assert group.kills == 0
        outcome = self.outcome()
        assert (outcome.reason, outcome.exit_code, outcome.restarts) == ("Completed", 0, 0)
        assert outcome.same_container
        return group

    def _wait(self, look: Callable[[], T], what: str, is_right: Callable[[T], bool] = bool) -> T:
        return wait_for(look, _SECONDS, f"{self.name} {what}", is_right)


@contextmanager
def leaps(cluster: VmCluster, *names: str) -> Iterator[list[Leap]]:
    """Such pods, once they run, until the end of the block."""
    # They wait at pipes, as looking again and again takes the node's processors from the actuator.
    cluster.in_node(f"mkdir -p {SIGNS}; cd {SIGNS}; mkfifo {' '.join(f'{name} {name}-end' for name in names)}")
    label = f"leap-{names[0]}"
    for name in names:
        made = pod(name, _container(name), labels={"app": label})
        made["metadata"]["annotations"] = {"elastipod.io/memory-spike": "Pause"}
        cluster.calls.post(PODS, made)
    try:
        yield [Leap(cluster, one) for one in wait_running(cluster.calls, len(names), f"app={label}", _SECONDS)]
    finally:
        remove(cluster.calls, names)
        cluster.in_node(f"cd {SIGNS}; rm -f {' '.join(f'{name} {name}-*' for name in names)}")


def _container(name: str) -> Json:
    read = f"dd if=/dev/zero of=/dev/null bs={SIZE} count=1 && touch /go/{name}-done"
    made = container(["sh", "-c", f"read _ < /go/{name}; {read}; read _ < /go/{name}-end"])
    made["volumeMounts"][0]["readOnly"] = False
    return made
