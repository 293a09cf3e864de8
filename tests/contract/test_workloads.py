"""Workloads: what they must say, what is filled in, what stays as it is."""

from typing import Any

import pytest

from elastipod.kube import resources as kube
from elastipod.kube.resources import ResourceType
from tests.build import container_json, deployment_json, job_json, template_json
from tests.contract.samples import SAMPLES
from tests.contract.servers import FORBIDDEN, INVALID, MERGE, REQUIRED, UNSUPPORTED, Server

Json = dict[str, Any]
LABELS = {"app": "web"}
TEMPLATE = template_json(LABELS)


def spec(**more: Any) -> Json:
    return {"selector": {"matchLabels": LABELS}, "template": TEMPLATE, **more}


def job(**more: Any) -> Json:
    return {"template": template_json({}, restartPolicy="Never"), **more}


def cron(**more: Any) -> Json:
    return {"schedule": "0 3 * * *", "jobTemplate": {"spec": job()}, **more}


def scaler(**more: Any) -> Json:
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
    return {"scaleTargetRef": target, "maxReplicas": 3, **more}


REFUSED: dict[str, tuple[ResourceType, Json, set[tuple[str, str]] | None]] = {
    "deployment, nothing": (kube.DEPLOYMENTS, {}, None),
    "deployment, no selector": (kube.DEPLOYMENTS, {"template": TEMPLATE}, None),
    "deployment, empty selector": (kube.DEPLOYMENTS, spec(selector={}), None),
    "deployment, other labels": (
        kube.DEPLOYMENTS,
        spec(template=template_json({"app": "db"})),
        {("spec.template.metadata.labels", INVALID)},
    ),
    "deployment, negative replicas": (kube.DEPLOYMENTS, spec(replicas=-1), {("spec.replicas", INVALID)}),
    "deployment, restart policy": (
        kube.DEPLOYMENTS,
        spec(template=template_json(LABELS, restartPolicy="Never")),
        {("spec.template.spec.restartPolicy", UNSUPPORTED)},
    ),
    "deployment, deadline of the pod": (
        kube.DEPLOYMENTS,
        spec(template=template_json(LABELS, activeDeadlineSeconds=5)),
        {("spec.template.spec.activeDeadlineSeconds", FORBIDDEN)},
    ),
    "deployment, strategy": (kube.DEPLOYMENTS, spec(strategy={"type": "Magic"}), {("spec.strategy", UNSUPPORTED)}),
    "deployment, recreate with rolling": (
        kube.DEPLOYMENTS,
        spec(strategy={"type": "Recreate", "rollingUpdate": {"maxSurge": 1}}),
        {("spec.strategy.rollingUpdate", FORBIDDEN)},
    ),
    "deployment, no way to roll": (
        kube.DEPLOYMENTS,
        spec(strategy={"rollingUpdate": {"maxSurge": 0, "maxUnavailable": 0}}),
        {("spec.strategy.rollingUpdate.maxUnavailable", INVALID)},
    ),
    "deployment, more than all unavailable": (
        kube.DEPLOYMENTS,
        spec(strategy={"rollingUpdate": {"maxUnavailable": "120%"}}),
        {("spec.strategy.rollingUpdate.maxUnavailable", INVALID)},
    ),
    "deployment, bad container": (
        kube.DEPLOYMENTS,
        spec(template=template_json(LABELS, [container_json("App")])),
        {("spec.template.spec.containers[0].name", INVALID)},
    ),
    "deployment, deadline before ready": (
        kube.DEPLOYMENTS,
        spec(minReadySeconds=10, progressDeadlineSeconds=5),
        {("spec.progressDeadlineSeconds", INVALID)},
    ),
    "deployment, bad expression": (
        kube.DEPLOYMENTS,
        spec(selector={"matchExpressions": [{"key": "app", "operator": "In"}]}),
        None,
    ),
    "replica set, other labels": (
        kube.REPLICA_SETS,
        spec(template=template_json({"app": "db"})),
        {("spec.template.metadata.labels", INVALID)},
    ),
    "stateful set, policy": (
        kube.STATEFUL_SETS,
        spec(podManagementPolicy="Chaos"),
        {("spec.podManagementPolicy", INVALID)},
    ),
    "daemon set, no template": (kube.DAEMON_SETS, {"selector": {"matchLabels": LABELS}}, None),
    "job, restart policy": (
        kube.JOBS,
        job(template=template_json({}, restartPolicy="Always")),
        {("spec.template.spec.restartPolicy", REQUIRED)},
    ),
    "job, no restart policy": (
        kube.JOBS,
        job(template=template_json({})),
        {("spec.template.spec.restartPolicy", REQUIRED)},
    ),
    "job, negative": (
        kube.JOBS,
        job(parallelism=-1, completions=-1, backoffLimit=-1),
        {("spec.parallelism", INVALID), ("spec.completions", INVALID), ("spec.backoffLimit", INVALID)},
    ),
    "job, deadline": (kube.JOBS, job(activeDeadlineSeconds=-1), {("spec.activeDeadlineSeconds", INVALID)}),
    "job, selector": (kube.JOBS, job(selector={"matchLabels": {"a": "b"}}), None),
    "job, completion mode": (kube.JOBS, job(completionMode="Odd"), {("spec.completionMode", UNSUPPORTED)}),
    "cron job, schedule": (kube.CRON_JOBS, cron(schedule="now"), {("spec.schedule", INVALID)}),
    "cron job, no schedule": (kube.CRON_JOBS, cron(schedule=""), {("spec.schedule", REQUIRED)}),
    "cron job, policy": (kube.CRON_JOBS, cron(concurrencyPolicy="Maybe"), {("spec.concurrencyPolicy", UNSUPPORTED)}),
    "cron job, negative": (
        kube.CRON_JOBS,
        cron(successfulJobsHistoryLimit=-1),
        {("spec.successfulJobsHistoryLimit", INVALID)},
    ),
    "scaler, no maximum": (
        kube.HORIZONTAL_POD_AUTOSCALERS,
        scaler(maxReplicas=0),
        {("spec.maxReplicas", REQUIRED), ("spec.maxReplicas", INVALID)},
    ),
    "scaler, minimum above": (
        kube.HORIZONTAL_POD_AUTOSCALERS,
        scaler(minReplicas=5),
        {("spec.maxReplicas", INVALID)},
    ),
    "scaler, no target": (
        kube.HORIZONTAL_POD_AUTOSCALERS,
        {"maxReplicas": 3},
        {
            ("spec.scaleTargetRef.kind", REQUIRED),
            ("spec.scaleTargetRef.name", REQUIRED),
            ("spec.scaleTargetRef.apiVersion", INVALID),
        },
    ),
    "service, no ports": (kube.SERVICES, {"selector": LABELS}, {("spec.ports", REQUIRED)}),
    "service, port": (
        kube.SERVICES,
        {"ports": [{"port": 0}]},
        {("spec.ports[0].port", INVALID), ("spec.ports[0].targetPort", INVALID)},
    ),
    "service, type": (kube.SERVICES, {"type": "Magic", "ports": [{"port": 80}]}, {("spec.type", UNSUPPORTED)}),
    "lease, no time": (kube.LEASES, {"leaseDurationSeconds": 0}, {("spec.leaseDurationSeconds", INVALID)}),
    "lease, negative transitions": (kube.LEASES, {"leaseTransitions": -1}, {("spec.leaseTransitions", INVALID)}),
}


