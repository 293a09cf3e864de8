"""What `kubectl get` prints of each kind: columns and cells."""

from typing import Any

import pytest

from elastipod.kube import resources as kube
from tests.build import container_json, running_status
from tests.contract.samples import SAMPLES, Sample, autoscaler, config_map, quota
from tests.contract.servers import TABLE, Server

Json = dict[str, Any]
WIDE_WORKLOAD = ["*Containers", "*Images", "*Selector"]

COLUMNS: dict[str, list[str]] = {
    "namespaces": ["Name", "Status", "Age"],
    "nodes": [
        "Name",
        "Status",
        "Roles",
        "Age",
        "Version",
        "*Internal-IP",
        "*External-IP",
        "*OS-Image",
        "*Kernel-Version",
        "*Container-Runtime",
    ],
    "pods": ["Name", "Ready", "Status", "Restarts", "Age", "*IP", "*Node", "*Nominated Node", "*Readiness Gates"],
    "events": [
        "Last Seen",
        "Type",
        "Reason",
        "Object",
        "*Subobject",
        "*Source",
        "Message",
        "*First Seen",
        "*Count",
        "*Name",
    ],
    "configmaps": ["Name", "Data", "Age"],
    "limitranges": ["Name", "Created At"],
    "resourcequotas": ["Name", "Request", "Limit", "Age"],
    "services": ["Name", "Type", "Cluster-IP", "External-IP", "Port(s)", "Age", "*Selector"],
    "deployments": ["Name", "Ready", "Up-to-date", "Available", "Age", *WIDE_WORKLOAD],
    "replicasets": ["Name", "Desired", "Current", "Ready", "Age", *WIDE_WORKLOAD],
    "statefulsets": ["Name", "Ready", "Age", "*Containers", "*Images"],
    "daemonsets": [
        "Name",
        "Desired",
        "Current",
        "Ready",
        "Up-to-date",
        "Available",
        "Node Selector",
        "Age",
        *WIDE_WORKLOAD,
    ],
    "jobs": ["Name", "Status", "Completions", "Duration", "Age", *WIDE_WORKLOAD],
    "cronjobs": ["Name", "Schedule", "Timezone", "Suspend", "Active", "Last Schedule", "Age", *WIDE_WORKLOAD],
    "horizontalpodautoscalers": ["Name", "Reference", "Targets", "MinPods", "MaxPods", "Replicas", "Age"],
    "poddisruptionbudgets": ["Name", "Min Available", "Max Unavailable", "Allowed Disruptions", "Age"],
    "priorityclasses": ["Name", "Value", "Global-Default", "Age", "PreemptionPolicy"],
    "leases": ["Name", "Holder", "Age"],
    "verticalpodautoscalers": ["Name", "Mode", "CPU", "Mem", "Provided", "Age", "*MinReplicas", "*OOMSeconds"],
    "verticalpodautoscalercheckpoints": ["Name", "Age"],
    "elasticpolicies": ["Name", "Spikes", "Age"],
    "elasticnodes": ["Name", "Cgroup", "Spikes", "*Message", "Age"],
}
CELLS: dict[str, Json] = {
    "namespaces": {"Status": "Active"},
    "nodes": {
        "Status": "Ready",
        "Roles": "<none>",
        "Version": "v1.37.0",
        "Internal-IP": "<none>",
        "OS-Image": "<unknown>",
    },
    "pods": {
        "Ready": "0/1",
        "Status": "Pending",
        "Restarts": "0",
        "IP": "<none>",
        "Node": "<none>",
        "Nominated Node": "<none>",
    },
    "events": {
        "Type": "Normal",
        "Reason": "Resized",
        "Object": "pod/web-0",
        "Message": "m",
        "Source": "elastipod",
        "Count": 1,
    },
    "configmaps": {"Data": 2},
    "deployments": {"Ready": "0/1", "Up-to-date": 0, "Available": 0, "Containers": "app", "Selector": "app=it"},
    "replicasets": {"Desired": 1, "Current": 0, "Ready": 0, "Images": "registry.local/app:1"},
    "statefulsets": {"Ready": "0/1", "Containers": "app"},
    "daemonsets": {"Desired": 0, "Current": 0, "Ready": 0, "Node Selector": "<none>", "Selector": "app=it"},
    "jobs": {"Status": "Running", "Completions": "0/1", "Duration": "", "Containers": "app"},
    "cronjobs": {
        "Schedule": "0 3 * * *",
        "Timezone": "<none>",
        "Suspend": "False",
        "Active": 0,
        "Last Schedule": "<none>",
    },
    "horizontalpodautoscalers": {
        "Reference": "Deployment/web",
        "Targets": "cpu: <unknown>/60%",
        "MinPods": "1",
        "MaxPods": 3,
        "Replicas": 0,
    },
    "poddisruptionbudgets": {"Min Available": "1", "Max Unavailable": "N/A", "Allowed Disruptions": 0},
    "priorityclasses": {"Value": 7, "Global-Default": False, "PreemptionPolicy": "PreemptLowerPriority"},
    "leases": {"Holder": "a"},
    "verticalpodautoscalers": {"Mode": None, "CPU": None, "Provided": None, "MinReplicas": None},
    "elasticpolicies": {"Spikes": "Pause"},
    "elasticnodes": {"Cgroup": None},
}


