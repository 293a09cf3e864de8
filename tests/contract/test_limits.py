"""LimitRange and ResourceQuota: what a namespace prescribes, fills in and counts."""

from typing import Any

import pytest

from elastipod.kube import resources as kube
from tests.build import container_json, pod_json
from tests.contract.samples import limit_range, quota
from tests.contract.servers import FORBIDDEN, INVALID, STRATEGIC, Refusal, Server

Json = dict[str, Any]


def sized(requests: Json | None = None, limits: Json | None = None, name: str = "app") -> Json:
    return {**container_json(name), "resources": {"requests": requests or {}, "limits": limits or {}}}


async def test_defaults_are_filled_in(server: Server) -> None:
    await server.limit(default={"cpu": "1", "memory": "1Gi"}, defaultRequest={"cpu": "100m"})
    made = await server.make_pod(cpu=None, memory=None)
    assert made["spec"]["containers"][0]["resources"] == {
        "limits": {"cpu": "1", "memory": "1Gi"},
        "requests": {"cpu": "100m", "memory": "1Gi"},
    }
    told = made["metadata"]["annotations"]["kubernetes.io/limit-ranger"]
    assert told == "LimitRanger plugin set: cpu, memory request for container app; cpu, memory limit for container app"


async def test_what_is_stated_stays(server: Server) -> None:
    await server.limit(default={"cpu": "1"}, defaultRequest={"cpu": "100m"})
    made = await server.make_pod(cpu="200m", cpu_limit="300m")
    assert made["spec"]["containers"][0]["resources"]["requests"]["cpu"] == "200m"
    assert "annotations" not in made["metadata"]


async def test_a_limit_range_fills_in_itself(server: Server) -> None:
    made = await server.post(
        server.path(kube.LIMIT_RANGES), limit_range(server.namespace, max={"cpu": "2"}, min={"memory": "64Mi"})
    )
    item = made["spec"]["limits"][0]
    assert item["default"] == {"cpu": "2"}
    assert item["defaultRequest"] == {"cpu": "2", "memory": "64Mi"}


@pytest.mark.parametrize(
    ("kind", "amounts", "requests", "limits", "words"),
    [
        (
            "Container",
            {"max": {"cpu": "1"}},
            {"cpu": "1"},
            {"cpu": "2"},
            "maximum cpu usage per Container is 1, but limit is 2",
        ),
        (
            "Container",
            {"min": {"cpu": "1"}},
            {"cpu": "500m"},
            {"cpu": "2"},
            "minimum cpu usage per Container is 1, but request is 500m",
        ),
        (
            "Container",
            {"maxLimitRequestRatio": {"memory": "2"}},
            {"memory": "1Gi"},
            {"memory": "3Gi"},
            "memory max limit to request ratio per Container is 2, but provided ratio is 3.000000",
        ),
        (
            "Pod",
            {"max": {"memory": "1Gi"}},
            {"memory": "1Gi"},
            {"memory": "2Gi"},
            "maximum memory usage per Pod is 1Gi, but limit is 2Gi",
        ),
        ("Pod", {"min": {"cpu": "1"}}, {"cpu": "500m"}, {}, "minimum cpu usage per Pod is 1, but request is 500m"),
        ("Pod", {"max": {"cpu": "1"}}, {"cpu": "500m"}, {}, "maximum cpu usage per Pod is 1.  No limit is specified"),
        ("Pod", {"min": {"cpu": "1"}}, {}, {}, "minimum cpu usage per Pod is 1.  No request is specified"),
    ],
    ids=["max", "min", "ratio", "pod-max", "pod-min", "pod-no-limit", "pod-no-request"],
)
async def test_what_is_out_of_range_is_forbidden(
    server: Server, kind: str, amounts: Json, requests: Json, limits: Json, words: str
) -> None:
    await server.limit(kind=kind, **amounts)
    refused = await server.refused(
        "POST", server.pods, pod_json("it", server.namespace, containers=[sized(requests, limits)])
    )
    assert refused == Refusal(403, "Forbidden", "pods", "it")
    assert words in refused


async def test_init_containers_are_in_range_too(server: Server) -> None:
    await server.limit(max={"cpu": "1"})
    wanted = pod_json("it", server.namespace, initContainers=[sized({"cpu": "1"}, {"cpu": "2"}, "init")])
    assert (await server.refused("POST", server.pods, wanted)).code == 403


async def test_a_plain_update_is_not_held_to_a_newer_range(server: Server) -> None:
    await server.make_pod(cpu="2")
    await server.limit(max={"cpu": "1"})
    patched = await server.patch(f"{server.pods}/web-0", {"metadata": {"labels": {"a": "b"}}})
    assert patched["metadata"]["labels"] == {"a": "b"}