@pytest.mark.parametrize("case", REFUSED)
async def test_a_workload_is_refused_by_its_field(server: Server, case: str) -> None:
    resource, wanted, causes = REFUSED[case]
    refused = await server.refused("POST", server.path(resource), {"metadata": {"name": "it"}, "spec": wanted})
    assert (refused.code, refused.reason, refused.kind, refused.name) == (422, "Invalid", resource.kind, "it")
    if causes is not None:
        assert refused.causes == causes


@pytest.mark.parametrize("value", [-5, 1_000_000_001])
async def test_a_user_s_priority_has_a_limit(server: Server, value: int) -> None:
    wanted = {"metadata": {"name": server.unique("high")}, "value": value}
    answer = await server.call("POST", kube.PRIORITY_CLASSES.path(), wanted)
    if value < 0:
        assert answer.code == 201
    else:
        assert (answer.code, answer.json["details"]["causes"][0]["field"]) == (422, "value")


async def test_a_priority_class_stays_as_it_is(server: Server) -> None:
    name = server.unique("high")
    made = await server.post(kube.PRIORITY_CLASSES.path(), {"metadata": {"name": name}, "value": 5})
    assert made["preemptionPolicy"] == "PreemptLowerPriority"
    refused = await server.refused("PATCH", f"{kube.PRIORITY_CLASSES.path()}/{name}", {"value": 6}, content_type=MERGE)
    assert (refused.code, refused.fields) == (422, {"value"})


