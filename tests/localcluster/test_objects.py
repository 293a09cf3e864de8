"""The life of an object: made, changed, deleted, and what goes with it."""

from typing import Any

import pytest

from elastipod.localcluster.api.kinds import POD_METRICS
from tests.build import deployment_json, job_json, node_json, owner_json, pod_json
from tests.localcluster.served import AUTOSCALERS, DEPLOYMENTS, JSON_PATCH, MERGE, NODES, PODS, STRATEGIC, Served

Json = dict[str, Any]
CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
REPLICA_SETS = "/apis/apps/v1/namespaces/default/replicasets"


def replica_set(name: str, owner: Json | None = None) -> Json:
    made = deployment_json(name)
    made["kind"] = "ReplicaSet"
    if owner is not None:
        made["metadata"]["ownerReferences"] = [owner]
    return made


def family(server: Served) -> None:
    """A Deployment, its ReplicaSet, and a pod of that on no node and one on a node."""
    deployment = server.post(DEPLOYMENTS, deployment_json("web"))
    owned = replica_set("web-1", owner_json("Deployment", "web", deployment["metadata"]["uid"]))
    uid = server.post(REPLICA_SETS, owned)["metadata"]["uid"]
    server.post(PODS, pod_json("web-1-a", owner=owner_json("ReplicaSet", "web-1", uid)))
    server.post(PODS, pod_json("web-1-b", owner=owner_json("ReplicaSet", "web-1", uid), node="n1"))


def names(server: Served, path: str) -> list[str]:
    return [one["metadata"]["name"] for one in server.get(path)["items"]]


def test_a_new_pod_gets_what_kubernetes_fills_in() -> None:
    pod = pod_json(cpu=None, memory=None, cpu_limit="0.5", memory_limit="1024Mi", status={"phase": "Running"})
    made = Served().post(PODS, pod)
    resources = made["spec"]["containers"][0]["resources"]
    assert resources == {"limits": {"cpu": "500m", "memory": "1Gi"}, "requests": {"cpu": "500m", "memory": "1Gi"}}
    assert made["status"] == {"phase": "Pending", "qosClass": "Guaranteed"}
    assert made["metadata"]["generation"] == 1
    assert made["metadata"]["creationTimestamp"] == "2023-11-14T22:13:20Z"
    assert (made["spec"]["restartPolicy"], made["spec"]["terminationGracePeriodSeconds"]) == ("Always", 30)


def test_names_are_made_from_a_prefix_and_repeat_with_the_seed() -> None:
    body = {"metadata": {"generateName": "job-"}}
    one, other = Served().post(CONFIG_MAPS, body), Served().post(CONFIG_MAPS, body)
    assert one == other
    assert one["metadata"]["name"].startswith("job-")
    assert len(one["metadata"]["name"]) == 9


def test_the_same_name_twice_exists_already() -> None:
    server = Served()
    server.post(PODS, pod_json("a"))
    failure = server.refused("POST", PODS, pod_json("a"))
    assert (failure["code"], failure["reason"], failure["message"]) == (
        409,
        "AlreadyExists",
        'pods "a" already exists',
    )


def test_status_and_spec_each_ignore_the_other_half() -> None:
    server = Served()
    server.post(DEPLOYMENTS, deployment_json("web"))
    both = {"spec": {"replicas": 5}, "status": {"replicas": 3}}
    status = server.patch(f"{DEPLOYMENTS}/web/status", both, MERGE)
    assert (status["spec"]["replicas"], status["status"]) == (1, {"replicas": 3})
    assert status["metadata"]["generation"] == 1
    main = server.patch(f"{DEPLOYMENTS}/web", {"spec": {"replicas": 5}, "status": {"replicas": 9}}, MERGE)
    assert (main["spec"]["replicas"], main["status"], main["metadata"]["generation"]) == (5, {"replicas": 3}, 2)


def test_labels_raise_no_generation_and_a_change_of_nothing_no_version() -> None:
    server = Served()
    server.post(DEPLOYMENTS, deployment_json("web"))
    labelled = server.patch(f"{DEPLOYMENTS}/web", {"metadata": {"labels": {"a": "b"}}}, MERGE)
    assert labelled["metadata"]["generation"] == 1
    assert server.patch(f"{DEPLOYMENTS}/web", {"metadata": {"labels": {"a": "b"}}}, MERGE) == labelled


