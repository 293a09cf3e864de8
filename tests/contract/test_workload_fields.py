"""The rarer fields of workloads, scalers and of what a namespace prescribes, each refused by its field."""

from typing import Any

import pytest

from elastipod.kube import resources as kube
from tests.build import template_json
from tests.contract.servers import FORBIDDEN, INVALID, REQUIRED, UNSUPPORTED, Refusal, Server, invalid

Json = dict[str, Any]
Causes = set[tuple[str, str]]
LABELS = {"app": "it"}
SELECTED: Json = {"selector": {"matchLabels": LABELS}, "template": template_json(LABELS)}
ONCE: Json = {"template": template_json({}, restartPolicy="Never")}
HOURLY: Json = {"schedule": "0 * * * *", "jobTemplate": {"spec": ONCE}}
SCALES: Json = {"maxReplicas": 3, "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}}
USE: Json = {"type": "Utilization", "averageUtilization": 60}
METRIC = "spec.metrics[0]"


def rolling(**more: Any) -> Json:
    return {"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": more}}


def metric(kind: str, **more: Any) -> Json:
    return {"metrics": [{"type": kind, **more}]}


def of_cpu(**target: Any) -> Json:
    return metric("Resource", resource={"name": "cpu", "target": target})


TARGET = f"{METRIC}.resource.target"
SCHEDULES = (
    "*/0 * * * *",
    "* * * * 7",
    "5-1 * * * *",
    "* * 0 * *",
    "@every x",
    "a * * * *",
    "1-2-3 * * * *",
    "* * * *",
)
REFUSED: dict[str, tuple[kube.ResourceType, Json, Causes]] = {
    "strategy": (
        kube.STATEFUL_SETS,
        SELECTED | {"updateStrategy": {"type": "X"}},
        {("spec.updateStrategy", INVALID)},
    ),
    "partition": (
        kube.STATEFUL_SETS,
        SELECTED | rolling(partition=-1),
        {("spec.updateStrategy.rollingUpdate.partition", INVALID)},
    ),
    "none away": (
        kube.STATEFUL_SETS,
        SELECTED | rolling(maxUnavailable=0),
        {("spec.updateStrategy.rollingUpdate.maxUnavailable", INVALID)},
    ),
    "ordinals": (kube.STATEFUL_SETS, SELECTED | {"ordinals": {"start": -1}}, {("spec.ordinals.start", INVALID)}),
    "service": (kube.STATEFUL_SETS, SELECTED | {"serviceName": "A_"}, {("spec.serviceName", INVALID)}),
    "kept claims": (
        kube.STATEFUL_SETS,
        SELECTED | {"persistentVolumeClaimRetentionPolicy": {"whenDeleted": "X"}},
        {("spec.persistentVolumeClaimRetentionPolicy.whenDeleted", UNSUPPORTED)},
    ),
    "daemons' strategy": (
        kube.DAEMON_SETS,
        SELECTED | {"updateStrategy": {"type": "X"}},
        {("spec.updateStrategy", UNSUPPORTED)},
    ),
    "no daemon may move": (
        kube.DAEMON_SETS,
        SELECTED | rolling(maxUnavailable=0, maxSurge=0),
        {("spec.updateStrategy.rollingUpdate.maxUnavailable", REQUIRED)},
    ),
    "daemons without a selector": (
        kube.DAEMON_SETS,
        {"template": template_json(LABELS)},
        {("spec.template.metadata.labels", INVALID)},
    ),
    "no selector": (
        kube.JOBS,
        ONCE | {"manualSelector": True},
        {("spec.selector", REQUIRED), ("spec.template.metadata.labels", INVALID)},
    ),
    "success": (
        kube.JOBS,
        ONCE | {"successPolicy": {"rules": [{"succeededCount": 1}]}},
        {("spec.successPolicy", INVALID)},
    ),
    "replacement": (kube.JOBS, ONCE | {"podReplacementPolicy": "X"}, {("spec.podReplacementPolicy", UNSUPPORTED)}),
    "manager": (kube.JOBS, ONCE | {"managedBy": "a b"}, {("spec.managedBy", INVALID)}),
    "limit of an index": (kube.JOBS, ONCE | {"backoffLimitPerIndex": 1}, {("spec.backoffLimitPerIndex", INVALID)}),
    "failed indexes": (
        kube.JOBS,
        ONCE | {"maxFailedIndexes": 1},
        {("spec.backoffLimitPerIndex", REQUIRED), ("spec.maxFailedIndexes", INVALID)},
    ),
    "time zone": (kube.CRON_JOBS, HOURLY | {"timeZone": "Foo/Bar"}, {("spec.timeZone", INVALID)}),
    "local time": (kube.CRON_JOBS, HOURLY | {"timeZone": "Local"}, {("spec.timeZone", INVALID)}),
    **{text: (kube.CRON_JOBS, HOURLY | {"schedule": text}, {("spec.schedule", INVALID)}) for text in SCHEDULES},
    "to nothing": (kube.HORIZONTAL_POD_AUTOSCALERS, SCALES | {"minReplicas": 0}, {("spec.metrics", FORBIDDEN)}),
    "no source": (kube.HORIZONTAL_POD_AUTOSCALERS, SCALES | metric("Resource"), {(f"{METRIC}.resource", REQUIRED)}),
    "unknown source": (kube.HORIZONTAL_POD_AUTOSCALERS, SCALES | metric("X"), {(f"{METRIC}.type", UNSUPPORTED)}),
    "no use": (
        kube.HORIZONTAL_POD_AUTOSCALERS,
        SCALES | of_cpu(type="Utilization", averageUtilization=0),
        {(f"{TARGET}.averageUtilization", INVALID)},
    ),
    "use and value": (
        kube.HORIZONTAL_POD_AUTOSCALERS,
        SCALES | of_cpu(**USE, averageValue="1"),
        {(f"{TARGET}.averageValue", FORBIDDEN)},
    ),
    "no target": (
        kube.HORIZONTAL_POD_AUTOSCALERS,
        SCALES | of_cpu(type="Utilization"),
        {(f"{TARGET}.averageUtilization", REQUIRED)},
    ),
    "unknown target": (
        kube.HORIZONTAL_POD_AUTOSCALERS,
        SCALES | of_cpu(type="X", averageUtilization=5),
        {(f"{TARGET}.type", INVALID)},
    ),
    "no container": (
        kube.HORIZONTAL_POD_AUTOSCALERS,
        SCALES | metric("ContainerResource", containerResource={"name": "cpu", "target": USE}),
        {(f"{METRIC}.containerResource.container", REQUIRED)},
    ),
    "value of pods": (
        kube.HORIZONTAL_POD_AUTOSCALERS,
        SCALES | metric("Pods", pods={"metric": {"name": "a"}, "target": {"type": "Value", "value": "1"}}),
        {(f"{METRIC}.pods.target.averageValue", REQUIRED)},
    ),
    "ratio": (
        kube.LIMIT_RANGES,
        {
            "limits": [
                {"type": "Container", "max": {"cpu": "2"}, "min": {"cpu": "1"}, "maxLimitRequestRatio": {"cpu": "4"}}
            ]
        },
        {("spec.limits[0].maxLimitRequestRatio[cpu]", INVALID)},
    ),
}