def rows(table: Json) -> list[Json]:
    """Each row by its columns' names."""
    heads = [one["name"] for one in table["columnDefinitions"]]
    return [dict(zip(heads, row["cells"], strict=True)) for row in table["rows"]]


@pytest.mark.parametrize("sample", SAMPLES, ids=str)
async def test_a_kind_is_shown_in_columns(server: Server, sample: Sample) -> None:
    name = "it" if sample.resource.namespaced else server.unique("it")
    path = server.path(sample.resource)
    await server.post(path, sample.make(name, server.namespace))
    shown = await server.get(f"{path}/{name}", accept=TABLE)
    assert (shown["kind"], shown["apiVersion"]) == ("Table", "meta.k8s.io/v1")
    heads = [("*" if one["priority"] else "") + one["name"] for one in shown["columnDefinitions"]]
    assert heads == COLUMNS[sample.resource.plural]
    (row,) = rows(shown)
    assert row["Name"] == name
    wanted = CELLS.get(sample.resource.plural, {})
    assert {key: row[key] for key in wanted} == wanted
    listed = await server.get(path, accept=TABLE, fieldSelector=f"metadata.name={name}")
    assert [one["Name"] for one in rows(listed)] == [name]
    assert int(listed["metadata"]["resourceVersion"]) >= int(shown["rows"][0]["object"]["metadata"]["resourceVersion"])


@pytest.mark.parametrize("include", ["", "Metadata", "Object", "None"])
async def test_a_row_carries_what_is_asked_for(server: Server, include: str) -> None:
    await server.make_pod()
    query = {"includeObject": include} if include else {}
    shown = await server.get(server.pods, accept=TABLE, **query)
    found = shown["rows"][0].get("object")
    kinds = {"": "PartialObjectMetadata", "Metadata": "PartialObjectMetadata", "Object": "Pod"}
    assert (found or {}).get("kind") == kinds.get(include)
    assert ("spec" in (found or {})) is (include == "Object")


async def test_an_unknown_inclusion_is_refused(server: Server) -> None:
    refused = await server.refused("GET", server.pods, accept=TABLE, includeObject="Some")
    assert refused.code == 400


def state(**of: Json) -> Json:
    return {"state": of}


RUNNING = state(running={"startedAt": "2026-11-29T12:00:00Z"})
PODS: dict[str, tuple[Json, tuple[str, str, str]]] = {
    "running": ({"containerStatuses": [{"ready": True, **RUNNING}]}, ("1/1", "Running", "0")),
    "waiting": (
        {"containerStatuses": [{"ready": False, "restartCount": 3, **state(waiting={"reason": "CrashLoopBackOff"})}]},
        ("0/1", "CrashLoopBackOff", "3"),
    ),
    "killed": (
        {"containerStatuses": [{"ready": False, **state(terminated={"exitCode": 137, "reason": "OOMKilled"})}]},
        ("0/1", "OOMKilled", "0"),
    ),
    "ended without a reason": (
        {"containerStatuses": [{"ready": False, **state(terminated={"exitCode": 3})}]},
        ("0/1", "ExitCode:3", "0"),
    ),
    "ended by a signal": (
        {"containerStatuses": [{"ready": False, **state(terminated={"exitCode": 0, "signal": 9})}]},
        ("0/1", "Signal:9", "0"),
    ),
    "evicted": ({"phase": "Failed", "reason": "Evicted"}, ("0/1", "Evicted", "0")),
    "done": (
        {
            "phase": "Succeeded",
            "containerStatuses": [{"ready": False, **state(terminated={"exitCode": 0, "reason": "Completed"})}],
        },
        ("0/1", "Completed", "0"),
    ),
}