def test_a_put_may_leave_out_kind_and_version_and_a_status_its_qos_class() -> None:
    server = Served()
    made = server.post(PODS, pod_json("a"))
    whole = {"metadata": {"name": "a", "labels": {"x": "y"}}, "spec": made["spec"]}
    code, after = server.call("PUT", f"{PODS}/a", whole)
    assert (code, after["apiVersion"], after["kind"]) == (200, "v1", "Pod")
    code, after = server.call("PUT", f"{PODS}/a/status", {"metadata": {"name": "a"}, "status": {"phase": "Running"}})
    assert after["status"] == {"phase": "Running", "qosClass": "Burstable"}
    assert after["spec"] == made["spec"]


def test_scale_changes_only_replicas() -> None:
    server = Served()
    server.post(DEPLOYMENTS, deployment_json("web"))
    assert server.get(f"{DEPLOYMENTS}/web/scale")["status"]["selector"] == "app=web"
    assert server.patch(f"{DEPLOYMENTS}/web/scale", {"spec": {"replicas": 4}}, MERGE)["spec"]["replicas"] == 4
    assert server.get(f"{DEPLOYMENTS}/web")["metadata"]["generation"] == 2
    failure = server.refused("PATCH", f"{DEPLOYMENTS}/web/scale", {"spec": {"replicas": -1}}, MERGE)
    assert failure["details"]["causes"][0]["field"] == "spec.replicas"


def test_an_outdated_write_is_a_conflict() -> None:
    server = Served()
    old = server.post(CONFIG_MAPS, {"metadata": {"name": "a"}})
    server.patch(f"{CONFIG_MAPS}/a", {"data": {"x": "y"}}, MERGE)
    assert server.refused("PUT", f"{CONFIG_MAPS}/a", old)["code"] == 409
    del old["metadata"]["resourceVersion"]
    assert server.call("PUT", f"{CONFIG_MAPS}/a", old)[0] == 200


@pytest.mark.parametrize(("method", "path"), [("POST", PODS), ("PATCH", f"{PODS}/a"), ("DELETE", f"{PODS}/a")])
def test_a_dry_run_answers_and_stores_nothing(method: str, path: str) -> None:
    server = Served()
    server.post(PODS, pod_json("a"))
    before = server.store.version
    body = pod_json("b") if method == "POST" else {"metadata": {"labels": {"x": "y"}}} if method == "PATCH" else None
    code, _ = server.call(method, path, body, MERGE if method == "PATCH" else "", dryRun="All")
    assert code in (200, 201)
    assert server.store.version == before


def test_a_deletion_whose_options_say_dry_run_deletes_nothing() -> None:
    server = Served()
    server.post(CONFIG_MAPS, {"metadata": {"name": "a"}})
    code, _ = server.call("DELETE", f"{CONFIG_MAPS}/a", {"propagationPolicy": "Background", "dryRun": ["All"]})
    assert code == 200
    assert names(server, CONFIG_MAPS) == ["a"]


def test_a_pod_on_a_node_is_given_its_grace_and_goes_when_the_node_says_so() -> None:
    server = Served()
    server.post(PODS, pod_json("a", node="n1"))
    code, marked = server.call("DELETE", f"{PODS}/a")
    assert code == 200
    assert marked["metadata"]["deletionGracePeriodSeconds"] == 30
    assert marked["metadata"]["deletionTimestamp"] == "2023-11-14T22:13:50Z"
    assert server.call("DELETE", f"{PODS}/a")[1] == marked
    server.call("DELETE", f"{PODS}/a", {"gracePeriodSeconds": 0})
    assert names(server, PODS) == []


def test_a_pod_that_no_node_has_goes_at_once() -> None:
    server = Served()
    server.post(PODS, pod_json("a"))
    server.call("DELETE", f"{PODS}/a")
    assert names(server, PODS) == []


def test_a_deletion_with_another_uid_is_a_conflict() -> None:
    server = Served()
    server.post(PODS, pod_json("a"))
    assert server.refused("DELETE", f"{PODS}/a", {"preconditions": {"uid": "other"}})["code"] == 409


def test_finalizers_hold_an_object_until_the_last_is_gone() -> None:
    server = Served()
    server.post(CONFIG_MAPS, {"metadata": {"name": "a", "finalizers": ["x/y"]}})
    server.call("DELETE", f"{CONFIG_MAPS}/a")
    assert server.get(f"{CONFIG_MAPS}/a")["metadata"]["deletionTimestamp"]
    server.patch(f"{CONFIG_MAPS}/a", {"metadata": {"finalizers": None}}, MERGE)
    assert names(server, CONFIG_MAPS) == []


