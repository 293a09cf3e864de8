"""What a pod may say: the refusals that users meet, each by its field, and what is filled in."""

from typing import Any

import pytest

from tests.build import container_json, pod_json
from tests.contract.servers import DUPLICATE, FORBIDDEN, INVALID, REQUIRED, UNSUPPORTED, Refusal, Server

Json = dict[str, Any]
C0 = "spec.containers[0]"


def sized(**resources: Any) -> list[Json]:
    """A container that asks for this."""
    return [{**container_json(), "resources": resources}]


def one(**more: Any) -> list[Json]:
    return [container_json(**more)]


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


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("0.5", "500m"),
        ("1000m", "1"),
        ("1.5Gi", "1536Mi"),
        ("1024Mi", "1Gi"),
        ("1e3", "1e3"),
        ("0.1m", "1m"),
        (2, "2"),
        ("1000000000", "1G"),
        ("+5", "+5"),
        ("128974848", "128974848"),
        ("129e6", "129e6"),
        ("1000Ki", "1000Ki"),
        ("0", "0"),
        ("0Mi", "0"),
        ("1500Mi", "1500Mi"),
        ("100000k", "100M"),
        ("1.25", "1250m"),
    ],
)
async def test_an_amount_is_written_in_one_way(server: Server, text: object, shown: str) -> None:
    made = await server.post(server.pods, pod_json("it", server.namespace, containers=sized(requests={"memory": text})))
    assert made["spec"]["containers"][0]["resources"]["requests"]["memory"] == shown


@pytest.mark.parametrize("text", ["much", "", "1 Gi", "1GiB", "0x10", "1e", "--1", "1,5", True, [], {}])
async def test_what_is_no_amount_is_no_pod(server: Server, text: object) -> None:
    wanted = pod_json("it", server.namespace, containers=sized(requests={"memory": text}))
    refused = await server.refused("POST", server.pods, wanted)
    assert (refused.code, refused.reason) == (400, "BadRequest")


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("containers", "x"),
        ("containers", {"name": "a"}),
        ("nodeName", 7),
        ("terminationGracePeriodSeconds", "30"),
        ("hostNetwork", "true"),
        ("nodeSelector", ["a"]),
        ("nodeSelector", {"a": 1}),
        ("priority", 1.5),
        ("priority", 2**31),
    ],
)
async def test_a_wrong_type_is_no_pod(server: Server, field: str, value: object) -> None:
    wanted = pod_json("it", server.namespace)
    wanted["spec"][field] = value
    refused = await server.refused("POST", server.pods, wanted)
    assert (refused.code, refused.reason) == (400, "BadRequest")
    assert "Pod in version" in refused


@pytest.mark.parametrize(
    ("spec", "qos"),
    [
        ({"cpu": None, "memory": None}, "BestEffort"),
        ({"cpu": "1"}, "Burstable"),
        ({"cpu": "1", "memory": "1Gi", "cpu_limit": "1", "memory_limit": "1Gi"}, "Guaranteed"),
        ({"cpu": None, "memory": None, "cpu_limit": "1", "memory_limit": "1Gi"}, "Guaranteed"),
        ({"cpu": "0", "memory": "0"}, "BestEffort"),
        (
            {"resources": {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"cpu": "1", "memory": "1Gi"}}},
            "Guaranteed",
        ),
    ],
)
async def test_a_pod_has_a_qos_class(server: Server, spec: Json, qos: str) -> None:
    made = await server.post(server.pods, pod_json("it", server.namespace, **spec))
    assert made["status"]["qosClass"] == qos


async def test_a_pod_is_filled_in(server: Server) -> None:
    made = await server.post(server.pods, pod_json("it", server.namespace, containers=sized(limits={"cpu": "1"})))
    spec = made["spec"]
    filled = {
        "restartPolicy": "Always",
        "terminationGracePeriodSeconds": 30,
        "dnsPolicy": "ClusterFirst",
        "schedulerName": "default-scheduler",
        "securityContext": {},
        "enableServiceLinks": True,
        "priority": 0,
        "preemptionPolicy": "PreemptLowerPriority",
    }
    assert {key: spec.get(key) for key in filled} == filled
    container = spec["containers"][0]
    assert container["resources"] == {"limits": {"cpu": "1"}, "requests": {"cpu": "1"}}
    assert "resizePolicy" not in container
    assert container["terminationMessagePath"] == "/dev/termination-log"
    assert container["terminationMessagePolicy"] == "File"
    assert container["imagePullPolicy"] == "IfNotPresent"
    assert spec["tolerations"] == [
        {"effect": "NoExecute", "key": f"node.kubernetes.io/{key}", "operator": "Exists", "tolerationSeconds": 300}
        for key in ("not-ready", "unreachable")
    ]
    assert made["status"] == {"phase": "Pending", "qosClass": "Burstable"}


async def test_a_pod_s_own_requests_are_what_its_containers_come_to_or_its_limits(server: Server) -> None:
    amounts = {"limits": {"cpu": "2", "memory": "1Gi"}}
    made = await server.make_pod(cpu=None, memory="128Mi", resources=amounts)
    assert made["spec"]["resources"]["requests"] == {"cpu": "2", "memory": "128Mi"}


