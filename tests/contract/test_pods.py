"""What a pod may say: the refusals that users meet, each by its field."""

from typing import Any

import pytest

from tests.build import container_json, pod_json
from tests.contract.servers import DUPLICATE, FORBIDDEN, INVALID, REQUIRED, UNSUPPORTED, Server
from tests.contract.sizes import one, sized

Json = dict[str, Any]
C0 = "spec.containers[0]"


REFUSED: dict[str, tuple[Json, set[tuple[str, str]]]] = {
    "no containers": ({"containers": []}, {("spec.containers", REQUIRED)}),
    "no name": ({"containers": [{"image": "a"}]}, {(f"{C0}.name", REQUIRED)}),
    "no image": ({"containers": [{"name": "a"}]}, {(f"{C0}.image", REQUIRED)}),
    "no name, no image": ({"containers": [{}]}, {(f"{C0}.name", REQUIRED), (f"{C0}.image", REQUIRED)}),
    "image with spaces": ({"containers": one(image=" a ")}, {(f"{C0}.image", INVALID)}),
    "bad name": ({"containers": one(name="App")}, {(f"{C0}.name", INVALID)}),
    "long name": ({"containers": one(name="a" * 64)}, {(f"{C0}.name", INVALID)}),
    "same name": (
        {"containers": [container_json("a"), container_json("a")]},
        {("spec.containers[1].name", DUPLICATE)},
    ),
    "same name as an init container": (
        {"containers": one(name="a"), "initContainers": one(name="a")},
        {("spec.initContainers[0].name", DUPLICATE)},
    ),
    "negative request": (
        {"containers": sized(requests={"cpu": "-1"})},
        {(f"{C0}.resources.requests[cpu]", INVALID)},
    ),
    "negative limit": (
        {"containers": sized(limits={"memory": "-1"})},
        {(f"{C0}.resources.limits[memory]", INVALID), (f"{C0}.resources.requests[memory]", INVALID)},
    ),
    "request above limit": (
        {"containers": sized(requests={"cpu": "2"}, limits={"cpu": "1"})},
        {(f"{C0}.resources.requests", INVALID)},
    ),
    "both above": (
        {"containers": sized(requests={"cpu": "2", "memory": "2Gi"}, limits={"cpu": "1", "memory": "1Gi"})},
        {(f"{C0}.resources.requests", INVALID)},
    ),
    "unknown resource": (
        {"containers": sized(requests={"gpu": "1"})},
        {(f"{C0}.resources.requests[gpu]", INVALID)},
    ),
    "extended resource without limit": (
        {"containers": sized(requests={"example.com/gpu": "1"})},
        {(f"{C0}.resources.limits", REQUIRED)},
    ),
    "extended resource in pieces": (
        {"containers": sized(requests={"example.com/gpu": "500m"}, limits={"example.com/gpu": "500m"})},
        {(f"{C0}.resources.requests[example.com/gpu]", INVALID), (f"{C0}.resources.limits[example.com/gpu]", INVALID)},
    ),
    "extended resource unequal": (
        {"containers": sized(requests={"example.com/gpu": "1"}, limits={"example.com/gpu": "2"})},
        {(f"{C0}.resources.requests", INVALID)},
    ),
    "huge pages alone": (
        {"containers": sized(limits={"hugepages-2Mi": "2Mi"})},
        {(f"{C0}.resources", FORBIDDEN)},
    ),
    "env without name": ({"containers": one(env=[{"value": "x"}])}, {(f"{C0}.env[0].name", REQUIRED)}),
    "env of a bad name": ({"containers": one(env=[{"name": "a=b", "value": "x"}])}, {(f"{C0}.env[0].name", INVALID)}),
    "env of two sources": (
        {
            "containers": one(
                env=[{"name": "A", "value": "x", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]
            )
        },
        {(f"{C0}.env[0].valueFrom", INVALID)},
    ),
    "env of no source": (
        {"containers": one(env=[{"name": "A", "valueFrom": {}}])},
        {(f"{C0}.env[0].valueFrom", INVALID)},
    ),
    "env of an unknown field": (
        {"containers": one(env=[{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "spec.nothing"}}}])},
        {(f"{C0}.env[0].valueFrom.fieldRef.fieldPath", INVALID)},
    ),
    "port zero": ({"containers": one(ports=[{"containerPort": 0}])}, {(f"{C0}.ports[0].containerPort", REQUIRED)}),
    "port too high": (
        {"containers": one(ports=[{"containerPort": 70000}])},
        {(f"{C0}.ports[0].containerPort", INVALID)},
    ),
    "port of a bad protocol": (
        {"containers": one(ports=[{"containerPort": 80, "protocol": "HTTP"}])},
        {(f"{C0}.ports[0].protocol", UNSUPPORTED)},
    ),
    "port of a bad name": (
        {"containers": one(ports=[{"containerPort": 80, "name": "Web_Port"}])},
        {(f"{C0}.ports[0].name", INVALID)},
    ),
    "same port name": (
        {"containers": one(ports=[{"containerPort": 80, "name": "a"}, {"containerPort": 81, "name": "a"}])},
        {(f"{C0}.ports[1].name", DUPLICATE)},
    ),
    "same host port": (
        {"containers": one(ports=[{"containerPort": 80, "hostPort": 80}, {"containerPort": 81, "hostPort": 80}])},
        {(f"{C0}.ports[1].hostPort", DUPLICATE)},
    ),
    "restart policy": ({"restartPolicy": "Sometimes"}, {("spec.restartPolicy", UNSUPPORTED)}),
    "dns policy": ({"dnsPolicy": "Mine"}, {("spec.dnsPolicy", UNSUPPORTED)}),
    "pull policy": ({"containers": one(imagePullPolicy="Often")}, {(f"{C0}.imagePullPolicy", UNSUPPORTED)}),
    "termination message policy": (
        {"containers": one(terminationMessagePolicy="Mail")},
        {(f"{C0}.terminationMessagePolicy", UNSUPPORTED)},
    ),
    "deadline zero": ({"activeDeadlineSeconds": 0}, {("spec.activeDeadlineSeconds", INVALID)}),
    "node selector": ({"nodeSelector": {"a b": "c"}}, {("spec.nodeSelector", INVALID)}),
    "toleration without key": (
        {"tolerations": [{"operator": "Equal", "value": "x"}]},
        {("spec.tolerations[0].operator", INVALID)},
    ),
    "toleration of a bad effect": (
        {"tolerations": [{"key": "a", "operator": "Exists", "effect": "Sometimes"}]},
        {("spec.tolerations[0].effect", UNSUPPORTED)},
    ),
    "toleration of a bad operator": (
        {"tolerations": [{"key": "a", "operator": "Like"}]},
        {("spec.tolerations[0].operator", UNSUPPORTED)},
    ),
    "resize policy of another resource": (
        {"containers": one(resizePolicy=[{"resourceName": "disk", "restartPolicy": "NotRequired"}])},
        {(f"{C0}.resizePolicy", UNSUPPORTED)},
    ),
    "resize policy unknown": (
        {"containers": one(resizePolicy=[{"resourceName": "cpu", "restartPolicy": "Perhaps"}])},
        {(f"{C0}.resizePolicy", UNSUPPORTED)},
    ),
    "resize policy twice": (
        {
            "containers": one(
                resizePolicy=[
                    {"resourceName": "cpu", "restartPolicy": "NotRequired"},
                    {"resourceName": "cpu", "restartPolicy": "RestartContainer"},
                ]
            )
        },
        {(f"{C0}.resizePolicy[1]", DUPLICATE)},
    ),
    "resize policy of a pod that never restarts": (
        {
            "restartPolicy": "Never",
            "containers": one(resizePolicy=[{"resourceName": "cpu", "restartPolicy": "RestartContainer"}]),
        },
        {(f"{C0}.resizePolicy", INVALID)},
    ),
    "resize policy of an init container": (
        {"initContainers": one(name="i", resizePolicy=[{"resourceName": "cpu", "restartPolicy": "RestartContainer"}])},
        {("spec.initContainers[0].resizePolicy[0].restartPolicy", INVALID)},
    ),
    "probe without handler": ({"containers": one(livenessProbe={})}, {(f"{C0}.livenessProbe", REQUIRED)}),
    "probe of two handlers": (
        {"containers": one(readinessProbe={"exec": {"command": ["a"]}, "tcpSocket": {"port": 80}})},
        {(f"{C0}.readinessProbe.tcpSocket", FORBIDDEN)},
    ),
    "probe of no command": (
        {"containers": one(livenessProbe={"exec": {}})},
        {(f"{C0}.livenessProbe.exec.command", REQUIRED)},
    ),
    "probe of a bad port": (
        {"containers": one(livenessProbe={"httpGet": {"port": 0}})},
        {(f"{C0}.livenessProbe.httpGet.port", INVALID)},
    ),
    "probe below zero": (
        {"containers": one(livenessProbe={"exec": {"command": ["a"]}, "periodSeconds": -1})},
        {(f"{C0}.livenessProbe.periodSeconds", INVALID)},
    ),
    "liveness with a success threshold": (
        {"containers": one(livenessProbe={"exec": {"command": ["a"]}, "successThreshold": 2})},
        {(f"{C0}.livenessProbe.successThreshold", INVALID)},
    ),
    "probe of an init container": (
        {"initContainers": one(name="i", livenessProbe={"exec": {"command": ["a"]}})},
        {("spec.initContainers[0].livenessProbe", FORBIDDEN)},
    ),
    "mount of no volume": (
        {"containers": one(volumeMounts=[{"name": "data", "mountPath": "/data"}])},
        {(f"{C0}.volumeMounts[0].name", "FieldValueNotFound")},
    ),
    "same mount path": (
        {
            "containers": one(volumeMounts=[{"name": "d", "mountPath": "/d"}, {"name": "d", "mountPath": "/d"}]),
            "volumes": [{"name": "d", "emptyDir": {}}],
        },
        {(f"{C0}.volumeMounts[1].mountPath", INVALID)},
    ),
    "volume of two sources": (
        {"volumes": [{"name": "d", "emptyDir": {}, "hostPath": {"path": "/d"}}]},
        {("spec.volumes[0].hostPath", FORBIDDEN)},
    ),
    "same volume name": (
        {"volumes": [{"name": "d", "emptyDir": {}}, {"name": "d", "emptyDir": {}}]},
        {("spec.volumes[1].name", DUPLICATE)},
    ),
    "volume of a bad name": ({"volumes": [{"name": "D_", "emptyDir": {}}]}, {("spec.volumes[0].name", INVALID)}),
    "sidecar of a bad policy": (
        {"initContainers": one(name="i", restartPolicy="Perhaps")},
        {("spec.initContainers[0].restartPolicy", UNSUPPORTED)},
    ),
    "os": ({"os": {"name": "plan9"}}, {("spec.os", UNSUPPORTED)}),
    "scheduling gate of a bad name": ({"schedulingGates": [{"name": "a b"}]}, {("spec.schedulingGates[0]", INVALID)}),
    "pod-level request above limit": (
        {"resources": {"requests": {"cpu": "2"}, "limits": {"cpu": "1"}}},
        {("spec.resources.requests", INVALID)},
    ),
    "containers above the pod-level request": (
        {"containers": sized(requests={"cpu": "2"}), "resources": {"requests": {"cpu": "1"}}},
        {("spec.resources.requests[cpu]", INVALID)},
    ),
    "container above the pod-level limit": (
        {"containers": sized(limits={"cpu": "2"}, requests={"cpu": "1"}), "resources": {"limits": {"cpu": "1"}}},
        {("spec.resources.containers[0][cpu].limits", INVALID)},
    ),
    "pod-level resource of another sort": (
        {"resources": {"requests": {"ephemeral-storage": "1Gi"}}},
        {("spec.resources.requests[ephemeral-storage]", UNSUPPORTED)},
    ),
}