def test_what_an_object_owned_goes_after_it() -> None:
    server = Served()
    family(server)
    server.call("DELETE", f"{DEPLOYMENTS}/web")
    assert names(server, DEPLOYMENTS) == names(server, REPLICA_SETS) == []
    assert names(server, PODS) == ["web-1-b"]
    assert server.get(f"{PODS}/web-1-b")["metadata"]["deletionTimestamp"]


def test_in_the_foreground_the_owner_goes_last() -> None:
    server = Served()
    family(server)
    server.call("DELETE", f"{DEPLOYMENTS}/web", {"propagationPolicy": "Foreground"})
    assert names(server, DEPLOYMENTS) == ["web"]
    server.call("DELETE", f"{PODS}/web-1-b", {"gracePeriodSeconds": 0})
    assert names(server, DEPLOYMENTS) == names(server, REPLICA_SETS) == names(server, PODS) == []


def test_orphans_stay_and_have_no_owner() -> None:
    server = Served()
    family(server)
    server.call("DELETE", f"{REPLICA_SETS}/web-1", propagationPolicy="Orphan")
    assert names(server, REPLICA_SETS) == []
    assert (
        "ownerReferences" not in server.get(f"{PODS}/web-1-a")["metadata"]
        or not (server.get(f"{PODS}/web-1-a")["metadata"]["ownerReferences"])
    )


def test_a_child_born_after_its_owner_died_goes_too() -> None:
    server = Served()
    uid = server.post(REPLICA_SETS, replica_set("web-1"))["metadata"]["uid"]
    server.call("DELETE", f"{REPLICA_SETS}/web-1")
    server.post(PODS, pod_json("late", owner=owner_json("ReplicaSet", "web-1", uid)))
    assert names(server, PODS) == []


def test_owners_in_a_circle_are_deleted_and_end() -> None:
    server = Served()
    one = server.post(CONFIG_MAPS, {"metadata": {"name": "a"}})
    owner = owner_json("ConfigMap", "a", one["metadata"]["uid"], "v1")
    other = server.post(CONFIG_MAPS, {"metadata": {"name": "b", "ownerReferences": [owner]}})
    circle = [owner_json("ConfigMap", "b", other["metadata"]["uid"], "v1")]
    server.patch(f"{CONFIG_MAPS}/a", {"metadata": {"ownerReferences": circle}}, MERGE)
    server.call("DELETE", f"{CONFIG_MAPS}/a")
    assert names(server, CONFIG_MAPS) == []


def test_a_namespace_takes_its_contents_along_and_takes_nothing_new() -> None:
    server = Served()
    server.post("/api/v1/namespaces", {"metadata": {"name": "team"}})
    pods = "/api/v1/namespaces/team/pods"
    server.post(pods, pod_json("a", "team", node="n1"))
    server.post("/api/v1/namespaces/team/configmaps", {"metadata": {"name": "b"}})
    server.call("DELETE", "/api/v1/namespaces/team")
    assert server.get("/api/v1/namespaces/team")["status"]["phase"] == "Terminating"
    failure = server.refused("POST", pods, pod_json("c", "team"))
    assert (failure["code"], failure["details"]["causes"][0]["reason"]) == (403, "NamespaceTerminating")
    server.call("DELETE", f"{pods}/a", {"gracePeriodSeconds": 0})
    assert server.refused("GET", "/api/v1/namespaces/team")["code"] == 404
    assert server.refused("POST", pods, pod_json("c", "team"))["message"] == 'namespaces "team" not found'


def test_a_binding_puts_a_pod_on_a_node_once() -> None:
    server = Served()
    server.post(NODES, node_json("n1"))
    server.post(PODS, pod_json("a"))
    bind = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "a"}, "target": {"kind": "Node", "name": "n1"}}
    server.post(f"{PODS}/a/binding", bind)
    bound = server.get(f"{PODS}/a")
    assert bound["spec"]["nodeName"] == "n1"
    assert bound["status"]["conditions"][0]["type"] == "PodScheduled"
    assert server.refused("POST", f"{PODS}/a/binding", bind)["code"] == 409


