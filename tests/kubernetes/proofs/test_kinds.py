"""A size stated on a workload is put in force in place, whatever the workload is."""

import json

import pytest

from elastipod.quantities import parse_memory
from tests.kubernetes.calls import Json
from tests.kubernetes.pods import actual, cgroup_of
from tests.kubernetes.processes import wait_for
from tests.kubernetes.proofs.installation import Elastipod
from tests.kubernetes.proofs.spikes import identities, wait_running
from tests.kubernetes.proofs.workloads import MIB, container, controlled, created, pod
from tests.localcluster.served import PODS

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(600)]

SECONDS = 120.0
IDLE = ["sleep", "100000"]


def size(memory: str, limit: str, cpu: str = "20m", cpu_limit: str = "") -> Json:
    limits = {"memory": limit} | ({"cpu": cpu_limit} if cpu_limit else {})
    return {"requests": {"cpu": cpu, "memory": memory}, "limits": limits}


def state(elastipod: Elastipod, kind: str, name: str, **sizes: Json) -> None:
    """State sizes by container, as a person does."""
    elastipod.cluster.kubectl("annotate", kind, name, f"elastipod.io/resources={json.dumps(sizes)}")


def wait_in_force(elastipod: Elastipod, before: Json, mib: int, name: str = "app") -> Json:
    """The pod, once its container has so much memory as its limit, on the node and in its status."""
    path = f"{PODS}/{before['metadata']['name']}"

    def limits() -> tuple[int, int]:
        found = elastipod.cluster.calls.get(path)
        statuses = found["status"]["containerStatuses"] + found["status"].get("initContainerStatuses", [])
        [status] = [one for one in statuses if one["name"] == name]
        told = parse_memory(status["resources"]["limits"]["memory"])
        merged = {"metadata": found["metadata"], "status": found["status"] | {"containerStatuses": statuses}}
        file = elastipod.cluster.cgroup("memory", cgroup_of(merged, name)) / "memory.limit_in_bytes"
        return told, int(file.read_text()) if file.exists() else 0

    wait_for(limits, SECONDS, f"{path} has {mib} MiB", lambda found: found == (mib * MIB, mib * MIB))
    return elastipod.cluster.calls.get(path)


@pytest.mark.parametrize("kind", ["Job", "StatefulSet", "Deployment", "Pod"])
def test_of_every_kind_in_the_same_container(elastipod: Elastipod, kind: str) -> None:
    name = f"stated-{kind.lower()}"
    one = container(IDLE)
    body = pod(name, one, labels={"app": name}) if kind == "Pod" else controlled(kind, name, one)
    with created(elastipod.cluster, body):
        [before] = wait_running(elastipod.cluster.calls, 1, f"app={name}")
        state(elastipod, kind, name, app=size("80Mi", "160Mi"))
        after = wait_in_force(elastipod, before, 160)
    assert identities([after]) == identities([before])
    assert actual(after)["requests"] == {"cpu": "20m", "memory": "80Mi"}


def test_of_a_native_sidecar_as_well(elastipod: Elastipod) -> None:
    sidecar = container(IDLE, "proxy", restartPolicy="Always")
    with created(
        elastipod.cluster, pod("besides", container(IDLE), labels={"app": "besides"}, initContainers=[sidecar])
    ):
        [before] = wait_running(elastipod.cluster.calls, 1, "app=besides")
        state(elastipod, "Pod", "besides", app=size("80Mi", "160Mi"), proxy=size("60Mi", "120Mi"))
        wait_in_force(elastipod, before, 160)
        after = wait_in_force(elastipod, before, 120, "proxy")
    assert identities([after]) == identities([before])


def test_where_memory_needs_a_restart_there_is_exactly_one(elastipod: Elastipod) -> None:
    policy = [{"resourceName": "memory", "restartPolicy": "RestartContainer"}]
    with created(
        elastipod.cluster, controlled("Deployment", "restarting", container(IDLE, resizePolicy=policy), replicas=2)
    ):
        pods = wait_running(elastipod.cluster.calls, 2, "app=restarting")
        state(elastipod, "Deployment", "restarting", app=size("80Mi", "160Mi"))
        after = [wait_in_force(elastipod, one, 160) for one in pods]
    assert [one["status"]["containerStatuses"][0]["restartCount"] for one in after] == [1, 1]


def test_a_guaranteed_pod_stays_guaranteed(elastipod: Elastipod) -> None:
    one = container(IDLE, cpu="20m", cpu_limit="20m", memory="100Mi", memory_limit="100Mi")
    with created(elastipod.cluster, pod("guaranteed", one, labels={"app": "guaranteed"})):
        [before] = wait_running(elastipod.cluster.calls, 1, "app=guaranteed")
        assert before["status"]["qosClass"] == "Guaranteed"
        state(elastipod, "Pod", "guaranteed", app=size("150Mi", "150Mi", "30m", "30m"))
        after = wait_in_force(elastipod, before, 150)
    assert after["status"]["qosClass"] == "Guaranteed"
    assert actual(after)["requests"] == actual(after)["limits"] == {"cpu": "30m", "memory": "150Mi"}
    assert identities([after]) == identities([before])