@pytest.mark.parametrize("case", REFUSED)
async def test_a_pod_is_refused_by_its_field(server: Server, case: str) -> None:
    spec, causes = REFUSED[case]
    refused = await server.refused("POST", server.pods, pod_json("it", server.namespace, **spec))
    assert (refused.code, refused.reason, refused.kind, refused.name) == (422, "Invalid", "Pod", "it")
    assert refused.causes == causes


TAKEN: dict[str, Json] = {
    "extended resource": {"containers": sized(limits={"example.com/gpu": "1"})},
    "huge pages": {"containers": sized(requests={"cpu": "1"}, limits={"hugepages-2Mi": "2Mi"})},
    "ephemeral storage": {"containers": sized(requests={"ephemeral-storage": "1Gi"})},
    "zero": {"containers": sized(requests={"cpu": "0"})},
    "numbers": {"containers": sized(requests={"cpu": 1, "memory": 1000000}, limits={"cpu": 1.5})},
    "probe": {
        "containers": one(
            ports=[{"name": "web", "containerPort": 80}],
            livenessProbe={"httpGet": {"path": "/", "port": "web"}},
            startupProbe={"tcpSocket": {"port": 80}},
        )
    },
    "env": {
        "containers": one(
            env=[
                {"name": "A", "value": "x"},
                {"name": "b.c-d", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
                {"name": "L", "valueFrom": {"resourceFieldRef": {"resource": "limits.memory"}}},
                {"name": "S", "valueFrom": {"configMapKeyRef": {"name": "c", "key": "k", "optional": True}}},
            ]
        )
    },
    "volumes": {
        "containers": one(volumeMounts=[{"name": "d", "mountPath": "/d"}]),
        "volumes": [{"name": "d", "emptyDir": {"medium": "Memory", "sizeLimit": "64Mi"}}],
    },
    "sidecar": {"initContainers": one(name="i", restartPolicy="Always", livenessProbe={"exec": {"command": ["a"]}})},
    "gate": {"schedulingGates": [{"name": "elastipod.io/wait"}]},
    "pod-level": {"resources": {"requests": {"cpu": "1"}, "limits": {"cpu": "2", "memory": "1Gi"}}},
}


@pytest.mark.parametrize("case", TAKEN)
async def test_a_pod_is_taken(server: Server, case: str) -> None:
    made = await server.post(server.pods, pod_json("it", server.namespace, **TAKEN[case]))
    assert made["status"]["phase"] == "Pending"