@pytest.mark.parametrize("case", REFUSED)
async def test_it_is_refused_by_its_field(server: Server, case: str) -> None:
    resource, spec, causes = REFUSED[case]
    refused = await server.refused("POST", server.path(resource), {"metadata": {"name": "it"}, "spec": spec})
    assert (refused.code, refused.causes) == (422, causes)


@pytest.mark.parametrize("schedule", ["@daily", "@every 1h30m", "1/2 * * * *", "* * * JAN MON-FRI", "1,2 0-23/2 * * ?"])
async def test_a_schedule_is_taken(server: Server, schedule: str) -> None:
    spec = HOURLY | {"schedule": schedule, "timeZone": "Europe/Berlin"}
    made = await server.post(server.path(kube.CRON_JOBS), {"metadata": {"name": "it"}, "spec": spec})
    assert made["spec"]["schedule"] == schedule


async def test_what_no_resource_tells_may_scale_to_nothing(server: Server) -> None:
    far = metric("External", external={"metric": {"name": "a"}, "target": {"type": "Value", "value": "1"}})
    spec = SCALES | far | {"minReplicas": 0}
    await server.post(server.path(kube.HORIZONTAL_POD_AUTOSCALERS), {"metadata": {"name": "it"}, "spec": spec})


async def test_a_config_map_s_bytes_are_base64(server: Server) -> None:
    path = server.path(kube.CONFIG_MAPS)
    refused = await server.refused("POST", path, {"metadata": {"name": "it"}, "binaryData": {"a": "!!"}})
    assert (refused.code, refused.reason) == (400, "BadRequest")
    both = {"metadata": {"name": "it"}, "binaryData": {"a": "MQ=="}, "data": {"a": "1"}}
    assert await server.refused("POST", path, both) == invalid("ConfigMap", "it", ("data[a]", INVALID))


async def test_the_system_s_priority_classes_are_its_own(server: Server) -> None:
    name = f"system-{server.namespace}"
    refused = await server.refused("POST", kube.PRIORITY_CLASSES.path(), {"metadata": {"name": name}, "value": 5})
    assert refused == invalid("PriorityClass", name, ("metadata.name", FORBIDDEN))


async def test_a_custom_kind_is_of_its_kind(server: Server) -> None:
    wanted = {"apiVersion": kube.AUTOSCALERS.api_version, "kind": "Pod", "metadata": {"name": "it"}, "spec": {}}
    refused = await server.refused("POST", server.path(kube.AUTOSCALERS), wanted)
    assert refused == Refusal(422, "Invalid", "Pod", "it", frozenset({("kind", INVALID)}))
