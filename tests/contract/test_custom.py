"""VPA's kinds and our own: what their definitions refuse, drop and keep."""

from typing import Any

import pytest

from elastipod.kube import resources as kube
from tests.contract.samples import autoscaler
from tests.contract.servers import INVALID, JSON_PATCH, MERGE, REQUIRED, UNSUPPORTED, WRONG_TYPE, Refusal, Server

Json = dict[str, Any]
POLICY = "spec.resourcePolicy.containerPolicies[0]"
Causes = set[tuple[str, str]]
UNCHECKED = ("<nil>", INVALID)


def bare(resource: kube.ResourceType, name: str) -> Json:
    return {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": {"name": name}}


def update(**policy: Any) -> Json:
    return {"updatePolicy": policy}


def container(**policy: Any) -> Json:
    return {"resourcePolicy": {"containerPolicies": [{"containerName": "*", **policy}]}}


def boost(**cpu: Any) -> Json:
    return {"startupBoost": {"cpu": cpu}}


REFUSED: dict[str, tuple[Json, Causes]] = {
    "no target": ({"targetRef": None}, {("spec.targetRef", REQUIRED)}),
    "empty target": ({"targetRef": {}}, {("spec.targetRef.kind", REQUIRED), ("spec.targetRef.name", REQUIRED)}),
    "target of a wrong type": ({"targetRef": "web"}, {("spec.targetRef", WRONG_TYPE)}),
    "target's name": ({"targetRef": {"kind": "Deployment", "name": 7}}, {("spec.targetRef.name", WRONG_TYPE)}),
    "no mode": (update(), {("spec.updatePolicy.updateMode", REQUIRED)}),
    "unknown mode": (update(updateMode="Sometimes"), {("spec.updatePolicy.updateMode", UNSUPPORTED)}),
    "mode off as YAML has it": (
        update(updateMode=False),
        {("spec.updatePolicy.updateMode", WRONG_TYPE), ("spec.updatePolicy.updateMode", UNSUPPORTED)},
    ),
    "no replicas": (update(updateMode="Off", minReplicas=0), {("spec.updatePolicy.minReplicas", INVALID)}),
    "replicas as text": (update(updateMode="Off", minReplicas="2"), {("spec.updatePolicy.minReplicas", WRONG_TYPE)}),
    "replicas in pieces": (update(updateMode="Off", minReplicas=1.5), {("spec.updatePolicy.minReplicas", WRONG_TYPE)}),
    "eviction requirement": (
        update(updateMode="Off", evictionRequirements=[{"resources": ["disk"], "changeRequirement": "No"}]),
        {
            ("spec.updatePolicy.evictionRequirements[0].resources[0]", UNSUPPORTED),
            ("spec.updatePolicy.evictionRequirements[0].changeRequirement", UNSUPPORTED),
        },
    ),
    "two recommenders": (
        {"recommenders": [{"name": "a"}, {"name": "b"}]},
        {("spec.recommenders", "FieldValueTooMany")},
    ),
    "nameless recommender": ({"recommenders": [{}]}, {("spec.recommenders[0].name", REQUIRED)}),
    "no container name": ({"resourcePolicy": {"containerPolicies": [{}]}}, {(f"{POLICY}.containerName", REQUIRED)}),
    "empty container name": (container(containerName=""), {(f"{POLICY}.containerName", INVALID)}),
    "container mode": (container(mode="On"), {(f"{POLICY}.mode", UNSUPPORTED)}),
    "policies that are no list": (
        {"resourcePolicy": {"containerPolicies": {}}},
        {("spec.resourcePolicy.containerPolicies", WRONG_TYPE)},
    ),
    "amount": (
        container(maxAllowed={"cpu": "much"}),
        {(f"{POLICY}.maxAllowed", INVALID), (f"{POLICY}.maxAllowed.cpu", INVALID)},
    ),
    "amount below zero": (
        container(maxAllowed={"cpu": "-1"}),
        {(f"{POLICY}.maxAllowed", INVALID), (f"{POLICY}.maxAllowed.cpu", INVALID)},
    ),
    "amount that is true": (container(maxAllowed={"cpu": True}), {(f"{POLICY}.maxAllowed.cpu", WRONG_TYPE)}),
    "half a milli CPU": (container(minAllowed={"cpu": "0.5m"}), {(f"{POLICY}.minAllowed", INVALID)}),
    "half a byte": (container(maxAllowed={"memory": "1500m"}), {(f"{POLICY}.maxAllowed", INVALID)}),
    "minimum above maximum": (container(minAllowed={"cpu": "2"}, maxAllowed={"cpu": "1"}), {(POLICY, INVALID)}),
    "resource": (container(controlledResources=["disk"]), {(f"{POLICY}.controlledResources[0]", UNSUPPORTED)}),
    "values": (container(controlledValues="All"), {(f"{POLICY}.controlledValues", UNSUPPORTED)}),
    "limits of what is off": (container(mode="Off", controlledValues="RequestsAndLimits"), {(POLICY, INVALID)}),
    "bump below one": (container(oomBumpUpRatio="0.9"), {(f"{POLICY}.oomBumpUpRatio", INVALID)}),
    "bump below zero": (container(oomMinBumpUp="-1"), {(f"{POLICY}.oomMinBumpUp", INVALID)}),
    "no intervals": (
        container(memoryAggregationIntervalCount=0),
        {(f"{POLICY}.memoryAggregationIntervalCount", INVALID)},
    ),
    "boost without its factor": (boost(type="Factor"), {("spec.startupBoost.cpu", INVALID)}),
    "boost of two sorts": (boost(type="Factor", factor=2, quantity="1"), {("spec.startupBoost.cpu", INVALID)}),
    "boost of no sort": (boost(factor=2), {("spec.startupBoost.cpu.type", REQUIRED)}),
    "boost factor": (boost(type="Factor", factor=0), {("spec.startupBoost.cpu.factor", INVALID)}),
}


REFUSED |= {
    "half a processor": (container(minAllowed={"cpu": 0.5}), {(f"{POLICY}.minAllowed.cpu", WRONG_TYPE)}),
    "a float in a rule": (container(maxAllowed={"memory": 2.0}), {(f"{POLICY}.maxAllowed", INVALID)}),
    "half a ratio": (container(oomBumpUpRatio=1.5), {(f"{POLICY}.oomBumpUpRatio", WRONG_TYPE)}),
    "a float as ratio": (container(oomBumpUpRatio=2.0), {(f"{POLICY}.oomBumpUpRatio", INVALID)}),
    "half a boost": (boost(type="Quantity", quantity=0.5), {("spec.startupBoost.cpu.quantity", WRONG_TYPE)}),
    "a float as boost": (boost(type="Factor", factor=2.0), {("spec.startupBoost.cpu", INVALID)}),
    "too many replicas": (update(updateMode="Off", minReplicas=3_000_000_000), set()),
}


@pytest.mark.parametrize("case", REFUSED)
async def test_an_autoscaler_is_refused_by_its_field(server: Server, case: str) -> None:
    spec, causes = REFUSED[case]
    refused = await server.refused("POST", server.path(kube.AUTOSCALERS), autoscaler("it", server.namespace, **spec))
    assert (refused.code, refused.reason, refused.kind, refused.name) == (422, "Invalid", "VerticalPodAutoscaler", "it")
    # Where the shape is wrong, a definition with rules says that these were not looked at.
    assert refused.causes - {UNCHECKED} == causes
    if any(reason != INVALID for _, reason in causes):
        assert UNCHECKED in refused.causes


async def test_a_whole_number_may_be_written_with_a_point(server: Server) -> None:
    wanted = autoscaler("it", server.namespace, **update(updateMode="Off", minReplicas=2.0))
    assert (await server.post(server.path(kube.AUTOSCALERS), wanted))["spec"] == wanted["spec"]


@pytest.mark.parametrize(
    ("status", "causes"),
    [
        (
            {"conditions": [{"type": "a", "status": "True", "lastTransitionTime": "yesterday"}]},
            {("status.conditions[0].lastTransitionTime", WRONG_TYPE)},
        ),
        (
            {"recommendation": {"containerRecommendations": [{"containerName": "a", "target": {"cpu": 0.5}}]}},
            {("status.recommendation.containerRecommendations[0].target.cpu", WRONG_TYPE), ("status", INVALID)},
        ),
    ],
    ids=["instant", "float"],
)
async def test_a_reported_status_of_a_wrong_type_is_refused(server: Server, status: Json, causes: Causes) -> None:
    path = server.path(kube.AUTOSCALERS)
    await server.post(path, autoscaler("it", server.namespace))
    refused = await server.refused("PATCH", f"{path}/it/status", {"status": status}, content_type=MERGE)
    assert (refused.code, refused.causes - {UNCHECKED}) == (422, causes)


@pytest.mark.parametrize("instant", ["2026-01-01T00:00:00Z", "2026-01-01t00:00:00.5+01:00"])
async def test_a_reported_instant_may_have_a_fraction_and_a_zone(server: Server, instant: str) -> None:
    path = server.path(kube.AUTOSCALERS)
    await server.post(path, autoscaler("it", server.namespace))
    told = [{"type": "a", "status": "True", "lastTransitionTime": instant}]
    assert (await server.set_status(f"{path}/it", {"conditions": told}))["status"]["conditions"] == told


async def test_an_autoscaler_needs_a_spec(server: Server) -> None:
    refused = await server.refused("POST", server.path(kube.AUTOSCALERS), bare(kube.AUTOSCALERS, "it"))
    assert (refused.code, refused.causes - {UNCHECKED}) == (422, {("spec", REQUIRED)})


TAKEN: dict[str, Json] = {
    "plain": {},
    "mode": update(updateMode="InPlace", minReplicas=1),
    "recommender": {"recommenders": [{"name": "elastipod"}]},
    "amounts": container(minAllowed={"cpu": 1, "memory": "64Mi"}, maxAllowed={"cpu": "1.5", "memory": "1e9"}),
    "off": container(mode="Off", controlledValues="RequestsOnly", controlledResources=["cpu"]),
    "bump": container(oomBumpUpRatio="1.5", oomMinBumpUp="100Mi"),
    "boost": boost(type="Quantity", quantity="500m", durationSeconds=0),
}


@pytest.mark.parametrize("case", TAKEN)
async def test_an_autoscaler_is_kept_as_it_was_written(server: Server, case: str) -> None:
    wanted = autoscaler("it", server.namespace, **TAKEN[case])
    assert (await server.post(server.path(kube.AUTOSCALERS), wanted))["spec"] == wanted["spec"]


async def test_a_change_is_held_to_the_same(server: Server) -> None:
    path = server.path(kube.AUTOSCALERS)
    await server.post(path, autoscaler("it", server.namespace))
    refused = await server.refused(
        "PATCH", f"{path}/it", {"spec": {"updatePolicy": {"updateMode": "X"}}}, content_type=MERGE
    )
    assert (refused.code, refused.causes - {UNCHECKED}) == (422, {("spec.updatePolicy.updateMode", UNSUPPORTED)})
    changed = await server.patch(f"{path}/it", {"spec": {"updatePolicy": {"updateMode": "Off"}}}, MERGE)
    assert changed["metadata"]["generation"] == 2


async def test_a_field_that_no_one_knows_is_dropped_or_refused_as_asked(server: Server) -> None:
    path = server.path(kube.AUTOSCALERS)
    wanted = autoscaler("it", server.namespace, updatePolicy={"updateMode": "Off", "updateMod": "Auto"}, extra=1)
    refused = await server.refused("POST", path, wanted, fieldValidation="Strict")
    assert (refused.code, refused.reason) == (400, "BadRequest")
    assert 'unknown field "spec.extra"' in refused
    assert 'unknown field "spec.updatePolicy.updateMod"' in refused
    answer = await server.call("POST", path, wanted)
    assert answer.code == 201
    assert answer.json["spec"]["updatePolicy"] == {"updateMode": "Off"}
    assert "extra" not in answer.json["spec"]
    assert any('unknown field \\"spec.extra\\"' in one for one in answer.warnings)
    changed = await server.patch(f"{path}/it", {"spec": {"extra": 1}}, MERGE, fieldValidation="Ignore")
    assert (changed["metadata"]["generation"], "extra" in changed["spec"]) == (1, False)


async def test_a_field_at_the_root_that_no_one_knows_is_dropped(server: Server) -> None:
    wanted = {**autoscaler("it", server.namespace), "extra": 1}
    assert "extra" not in await server.post(server.path(kube.AUTOSCALERS), wanted)


async def test_a_status_is_held_to_its_shape(server: Server) -> None:
    path = server.path(kube.AUTOSCALERS)
    await server.post(path, autoscaler("it", server.namespace))
    names = ("app", "app.2-cpus-amd64")
    sizes = [{"containerName": name, "target": {"cpu": "1"}} for name in names]
    told = {"recommendation": {"containerRecommendations": sizes}}
    assert (await server.set_status(f"{path}/it", told))["status"] == told
    wrong = {"recommendation": {"containerRecommendations": [{"containerName": "app"}]}}
    refused = await server.refused("PATCH", f"{path}/it/status", {"status": wrong}, content_type=MERGE)
    assert refused.causes - {UNCHECKED} == {("status.recommendation.containerRecommendations[0].target", REQUIRED)}


async def test_a_checkpoint_keeps_its_histogram_and_needs_no_status_path(server: Server) -> None:
    histogram = {
        "referenceTimestamp": "2026-11-29T00:00:00Z",
        "bucketWeights": {"1": 10000, "7": 2},
        "totalWeight": 1.5,
    }
    wanted = {
        **bare(kube.CHECKPOINTS, "it"),
        "spec": {"vpaObjectName": "web", "containerName": "app"},
        "status": {"version": "v3", "cpuHistogram": histogram, "totalSamplesCount": 3, "lastSampleStart": None},
    }
    made = await server.post(server.path(kube.CHECKPOINTS), wanted)
    assert made["status"]["cpuHistogram"] == histogram
    assert made["metadata"]["generation"] == 1
    changed = await server.patch(f"{server.path(kube.CHECKPOINTS)}/it", {"status": {"totalSamplesCount": 4}}, MERGE)
    assert (changed["status"]["totalSamplesCount"], changed["metadata"]["generation"]) == (4, 2)


async def test_a_json_patch_of_a_checkpoint_holds_for_one_version(server: Server) -> None:
    path = server.path(kube.CHECKPOINTS)
    made = await server.post(path, {**bare(kube.CHECKPOINTS, "it"), "status": {"version": "v3"}})
    version = {"op": "add", "path": "/metadata/resourceVersion", "value": made["metadata"]["resourceVersion"]}
    count = {"op": "add", "path": "/status", "value": {"version": "v3", "totalSamplesCount": 4}}
    assert (await server.patch(f"{path}/it", [version, count], JSON_PATCH))["status"]["totalSamplesCount"] == 4
    refused = await server.refused("PATCH", f"{path}/it", [version, count], content_type=JSON_PATCH)
    assert refused == Refusal(409, "Conflict", kube.CHECKPOINTS.plural, "it")
    beside = {"op": "add", "path": "/metadata/annotations/a", "value": "b"}
    refused = await server.refused("PATCH", f"{path}/it", [version, beside], content_type=JSON_PATCH)
    assert (refused.code, refused.reason) == (422, "Invalid")


@pytest.mark.parametrize(
    ("spec", "causes"),
    [
        ({"memorySpike": {"mode": "Hope"}}, {("spec.memorySpike.mode", UNSUPPORTED)}),
        ({"memorySpike": {"maxAllowed": "0"}}, {("spec.memorySpike.maxAllowed", INVALID)}),
        ({"memorySpike": {"maxAllowed": "lots"}}, {("spec.memorySpike.maxAllowed", INVALID)}),
        ({"donate": "yes"}, {("spec.donate", WRONG_TYPE)}),
        ({"sizes": "ByPod"}, {("spec.sizes", UNSUPPORTED)}),
        ({"selector": {"matchLabels": {"a": 1}}}, {("spec.selector.matchLabels.a", WRONG_TYPE)}),
    ],
    ids=["mode", "zero", "amount", "donate", "sizes", "labels"],
)
async def test_a_policy_is_refused_by_its_field(server: Server, spec: Json, causes: Causes) -> None:
    refused = await server.refused(
        "POST", server.path(kube.ELASTIC_POLICIES), {**bare(kube.ELASTIC_POLICIES, "it"), "spec": spec}
    )
    assert (refused.code, refused.causes - {UNCHECKED}) == (422, causes)


async def test_a_custom_object_says_what_it_is(server: Server) -> None:
    for field in ("kind", "apiVersion"):
        wanted = {key: value for key, value in autoscaler("it", server.namespace).items() if key != field}
        refused = await server.refused("POST", server.path(kube.AUTOSCALERS), wanted)
        assert (refused.code, refused.reason) == (400, "BadRequest")


async def test_an_elastic_node_s_sizes_are_amounts(server: Server) -> None:
    wanted = [{"namespace": "a", "pod": "p", "container": "c", "requests": {"cpu": "-1"}}]
    body = {**bare(kube.ELASTIC_NODES, server.unique("n1")), "spec": {"wanted": wanted}}
    refused = await server.refused("POST", kube.ELASTIC_NODES.path(), body)
    assert (refused.code, refused.causes) == (422, {("spec.wanted[0].requests.cpu", INVALID)})


async def test_an_elastic_node_s_status_is_told_alone(server: Server) -> None:
    name = server.unique("n1")
    await server.post(kube.ELASTIC_NODES.path(), {**bare(kube.ELASTIC_NODES, name), "spec": {"wanted": []}})
    told = await server.set_status(f"{kube.ELASTIC_NODES.path()}/{name}", {"cgroupVersion": "v2", "nonsense": 1})
    assert told["status"] == {"cgroupVersion": "v2"}