def test_a_node_keeps_the_status_it_registers_with() -> None:
    assert Served().post(NODES, node_json("n1"))["status"]["allocatable"]["cpu"] == "4"


def test_a_job_tells_its_pods_by_its_uid() -> None:
    made = Served().post("/apis/batch/v1/namespaces/default/jobs", job_json())
    uid = made["metadata"]["uid"]
    assert made["spec"]["selector"] == {"matchLabels": {"batch.kubernetes.io/controller-uid": uid}}
    assert made["spec"]["template"]["metadata"]["labels"]["batch.kubernetes.io/controller-uid"] == uid


def test_a_collection_is_deleted_by_selector() -> None:
    server = Served()
    for name, label in (("a", "x"), ("b", "y")):
        server.post(CONFIG_MAPS, {"metadata": {"name": name, "labels": {"l": label}}})
    server.call("DELETE", CONFIG_MAPS, labelSelector="l=x")
    assert names(server, CONFIG_MAPS) == ["b"]


@pytest.mark.parametrize(
    ("method", "path", "code"),
    [
        ("GET", "/api/v1/namespaces/default/secrets", 404),
        ("GET", f"{PODS}/a", 404),
        ("POST", f"{PODS}/a", 405),
        ("POST", "/api/v1/pods", 405),
        ("PUT", PODS, 405),
        ("GET", f"{PODS}/a/exec", 501),
        ("POST", f"{PODS}/a/portforward", 501),
        ("POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", 404),
        ("PUT", f"{PODS}/a/eviction", 405),
    ],
)
def test_what_is_not_served_is_refused_with_its_code(method: str, path: str, code: int) -> None:
    assert Served().refused(method, path, {})["code"] == code


@pytest.mark.parametrize("content_type", ["application/cbor", "application/apply-patch+yaml", "text/plain"])
def test_bodies_of_other_types_are_refused(content_type: str) -> None:
    server = Served()
    assert server.refused("POST", PODS, {}, content_type)["code"] == 415
    server.post(PODS, pod_json("a"))
    assert server.refused("PATCH", f"{PODS}/a", {}, content_type)["code"] == 415


def test_custom_kinds_know_no_strategic_merge() -> None:
    server = Served()
    kind = {"apiVersion": "autoscaling.k8s.io/v1", "kind": "VerticalPodAutoscaler"}
    vpa = {**kind, "metadata": {"name": "web"}, "spec": {"targetRef": {"kind": "Deployment", "name": "web"}}}
    server.post(AUTOSCALERS, vpa)
    assert server.refused("PATCH", f"{AUTOSCALERS}/web", {}, STRATEGIC)["code"] == 415
    patch = [{"op": "add", "path": "/status", "value": {"observedGeneration": 1}}]
    assert server.patch(f"{AUTOSCALERS}/web/status", patch, JSON_PATCH)["status"] == {"observedGeneration": 1}


def test_body_and_path_must_speak_of_the_same_thing() -> None:
    server = Served()
    assert server.refused("POST", PODS, pod_json("a", "other"))["code"] == 400
    assert server.refused("POST", PODS, {**pod_json("a"), "kind": "Node"})["code"] == 400
    server.post(PODS, pod_json("a"))
    assert server.refused("PUT", f"{PODS}/a", pod_json("b"))["code"] == 400


def test_metrics_are_read_only_and_go_with_their_pod() -> None:
    server = Served()

    class Usage:
        def pod_metrics(self) -> list[Json]:
            return [{"metadata": {"name": "a", "namespace": "default"}, "containers": []}]

        def node_metrics(self) -> list[Json]:
            return []

    server.api.usage = Usage()
    metrics = "/apis/metrics.k8s.io/v1beta1/namespaces/default/pods"
    assert names(server, metrics) == ["a"]
    assert server.refused("GET", metrics, watch="true")["code"] == 405


def test_a_namespace_whose_pods_have_been_measured_goes_with_them() -> None:
    server = Served()
    server.post("/api/v1/namespaces", {"metadata": {"name": "q"}})
    server.post("/api/v1/namespaces/q/pods", pod_json("a", namespace="q"))
    server.store.put(POD_METRICS, {"metadata": {"name": "a", "namespace": "q"}, "containers": []})
    assert server.call("DELETE", "/api/v1/namespaces/q")[0] == 200
    assert server.call("GET", "/api/v1/namespaces/q")[0] == 404
