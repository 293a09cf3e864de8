"""What is valid and still refused or filled in: LimitRange, quota, priorities, evictions."""

from typing import Any

import pytest

from tests.build import container_json, node_json, pod_json, running_status
from tests.localcluster.served import MERGE, NODES, PODS, STRATEGIC, Served

Json = dict[str, Any]
RANGES = "/api/v1/namespaces/default/limitranges"
QUOTAS = "/api/v1/namespaces/default/resourcequotas"
BUDGETS = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"


def limited(server: Served, **item: Any) -> Served:
    server.post(RANGES, {"metadata": {"name": "l"}, "spec": {"limits": [{"type": "Container", **item}]}})
    return server


def quota(server: Served, **hard: str) -> Served:
    amounts = {key.replace("_", "."): text for key, text in hard.items()}
    server.post(QUOTAS, {"metadata": {"name": "q"}, "spec": {"hard": amounts}})
    return server


def used(server: Served) -> Json:
    found: Json = server.get(f"{QUOTAS}/q")["status"]["used"]
    return found


@pytest.mark.parametrize(
    ("item", "pod", "message"),
    [
        ({"min": {"cpu": "200m"}}, pod_json(cpu="50m"), "minimum cpu usage per Container is 200m, but request is 50m"),
        (
            {"max": {"memory": "64Mi"}, "default": {"memory": "64Mi"}},
            pod_json(memory="32Mi", memory_limit="128Mi"),
            "maximum memory usage per Container is 64Mi, but limit is 128Mi",
        ),
        (
            {"maxLimitRequestRatio": {"cpu": "2"}},
            pod_json(cpu="100m", cpu_limit="300m"),
            "cpu max limit to request ratio per Container is 2, but provided ratio is 3.000000",
        ),
        (
            {"type": "Pod", "max": {"cpu": "1"}},
            pod_json(containers=[container_json("a", cpu_limit="600m"), container_json("b", cpu_limit="600m")]),
            "maximum cpu usage per Pod is 1, but limit is 1200m",
        ),
        ({"type": "Pod", "max": {"cpu": "1"}}, pod_json(), "maximum cpu usage per Pod is 1.  No limit is specified"),
    ],
)
def test_a_limit_range_refuses_in_kubernetes_words(item: Json, pod: Json, message: str) -> None:
    failure = limited(Served(), **item).refused("POST", PODS, pod)
    assert failure["code"] == 403
    assert failure["message"] == f'pods "web-0" is forbidden: {message}'


def test_a_limit_range_fills_in_what_is_missing() -> None:
    server = limited(Served(), default={"cpu": "1"}, defaultRequest={"memory": "64Mi"}, max={"memory": "1Gi"})
    made = server.post(PODS, pod_json(cpu=None, memory=None))
    assert made["spec"]["containers"][0]["resources"] == {
        "requests": {"cpu": "1", "memory": "64Mi"},
        "limits": {"cpu": "1", "memory": "1Gi"},
    }
    assert made["status"]["qosClass"] == "Burstable"
    assert "kubernetes.io/limit-ranger" in made["metadata"]["annotations"]


def test_a_resize_is_held_to_the_limit_range_again() -> None:
    server = Served()
    server.post(NODES, node_json())
    pod = pod_json(cpu_limit="1", memory_limit="256Mi", node="n1")
    server.put_pod(pod, running_status(pod))
    limited(server, max={"cpu": "500m"})
    patch = {"spec": {"containers": [{"name": "app", "resources": {"requests": {"memory": "64Mi"}}}]}}
    failure = server.refused("PATCH", f"{PODS}/web-0/resize", patch, STRATEGIC)
    assert (failure["code"], "but limit is 1" in failure["message"]) == (403, True)


def test_a_quota_refuses_what_exceeds_it_and_counts_what_is_there() -> None:
    server = quota(Served(), requests_cpu="250m", pods="5")
    server.post(PODS, pod_json("a", cpu="100m"))
    assert used(server) == {"requests.cpu": "100m", "pods": "1"}
    failure = server.refused("POST", PODS, pod_json("b", cpu="200m"))
    assert failure["message"] == (
        'pods "b" is forbidden: exceeded quota: q, requested: requests.cpu=200m, used: requests.cpu=100m,'
        " limited: requests.cpu=250m"
    )
    server.call("DELETE", f"{PODS}/a")
    assert used(server) == {"requests.cpu": "0", "pods": "0"}
    server.post(PODS, pod_json("b", cpu="200m"))


def test_a_quota_wants_every_container_to_state_what_it_limits() -> None:
    failure = quota(Served(), limits_memory="1Gi").refused("POST", PODS, pod_json())
    assert failure["message"] == 'pods "web-0" is forbidden: failed quota: q: must specify limits.memory for: app'