async def test_a_deployment_is_filled_in(server: Server) -> None:
    made = await server.post(server.path(kube.DEPLOYMENTS), {"metadata": {"name": "it"}, "spec": spec()})
    found = made["spec"]
    assert {key: found.get(key) for key in ("replicas", "progressDeadlineSeconds", "revisionHistoryLimit")} == {
        "replicas": 1,
        "progressDeadlineSeconds": 600,
        "revisionHistoryLimit": 10,
    }
    assert found["strategy"] == {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"}}
    pod = found["template"]["spec"]
    assert (pod["restartPolicy"], pod["dnsPolicy"], pod["schedulerName"]) == (
        "Always",
        "ClusterFirst",
        "default-scheduler",
    )
    assert (pod["terminationGracePeriodSeconds"], pod["securityContext"]) == (30, {})
    container = pod["containers"][0]
    assert (container["terminationMessagePath"], container["terminationMessagePolicy"]) == (
        "/dev/termination-log",
        "File",
    )
    assert container["imagePullPolicy"] == "IfNotPresent"


async def test_a_stateful_set_is_filled_in(server: Server) -> None:
    made = await server.post(server.path(kube.STATEFUL_SETS), {"metadata": {"name": "it"}, "spec": spec()})
    found = {
        key: made["spec"].get(key)
        for key in ("replicas", "podManagementPolicy", "updateStrategy", "revisionHistoryLimit")
    }
    assert found == {
        "replicas": 1,
        "podManagementPolicy": "OrderedReady",
        "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 0, "maxUnavailable": 1}},
        "revisionHistoryLimit": 10,
    }


async def test_a_job_is_filled_in_and_given_a_selector(server: Server) -> None:
    made = await server.post(server.path(kube.JOBS), job_json("it", server.namespace))
    uid = made["metadata"]["uid"]
    found = {
        key: made["spec"].get(key)
        for key in ("parallelism", "completions", "backoffLimit", "suspend", "completionMode")
    }
    assert found == {
        "parallelism": 1,
        "completions": 1,
        "backoffLimit": 6,
        "suspend": False,
        "completionMode": "NonIndexed",
    }
    assert made["spec"]["selector"] == {"matchLabels": {"batch.kubernetes.io/controller-uid": uid}}
    assert (made["spec"]["manualSelector"], made["spec"]["podReplacementPolicy"]) == (False, "TerminatingOrFailed")
    assert made["metadata"]["labels"] == made["spec"]["template"]["metadata"]["labels"]
    labels = made["spec"]["template"]["metadata"]["labels"]
    assert {key: labels.get(key) for key in ("batch.kubernetes.io/job-name", "job-name", "controller-uid")} == {
        "batch.kubernetes.io/job-name": "it",
        "job-name": "it",
        "controller-uid": uid,
    }


async def test_a_cron_job_is_filled_in(server: Server) -> None:
    made = await server.post(server.path(kube.CRON_JOBS), {"metadata": {"name": "it"}, "spec": cron()})
    found = made["spec"]
    assert (found["concurrencyPolicy"], found["suspend"]) == ("Allow", False)
    assert (found["successfulJobsHistoryLimit"], found["failedJobsHistoryLimit"]) == (3, 1)


async def test_a_service_is_filled_in(server: Server) -> None:
    wanted = {"metadata": {"name": "it"}, "spec": {"ports": [{"port": 80}], "clusterIP": "None"}}
    made = await server.post(server.path(kube.SERVICES), wanted)
    assert made["spec"]["internalTrafficPolicy"] == "Cluster"
    assert made["spec"]["ports"] == [{"port": 80, "protocol": "TCP", "targetPort": 80}]
    assert (made["spec"]["type"], made["spec"]["sessionAffinity"]) == ("ClusterIP", "None")


async def test_a_scaler_is_filled_in(server: Server) -> None:
    wanted = {"metadata": {"name": "it"}, "spec": scaler()}
    made = await server.post(server.path(kube.HORIZONTAL_POD_AUTOSCALERS), wanted)
    assert made["spec"]["minReplicas"] == 1
    target = {"type": "Utilization", "averageUtilization": 80}
    assert made["spec"]["metrics"] == [{"type": "Resource", "resource": {"name": "cpu", "target": target}}]


@pytest.mark.parametrize(
    ("resource", "change", "fields"),
    [
        (kube.STATEFUL_SETS, {"serviceName": "other"}, {"spec.serviceName"}),
        (kube.STATEFUL_SETS, {"podManagementPolicy": "Parallel"}, {"spec.podManagementPolicy"}),
        (kube.JOBS, {"completions": 5}, {"spec.completions"}),
        (kube.JOBS, {"template": {"spec": {"nodeSelector": {"a": "b"}}}}, {"spec.template"}),
        (kube.JOBS, {"completionMode": "Indexed"}, {"spec.completionMode"}),
    ],
    ids=["serviceName", "podManagementPolicy", "completions", "template", "completionMode"],
)
async def test_some_of_a_workload_stays_as_it_is(
    server: Server, resource: ResourceType, change: Json, fields: set
) -> None:
    sample = next(one for one in SAMPLES if one.resource is resource)
    await server.post(server.path(resource), sample.make("it", server.namespace))
    refused = await server.refused("PATCH", f"{server.path(resource)}/it", {"spec": change}, content_type=MERGE)
    assert (refused.code, refused.fields) == (422, fields)


@pytest.mark.parametrize(
    "resource", [kube.DEPLOYMENTS, kube.REPLICA_SETS, kube.DAEMON_SETS], ids=lambda one: one.plural
)
async def test_a_selector_stays_as_it_is(server: Server, resource: ResourceType) -> None:
    sample = next(one for one in SAMPLES if one.resource is resource)
    await server.post(server.path(resource), sample.make("it", server.namespace))
    change = {"selector": {"matchLabels": {"b": "c"}}, "template": {"metadata": {"labels": {"b": "c"}}}}
    refused = await server.refused("PATCH", f"{server.path(resource)}/it", {"spec": change}, content_type=MERGE)
    assert refused.causes == {("spec.selector", INVALID)}


async def test_a_change_of_the_spec_raises_the_generation(server: Server) -> None:
    path = server.path(kube.DEPLOYMENTS)
    await server.post(path, deployment_json("it", server.namespace))
    changed = await server.patch(f"{path}/it", {"spec": {"replicas": 3}}, MERGE)
    assert changed["metadata"]["generation"] == 2
    changed = await server.patch(f"{path}/it", {"metadata": {"annotations": {"a": "b"}}}, MERGE)
    assert changed["metadata"]["generation"] == 3
    changed = await server.patch(f"{path}/it", {"metadata": {"labels": {"a": "b"}}}, MERGE)
    assert changed["metadata"]["generation"] == 3