async def test_a_port_on_the_host_s_network_is_the_host_s(server: Server) -> None:
    made = await server.make_pod(hostNetwork=True, containers=one(ports=[{"containerPort": 80}]))
    assert made["spec"]["containers"][0]["ports"] == [{"containerPort": 80, "hostPort": 80, "protocol": "TCP"}]


async def test_probes_and_ports_are_filled_in(server: Server) -> None:
    probe = {"httpGet": {"port": 80}}
    containers = one(ports=[{"containerPort": 80}], livenessProbe=probe, image="app")
    made = await server.post(server.pods, pod_json("it", server.namespace, containers=containers))
    container = made["spec"]["containers"][0]
    assert container["ports"] == [{"containerPort": 80, "protocol": "TCP"}]
    assert container["imagePullPolicy"] == "Always"
    assert container["livenessProbe"] == {
        "httpGet": {"path": "/", "port": 80, "scheme": "HTTP"},
        "timeoutSeconds": 1,
        "periodSeconds": 10,
        "successThreshold": 1,
        "failureThreshold": 3,
    }


async def test_a_field_that_no_one_knows_is_dropped_or_refused_as_asked(server: Server) -> None:
    wanted = pod_json("it", server.namespace, nodeNam="x", containers=[{**container_json(), "imagee": "y"}])
    refused = await server.refused("POST", server.pods, wanted, fieldValidation="Strict")
    assert (refused.code, refused.reason) == (400, "BadRequest")
    assert 'strict decoding error: unknown field "spec.containers[0].imagee", unknown field "spec.nodeNam"' in refused
    answer = await server.call("POST", server.pods, wanted)
    assert (answer.code, len(answer.warnings)) == (201, 2)
    assert "nodeNam" not in answer.json["spec"]
    assert "imagee" not in answer.json["spec"]["containers"][0]
    wanted["metadata"]["name"] = "other"
    answer = await server.call("POST", server.pods, wanted, fieldValidation="Ignore")
    assert (answer.code, answer.warnings) == (201, ())


async def test_a_field_twice_is_dropped_or_refused_as_asked(server: Server) -> None:
    body = b'{"metadata": {"name": "it", "name": "that"}, "spec": {"containers": [{"name": "a", "image": "a"}]}}'
    refused = await server.refused("POST", server.pods, body, fieldValidation="Strict")
    assert refused.code == 400
    assert 'strict decoding error: duplicate field "metadata.name"' in refused
    answer = await server.call("POST", server.pods, body)
    assert (answer.code, answer.json["metadata"]["name"], len(answer.warnings)) == (201, "that", 1)


async def test_an_unknown_way_to_validate_is_refused(server: Server) -> None:
    refused = await server.refused("POST", server.pods, pod_json("it", server.namespace), fieldValidation="Sometimes")
    assert (refused.code, refused.fields) == (422, {"fieldValidation"})


async def test_a_new_pod_states_no_status(server: Server) -> None:
    made = await server.post(
        server.pods, pod_json("it", server.namespace, status={"phase": "Running", "podIP": "10.0.0.9"})
    )
    assert made["status"] == {"phase": "Pending", "qosClass": "Burstable"}


async def test_a_grace_below_zero_is_a_second(server: Server) -> None:
    made = await server.make_pod(terminationGracePeriodSeconds=-5)
    assert made["spec"]["terminationGracePeriodSeconds"] == 1


async def test_a_preemption_policy_is_the_class_s(server: Server) -> None:
    refused = await server.refused("POST", server.pods, pod_json("it", server.namespace, preemptionPolicy="Always"))
    assert refused == Refusal(403, "Forbidden", "pods", "it")


async def test_a_gated_pod_waits(server: Server) -> None:
    made = await server.make_pod(schedulingGates=[{"name": "elastipod.io/wait"}])
    assert [(one["type"], one["status"], one["reason"]) for one in made["status"]["conditions"]] == [
        ("PodScheduled", "False", "SchedulingGated")
    ]


async def test_a_pod_of_an_unknown_priority_class_is_forbidden(server: Server) -> None:
    refused = await server.refused("POST", server.pods, pod_json("it", server.namespace, priorityClassName="none"))
    assert (refused.code, refused.reason) == (403, "Forbidden")
    assert "no PriorityClass with name none was found" in refused


async def test_a_pod_gets_its_class_s_priority(server: Server) -> None:
    name = server.unique("high")
    await server.post("/apis/scheduling.k8s.io/v1/priorityclasses", {"metadata": {"name": name}, "value": 77})
    made = await server.make_pod(priorityClassName=name)
    assert (made["spec"]["priority"], made["spec"]["preemptionPolicy"]) == (77, "PreemptLowerPriority")
    refused = await server.refused(
        "POST", server.pods, pod_json("it", server.namespace, priorityClassName=name, priority=5)
    )
    assert refused.code == 403
    assert "the integer value of priority (5) must not be provided in pod spec" in refused


async def test_a_system_class_is_there(server: Server) -> None:
    found = await server.get("/apis/scheduling.k8s.io/v1/priorityclasses/system-node-critical")
    assert found["value"] == 2000001000
