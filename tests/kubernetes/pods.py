"""Pods for tests in a whole cluster: a shell in a container, there for as long as a test needs it."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from actuator.paths import Driver, container_path
from elastipod.pods import QosClass
from tests.build import container_json, pod_json
from tests.kubernetes.calls import Calls, Json
from tests.kubernetes.images import BUSYBOX
from tests.kubernetes.processes import wait_for
from tests.localcluster.served import PODS

_SECONDS: Final = 120.0


def busybox_pod(name: str, command: str, **resources: str) -> Json:
    """A pod whose one container, `app`, runs a command once; resources as `container_json` has them."""
    container = container_json(image=BUSYBOX, command=["sh", "-c", command], imagePullPolicy="Never", **resources)
    return pod_json(name, containers=[container], restartPolicy="Never", terminationGracePeriodSeconds=0)


@contextmanager
def running(calls: Calls, body: Json, phase: str = "Running") -> Iterator[Callable[[], Json]]:
    """The pod, once in that phase, until the end of the block; calling it reads it anew."""
    path = f"{PODS}/{calls.post(PODS, body)['metadata']['name']}"

    def read() -> Json:
        return calls.get(path)

    try:
        wait_for(read, _SECONDS, f"{path} is {phase}", lambda pod: pod["status"]["phase"] == phase)
        yield read
    finally:
        calls.delete(path)


def resize(calls: Calls, name: str, **amounts: str) -> Json:
    """Ask for these amounts, as requests and limits alike."""
    resources = {"requests": amounts, "limits": amounts}
    return calls.patch(f"{PODS}/{name}/resize", {"spec": {"containers": [{"name": "app", "resources": resources}]}})


def actual(pod: Json) -> Any:
    """What the first container runs with."""
    return pod["status"]["containerStatuses"][0]["resources"]


def cgroup_of(pod: Json, container: str = "app", driver: Driver = Driver.CGROUPFS) -> str:
    """Where a running container's cgroup lies below the node's root."""
    [status] = [one for one in pod["status"]["containerStatuses"] if one["name"] == container]
    quality = QosClass(pod["status"]["qosClass"])
    return container_path(driver, quality, pod["metadata"]["uid"], status["containerID"])