@pytest.mark.parametrize("case", PODS)
async def test_a_pod_s_row_says_how_it_is(server: Server, case: str) -> None:
    status, cells = PODS[case]
    told = [
        {"name": "app", "image": "i", "imageID": "", "restartCount": 0, **one}
        for one in status.get("containerStatuses", ())
    ]
    await server.make_pod(node="n1")
    await server.set_status(f"{server.pods}/web-0", {"phase": "Running", **status, "containerStatuses": told})
    (row,) = rows(await server.get(server.pods, accept=TABLE))
    assert (row["Ready"], row["Status"], row["Restarts"]) == cells


async def test_a_pod_that_starts_is_shown_by_its_init_containers(server: Server) -> None:
    await server.make_pod(node="n1", initContainers=[container_json("i1"), container_json("i2")])
    status = {"name": "i1", "image": "i", "imageID": "", "ready": False, "restartCount": 0, **RUNNING}
    await server.set_status(f"{server.pods}/web-0", {"phase": "Pending", "initContainerStatuses": [status]})
    (row,) = rows(await server.get(server.pods, accept=TABLE))
    assert (row["Ready"], row["Status"]) == ("0/1", "Init:0/2")


async def test_a_sidecar_counts_as_ready(server: Server) -> None:
    side = container_json("side", restartPolicy="Always")
    made = await server.make_pod(node="n1", initContainers=[side])
    status = running_status(made)
    sidecar = {
        "name": "side",
        "image": "i",
        "imageID": "",
        "ready": True,
        "started": True,
        "restartCount": 0,
        **RUNNING,
    }
    await server.set_status(f"{server.pods}/web-0", {**status, "initContainerStatuses": [sidecar]})
    (row,) = rows(await server.get(server.pods, accept=TABLE))
    assert (row["Ready"], row["Status"]) == ("2/2", "Running")


async def test_a_pod_that_goes_is_shown_so(server: Server) -> None:
    await server.make_running_pod(node="n1")
    await server.delete(f"{server.pods}/web-0")
    (row,) = rows(await server.get(server.pods, accept=TABLE))
    assert row["Status"] == "Terminating"


async def test_a_gated_pod_is_shown_so(server: Server) -> None:
    await server.make_pod(schedulingGates=[{"name": "elastipod.io/wait"}])
    (row,) = rows(await server.get(server.pods, accept=TABLE))
    assert row["Status"] == "SchedulingGated"


async def test_an_autoscaler_s_row_shows_its_target(server: Server) -> None:
    path = server.path(kube.AUTOSCALERS)
    await server.post(
        path, autoscaler("it", server.namespace, updatePolicy={"updateMode": "InPlace", "minReplicas": 2})
    )
    found = {"containerRecommendations": [{"containerName": "app", "target": {"cpu": "250m", "memory": "1Gi"}}]}
    conditions = [{"type": "RecommendationProvided", "status": "True"}]
    await server.set_status(f"{path}/it", {"recommendation": found, "conditions": conditions})
    (row,) = rows(await server.get(path, accept=TABLE))
    shown = (row["Mode"], row["CPU"], row["Mem"], row["Provided"], row["MinReplicas"])
    assert shown == ("InPlace", "250m", "1Gi", "True", 2)


async def test_a_quota_s_row_shows_what_is_used(server: Server) -> None:
    path = server.path(kube.RESOURCE_QUOTAS)
    made = await server.post(path, quota(server.namespace, pods="5", requests__cpu="1", limits__cpu="2"))
    status = {"hard": made["spec"]["hard"], "used": {"pods": "0", "requests.cpu": "0", "limits.cpu": "0"}}
    await server.set_status(f"{path}/quota", status)
    (row,) = rows(await server.get(path, accept=TABLE))
    assert (row["Request"], row["Limit"]) == ("pods: 0/5, requests.cpu: 0/1", "limits.cpu: 0/2")


async def test_a_table_comes_in_pages(server: Server) -> None:
    path = server.path(kube.CONFIG_MAPS)
    for name in "abc":
        await server.post(path, config_map(name, server.namespace))
    first = await server.get(path, accept=TABLE, limit="2")
    assert ([one["Name"] for one in rows(first)], first["metadata"]["remainingItemCount"]) == (["a", "b"], 1)
    rest = await server.get(path, accept=TABLE, **{"continue": first["metadata"]["continue"]})
    assert [one["Name"] for one in rows(rest)] == ["c"]


async def test_an_empty_table_still_has_its_columns(server: Server) -> None:
    shown = await server.get(server.pods, accept=TABLE)
    assert (shown["rows"], shown["columnDefinitions"][0]["name"]) == ([], "Name")
