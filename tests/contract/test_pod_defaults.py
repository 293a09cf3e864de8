"""What is filled in in a pod, and what is made of it: amounts, classes, priorities."""

import pytest

from tests.build import container_json, pod_json
from tests.contract.servers import Refusal, Server
from tests.contract.sizes import Json, one, sized


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
