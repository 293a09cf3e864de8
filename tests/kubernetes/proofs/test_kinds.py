"""A size stated on a workload is put in force in place, whatever the workload is."""

import json

import pytest

from elastipod.quantities import parse_memory
from tests.kubernetes.calls import Json
from tests.kubernetes.pods import cgroup_of
from tests.kubernetes.processes import wait_for
from tests.kubernetes.proofs.installation import Elastipod
from tests.kubernetes.proofs.workloads import MIB
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