@pytest.mark.parametrize(
    ("item", "causes"),
    [
        ({"type": "Pod", "default": {"cpu": "1"}}, {("spec.limits[0].default", FORBIDDEN)}),
        ({"type": "Container", "min": {"cpu": "2"}, "max": {"cpu": "1"}}, None),
        ({"type": "Container", "default": {"cpu": "2"}, "max": {"cpu": "1"}}, None),
        (
            {"type": "Container", "maxLimitRequestRatio": {"cpu": "500m"}},
            {("spec.limits[0].maxLimitRequestRatio[cpu]", INVALID)},
        ),
        ({"type": "Galaxy", "max": {"cpu": "1"}}, None),
        ({"max": {"cpu": "1"}}, None),
        ({"type": "Container", "max": {"unknown": "1"}}, None),
    ],
)
async def test_a_limit_range_is_checked(server: Server, item: Json, causes: set | None) -> None:
    wanted = {"metadata": {"name": "it"}, "spec": {"limits": [item]}}
    refused = await server.refused("POST", server.path(kube.LIMIT_RANGES), wanted)
    assert (refused.code, refused.reason) == (422, "Invalid")
    if causes is not None:
        assert refused.causes == causes


async def has_quota(server: Server, used: Json | None = None, **hard: str) -> str:
    """A quota that its controller has looked at."""
    path = server.path(kube.RESOURCE_QUOTAS)
    made = await server.post(path, quota(server.namespace, **hard))
    stated = made["spec"]["hard"]
    await server.set_status(f"{path}/quota", {"hard": stated, "used": dict.fromkeys(stated, "0") | (used or {})})
    return f"{path}/quota"


async def test_a_quota_counts_pods(server: Server) -> None:
    path = await has_quota(server, pods="2", requests__cpu="1", limits__memory="1Gi")
    for name in ("a", "b"):
        await server.make_pod(name, cpu="100m", memory_limit="128Mi")
    assert (await server.get(path))["status"]["used"] == {"pods": "2", "requests.cpu": "200m", "limits.memory": "256Mi"}
    refused = await server.refused(
        "POST", server.pods, pod_json("c", server.namespace, cpu="100m", memory_limit="128Mi")
    )
    assert refused == Refusal(403, "Forbidden", "pods", "c")
    assert "exceeded quota: quota, requested: pods=1, used: pods=2, limited: pods=2" in refused


async def test_a_quota_that_names_a_resource_wants_it_stated(server: Server) -> None:
    await has_quota(server, limits__cpu="1", requests__memory="1Gi")
    refused = await server.refused("POST", server.pods, pod_json("a", server.namespace, memory=None))
    assert refused == Refusal(403, "Forbidden", "pods", "a")
    assert "failed quota: quota: must specify limits.cpu for: app; requests.memory for: app" in refused


async def test_a_quota_tells_all_that_is_too_much(server: Server) -> None:
    await has_quota(server, requests__cpu="1", requests__memory="1Gi")
    refused = await server.refused("POST", server.pods, pod_json("a", server.namespace, cpu="2", memory="2Gi"))
    assert "requested: requests.cpu=2,requests.memory=2Gi, used: requests.cpu=0,requests.memory=0" in refused
    assert "limited: requests.cpu=1,requests.memory=1Gi" in refused


async def test_a_dry_run_is_counted_but_not_kept(server: Server) -> None:
    path = await has_quota(server, pods="1")
    await server.post(server.pods, pod_json("a", server.namespace), dryRun="All")
    assert (await server.get(path))["status"]["used"] == {"pods": "0"}
    await server.make_pod("b")
    assert (await server.refused("POST", server.pods, pod_json("c", server.namespace), dryRun="All")).code == 403


async def test_a_resize_is_counted_by_what_is_more(server: Server) -> None:
    path = await has_quota(server, requests__cpu="300m")
    await server.make_pod(cpu="100m")
    resize = server.path(kube.PODS, "web-0", "resize")

    def asked(cpu: str) -> Json:
        return {"spec": {"containers": [{"name": "app", "resources": {"requests": {"cpu": cpu}}}]}}

    await server.patch(resize, asked("250m"))
    assert (await server.get(path))["status"]["used"] == {"requests.cpu": "250m"}
    refused = await server.refused("PATCH", resize, asked("350m"), content_type=STRATEGIC)
    assert refused == Refusal(403, "Forbidden", "pods", "web-0")
    assert (
        "exceeded quota: quota, requested: requests.cpu=100m, used: requests.cpu=250m, limited: requests.cpu=300m"
        in refused
    )


@pytest.mark.parametrize(
    ("hard", "causes"),
    [
        ({"cpu": "-1"}, {("spec.hard[cpu]", INVALID)}),
        ({"pods": "1.5"}, {("spec.hard[pods]", INVALID)}),
        ({"unknown": "1"}, {("spec.hard[unknown]", INVALID)}),
    ],
)
async def test_a_quota_is_checked(server: Server, hard: Json, causes: set) -> None:
    wanted = {"metadata": {"name": "it"}, "spec": {"hard": hard}}
    refused = await server.refused("POST", server.path(kube.RESOURCE_QUOTAS), wanted)
    assert (refused.code, refused.causes) == (422, causes)


async def test_a_quota_s_amounts_are_written_in_one_way(server: Server) -> None:
    made = await server.post(server.path(kube.RESOURCE_QUOTAS), quota(server.namespace, requests__cpu="0.5"))
    assert made["spec"]["hard"] == {"requests.cpu": "500m"}
