"""What a pod may say of volumes, rights, placement and the rarer fields of its containers."""

from typing import Any

import pytest

from tests.build import pod_json
from tests.contract.servers import DUPLICATE, FORBIDDEN, INVALID, REQUIRED, UNSUPPORTED, Server
from tests.contract.sizes import one, sized

Json = dict[str, Any]
Causes = set[tuple[str, str]]
C0 = "spec.containers[0]"
V0 = "spec.volumes[0]"
NOW = "requiredDuringSchedulingIgnoredDuringExecution"
RATHER = "preferredDuringSchedulingIgnoredDuringExecution"
NOT_FOUND = "FieldValueNotFound"


def volume(**source: Any) -> Json:
    return {"volumes": [{"name": "a", **source}]}


def nodes(**term: Any) -> Json:
    return {"affinity": {"nodeAffinity": {NOW: {"nodeSelectorTerms": [{"matchExpressions": [term]}]}}}}


def amounts(key: str, amount: str) -> list[Json]:
    return sized(requests={"cpu": "1", key: amount}, limits={key: amount})


TERM = f"spec.affinity.nodeAffinity.{NOW}.nodeSelectorTerms"
NEAR = f"spec.affinity.podAffinity.{NOW}[0]"
SPREAD = "spec.topologySpreadConstraints[0]"
REFUSED: dict[str, tuple[Json, Causes]] = {
    "negative size": (volume(emptyDir={"sizeLimit": "-1"}), {(f"{V0}.emptyDir.sizeLimit", FORBIDDEN)}),
    "path upwards": (volume(hostPath={"path": "/a/../b"}), {(f"{V0}.hostPath.path", INVALID)}),
    "path of no type": (volume(hostPath={"path": "/a", "type": "X"}), {(f"{V0}.hostPath.type", UNSUPPORTED)}),
    "no secret": (volume(secret={}), {(f"{V0}.secret.secretName", REQUIRED)}),
    "no config map": (volume(configMap={}), {(f"{V0}.configMap.name", REQUIRED)}),
    "no claim": (volume(persistentVolumeClaim={}), {(f"{V0}.persistentVolumeClaim.claimName", REQUIRED)}),
    "spread": (
        {"topologySpreadConstraints": [{"maxSkew": 0, "topologyKey": "", "whenUnsatisfiable": "X"}]},
        {
            (f"{SPREAD}.maxSkew", INVALID),
            (f"{SPREAD}.topologyKey", REQUIRED),
            (f"{SPREAD}.whenUnsatisfiable", UNSUPPORTED),
        },
    ),
    "no terms": ({"affinity": {"nodeAffinity": {NOW: {"nodeSelectorTerms": []}}}}, {(TERM, REQUIRED)}),
    "operator": (nodes(key="a", operator="X"), {(f"{TERM}[0].matchExpressions[0].operator", INVALID)}),
    "no bound": (nodes(key="a", operator="Gt"), {(f"{TERM}[0].matchExpressions[0].values", REQUIRED)}),
    "no weight": (
        {"affinity": {"nodeAffinity": {RATHER: [{"weight": 0, "preference": {}}]}}},
        {(f"spec.affinity.nodeAffinity.{RATHER}[0].weight", INVALID)},
    ),
    "no topology": (
        {"affinity": {"podAffinity": {NOW: [{"labelSelector": {}}]}}},
        {(f"{NEAR}.topologyKey", REQUIRED), (f"{NEAR}.topologyKey", INVALID)},
    ),
    "neighbours": (
        {"affinity": {"podAffinity": {NOW: [{"topologyKey": "a", "labelSelector": {"matchLabels": {"a b": "c"}}}]}}},
        {(f"{NEAR}.labelSelector.matchLabels", INVALID)},
    ),
    "same spread": (
        {"topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "a", "whenUnsatisfiable": "DoNotSchedule"}] * 2},
        {(f"{SPREAD}.{{topologyKey, whenUnsatisfiable}}", DUPLICATE)},
    ),
    "bad value": (
        nodes(key="a", operator="In", values=["b c"]),
        {(f"{TERM}[0].matchExpressions[0].values[0]", INVALID)},
    ),
    "port of gRPC": (
        {"containers": one(livenessProbe={"grpc": {"port": 0}})},
        {(f"{C0}.livenessProbe.grpc.port", INVALID)},
    ),
    "grace of a probe": (
        {"containers": one(readinessProbe={"exec": {"command": ["a"]}, "terminationGracePeriodSeconds": 5})},
        {(f"{C0}.readinessProbe.terminationGracePeriodSeconds", INVALID)},
    ),
    "readiness gate": (
        {"readinessGates": [{"conditionType": "a b"}]},
        {("spec.readinessGates[0].conditionType", INVALID)},
    ),
    "same gate": (
        {"schedulingGates": [{"name": "a"}, {"name": "a"}]},
        {("spec.schedulingGates[1]", DUPLICATE)},
    ),
    "user on windows": (
        {"os": {"name": "windows"}, "securityContext": {"runAsUser": 1}},
        {("spec.securityContext.runAsUser", FORBIDDEN)},
    ),
    "users and the host": ({"hostUsers": False, "hostNetwork": True}, {("spec.hostNetwork", FORBIDDEN)}),
    "sysctl": (
        {"securityContext": {"sysctls": [{"name": "a..b", "value": "1"}]}},
        {("spec.securityContext.sysctls[0].name", INVALID)},
    ),
    "group": ({"securityContext": {"fsGroup": -1}}, {("spec.securityContext.fsGroup", INVALID)}),
    "ephemeral": (
        {"ephemeralContainers": [{"name": "e", "image": "e"}]},
        {("spec.ephemeralContainers", FORBIDDEN)},
    ),
    "own claim": (
        {"resources": {"claims": [{"name": "a"}]}},
        {("spec.resources.claims", FORBIDDEN), ("spec.resources.claims[0]", NOT_FOUND)},
    ),
    "claim": ({"containers": sized(claims=[{"name": "a"}])}, {(f"{C0}.resources.claims[0]", NOT_FOUND)}),
    "privileged and not": (
        {"containers": one(securityContext={"privileged": True, "allowPrivilegeEscalation": False})},
        {(f"{C0}.securityContext", INVALID)},
    ),
    "user": ({"containers": one(securityContext={"runAsUser": -1})}, {(f"{C0}.securityContext.runAsUser", INVALID)}),
    "long sleep": (
        {"containers": one(lifecycle={"preStop": {"sleep": {"seconds": 100}}})},
        {(f"{C0}.lifecycle.preStop.sleep", INVALID)},
    ),
    "told resource": (
        {"containers": one(env=[{"name": "A", "valueFrom": {"resourceFieldRef": {"resource": "limits.foo"}}}])},
        {(f"{C0}.env[0].valueFrom.resourceFieldRef.resource", UNSUPPORTED)},
    ),
    "rules without a policy": (
        {
            "containers": one(
                restartPolicyRules=[{"action": "Restart", "exitCodes": {"operator": "In", "values": [42]}}]
            )
        },
        {(f"{C0}.restartPolicy", REQUIRED)},
    ),
    "half a page": (
        {"containers": amounts("hugepages-2Mi", "3Mi")},
        {(f"{C0}.resources.{part}[hugepages-2Mi]", INVALID) for part in ("limits", "requests")},
    ),
    "resource of a quota": (
        {"containers": amounts("requests.example.com/x", "1")},
        {(f"{C0}.resources.{part}[requests.example.com/x]", INVALID) for part in ("limits", "requests")},
    ),
}


@pytest.mark.parametrize("case", REFUSED)
async def test_a_pod_is_refused_by_its_field(server: Server, case: str) -> None:
    pod, causes = REFUSED[case]
    refused = await server.refused("POST", server.pods, pod_json("it", server.namespace, **pod))
    assert (refused.code, refused.causes) == (422, causes)


async def test_an_owner_has_a_uid(server: Server) -> None:
    wanted = pod_json("it", server.namespace)
    wanted["metadata"]["ownerReferences"] = [{"apiVersion": "v1", "kind": "Pod", "name": "a", "uid": ""}]
    refused = await server.refused("POST", server.pods, wanted)
    assert refused.causes == {("metadata.ownerReferences[0].uid", REQUIRED)}


async def test_pods_are_selected_by_the_host_s_network(server: Server) -> None:
    await server.make_pod("a", hostNetwork=True)
    await server.make_pod("b")
    assert await server.names(server.pods, fieldSelector="spec.hostNetwork=true") == ["a"]
    assert await server.names(server.pods, fieldSelector="spec.hostNetwork=false") == ["b"]