def test_a_quota_counts_what_is_in_force_until_it_has_come_down() -> None:
    server = quota(Served(), requests_cpu="1")
    server.post(NODES, node_json())
    pod = pod_json(cpu="400m", cpu_limit="1", node="n1")
    server.put_pod(pod, running_status(pod))
    patch = {"spec": {"containers": [{"name": "app", "resources": {"requests": {"cpu": "100m"}}}]}}
    server.patch(f"{PODS}/web-0/resize", patch)
    assert used(server) == {"requests.cpu": "400m"}
    smaller = running_status(server.get(f"{PODS}/web-0"))
    server.patch(f"{PODS}/web-0/status", {"status": smaller}, MERGE)
    assert used(server) == {"requests.cpu": "100m"}
    server.patch(f"{PODS}/web-0/status", {"status": {"phase": "Succeeded"}}, MERGE)
    assert used(server) == {"requests.cpu": "0"}


def test_a_resize_that_exceeds_the_quota_is_forbidden() -> None:
    server = quota(Served(), requests_cpu="500m")
    server.post(NODES, node_json())
    pod = pod_json(cpu="400m", cpu_limit="1", node="n1")
    server.put_pod(pod, running_status(pod))
    patch = {"spec": {"containers": [{"name": "app", "resources": {"requests": {"cpu": "600m"}}}]}}
    failure = server.refused("PATCH", f"{PODS}/web-0/resize", patch, STRATEGIC)
    assert failure["message"] == (
        'pods "web-0" is forbidden: exceeded quota: q, requested: requests.cpu=200m, used: requests.cpu=400m,'
        " limited: requests.cpu=500m"
    )


def test_a_priority_comes_from_its_class() -> None:
    server = Served()
    server.post(CLASSES, {"metadata": {"name": "high"}, "value": 1000, "preemptionPolicy": "Never"})
    made = server.post(PODS, pod_json("a", priorityClassName="high"))["spec"]
    assert (made["priority"], made["preemptionPolicy"]) == (1000, "Never")
    assert server.post(PODS, pod_json("b"))["spec"]["priority"] == 0
    failure = server.refused("POST", PODS, pod_json("c", priorityClassName="gone"))
    assert failure["message"] == 'pods "c" is forbidden: no PriorityClass with name gone was found'
    assert server.refused("POST", PODS, pod_json("d", priority=7))["code"] == 403


def guarded(allowed: int, *, ready: bool = True, **status: int) -> Served:
    """A pod on a node with a budget."""
    server = Served()
    pod = pod_json("web-0", labels={"app": "web"}, node="n1")
    running = running_status(pod)
    if not ready:
        running["conditions"] = [{"type": "Ready", "status": "False"}]
    server.put_pod(pod, running)
    selector = {"matchLabels": {"app": "web"}}
    server.post(BUDGETS, {"metadata": {"name": "b"}, "spec": {"minAvailable": 1, "selector": selector}})
    left = {"disruptionsAllowed": allowed, "observedGeneration": 1, "desiredHealthy": 1, "currentHealthy": 1, **status}
    server.patch(f"{BUDGETS}/b/status", {"status": left}, MERGE)
    return server


EVICTION = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "web-0", "namespace": "default"}}


def test_an_eviction_spends_the_budget_and_deletes() -> None:
    server = guarded(1)
    server.post(f"{PODS}/web-0/eviction", EVICTION)
    assert server.get(f"{PODS}/web-0")["metadata"]["deletionTimestamp"]
    left = server.get(f"{BUDGETS}/b")["status"]
    assert (left["disruptionsAllowed"], list(left["disruptedPods"])) == (0, ["web-0"])


def test_an_eviction_beyond_the_budget_is_refused_with_429_and_its_cause() -> None:
    server = guarded(0)
    failure = server.refused("POST", f"{PODS}/web-0/eviction", EVICTION)
    assert (failure["code"], failure["reason"]) == (429, "TooManyRequests")
    assert failure["message"] == "Cannot evict pod as it would violate the pod's disruption budget."
    assert failure["details"]["causes"] == [
        {"reason": "DisruptionBudget", "message": "The disruption budget b needs 1 healthy pods and has 1 currently"}
    ]
    assert "deletionTimestamp" not in server.get(f"{PODS}/web-0")["metadata"]


def test_a_budget_that_is_not_yet_counted_asks_to_wait() -> None:
    server = guarded(1, observedGeneration=0)
    response = server.response("POST", f"{PODS}/web-0/eviction", b"{}")
    assert (response.code, response.headers["Retry-After"]) == (429, "10")


def test_a_pod_that_is_not_ready_may_go_while_enough_others_are() -> None:
    server = guarded(0, ready=False)
    server.post(f"{PODS}/web-0/eviction", EVICTION)
    assert server.refused("POST", f"{PODS}/gone/eviction", EVICTION)["code"] == 404


def test_two_budgets_for_one_pod_refuse() -> None:
    server = guarded(1)
    server.post(BUDGETS, {"metadata": {"name": "c"}, "spec": {"selector": {"matchLabels": {"app": "web"}}}})
    assert server.refused("POST", f"{PODS}/web-0/eviction", EVICTION)["code"] == 500


def test_a_dry_run_of_an_eviction_spends_nothing() -> None:
    server = guarded(1)
    server.post(f"{PODS}/web-0/eviction", {**EVICTION, "deleteOptions": {"dryRun": ["All"]}})
    assert server.get(f"{BUDGETS}/b")["status"]["disruptionsAllowed"] == 1
    assert "deletionTimestamp" not in server.get(f"{PODS}/web-0")["metadata"]
