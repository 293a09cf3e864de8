"""Instants of built-in kinds: a Time, and a MicroTime with its six digits."""

from typing import Any

import pytest

from elastipod.kube import resources as kube
from tests.build import pod_json
from tests.contract.samples import limit_range
from tests.contract.servers import INVALID, MERGE, STRATEGIC, Server, invalid

Json = dict[str, Any]
WRONG = (
    *("2026-01-01T00:00:00Z", "2026-01-01T00:00:00.1234567Z", "2026-01-01T00:00:00.000000", "", "yesterday"),
    *("2026-02-30T00:00:00.000000Z", "2026-01-01T24:00:00.000000Z", "2026-01-01T00:00:00.000000+0100"),
)


def lease(**spec: Any) -> Json:
    return {"metadata": {"name": "it"}, "spec": spec}


@pytest.mark.parametrize("instant", WRONG)
@pytest.mark.parametrize("field", ["renewTime", "acquireTime"])
async def test_a_lease_tells_microseconds(server: Server, field: str, instant: str) -> None:
    refused = await server.refused("POST", server.path(kube.LEASES), lease(**{field: instant}))
    assert (refused.code, refused.reason, "cannot be handled as a Lease" in refused) == (400, "BadRequest", True)


@pytest.mark.parametrize("content_type", [MERGE, STRATEGIC])
async def test_a_patched_lease_does_too(server: Server, content_type: str) -> None:
    path = server.path(kube.LEASES)
    await server.post(path, lease(renewTime="2026-01-01T00:00:00.000000Z"))
    patch = {"spec": {"renewTime": "2026-01-01T00:00:05Z"}}
    assert await server.refused("PATCH", f"{path}/it", patch, content_type=content_type) == invalid(
        "", "", ("patch", INVALID)
    )
    changed = await server.patch(f"{path}/it", {"spec": {"renewTime": "2026-01-01T00:00:05.000001Z"}}, content_type)
    assert changed["spec"]["renewTime"] == "2026-01-01T00:00:05.000001Z"


async def test_a_lease_of_a_feature_that_is_off_says_nothing_of_it(server: Server) -> None:
    made = await server.post(server.path(kube.LEASES), lease(holderIdentity="a", strategy="X", preferredHolder="b"))
    assert made["spec"] == {"holderIdentity": "a"}


@pytest.mark.parametrize(
    "more",
    [
        {"firstTimestamp": "yesterday"},
        {"lastTimestamp": "2026-01-01"},
        {"eventTime": "2026-01-01T00:00:00Z"},
        {"series": {"count": 1, "lastObservedTime": "2026-01-01T00:00:00Z"}},
    ],
    ids=lambda one: next(iter(one)),
)
async def test_an_event_s_instants_are_checked(server: Server, more: Json) -> None:
    wanted = {"metadata": {"name": "it"}, "involvedObject": {"namespace": server.namespace}, **more}
    refused = await server.refused("POST", server.path(kube.EVENTS), wanted)
    assert (refused.code, refused.reason) == (400, "BadRequest")


async def test_an_object_s_own_instants_are_checked(server: Server) -> None:
    wanted = limit_range(server.namespace, max={"cpu": "1"})
    wanted["metadata"]["creationTimestamp"] = "yesterday"
    assert (await server.refused("POST", server.path(kube.LIMIT_RANGES), wanted)).code == 400


@pytest.mark.parametrize(
    "status",
    [
        {"startTime": "yesterday"},
        {"conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": "yesterday"}]},
        {"conditions": [{"type": "Ready", "status": "True", "lastProbeTime": ""}]},
        {"containerStatuses": [{"name": "app", "state": {"running": {"startedAt": "yesterday"}}}]},
        {"containerStatuses": [{"name": "app", "lastState": {"terminated": {"exitCode": 1, "finishedAt": "x"}}}]},
    ],
    ids=["start", "condition", "probe", "state", "last state"],
)
async def test_reported_instants_are_checked(server: Server, status: Json) -> None:
    await server.post(server.pods, pod_json("web-0", server.namespace))
    refused = await server.refused("PATCH", f"{server.pods}/web-0/status", {"status": status}, content_type=MERGE)
    assert refused == invalid("", "", ("patch", INVALID))
