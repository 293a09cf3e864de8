"""`elastipod recommend`, `explain` and `status`: what they print of a cluster, and how kubectl's options hold."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from aiohttp import web

from actuator.telling import HEARTBEAT_SECONDS
from elastipod.cli.cluster import Picture
from elastipod.cli.parts import RunningPart
from elastipod.cli.status import status_facts
from elastipod.clock import SystemClock, to_rfc3339_micro
from elastipod.kube.leadership import ADDRESS_ANNOTATION
from tests.build import node_json, owner_json, pod_json, running_status
from tests.cli.cluster import RECOMMENDED, Cluster, autoscaler_json, write_kubeconfig
from tests.localcluster.served import AUTOSCALERS, DEPLOYMENTS, MERGE, NODES, Json

LEASES = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
EVENTS = "/api/v1/namespaces/default/events"
HOSTILE = "\x1b[31mred\x1b[0m\u202eabc\r\nnext " + "x" * 3000


def rows(cluster: Cluster, *words: str) -> list[Json]:
    answer = cluster.run(*words, "-o", "json")
    assert answer.exit_code == 0, answer.output
    found: list[Json] = json.loads(answer.stdout)
    return found


def facts(cluster: Cluster, *words: str) -> Json:
    answer = cluster.run(*words, "-o", "json")
    assert answer.exit_code == 0, answer.output
    found: Json = json.loads(answer.stdout)
    return found


def lease(name: str, address: str) -> Json:
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {
            "name": f"elastipod-{name}",
            "namespace": "default",
            "labels": {"app.kubernetes.io/part-of": "elastipod"},
            "annotations": {ADDRESS_ANNOTATION: address},
        },
        "spec": {"holderIdentity": "me", "leaseDurationSeconds": 15, "renewTime": "2026-11-29T12:00:00.000000Z"},
    }


def test_recommend_shows_what_a_container_has_and_what_it_should_have(cluster: Cluster) -> None:
    cluster.add_web(cpu="1", memory="1Gi")
    answer = cluster.run("recommend")
    assert answer.exit_code == 0
    heading, line = answer.stdout.splitlines()
    assert heading.split()[:6] == ["NAMESPACE", "WORKLOAD", "CONTAINER", "PODS", "CPU", "MEMORY"]
    assert "1 -> 250m" in line
    assert "1Gi -> 200Mi" in line
    assert line.endswith("low")
    assert "CPU BOUNDS" not in heading


def test_recommend_wide_adds_the_bounds_and_the_messages(cluster: Cluster) -> None:
    cluster.add_web()
    answer = cluster.run("recommend", "-o", "wide")
    assert "100m to 1" in answer.stdout
    assert "too little history" in answer.stdout


def add_sizes_by_class(cluster: Cluster) -> None:
    """A pod on a node of four CPUs and one on a node of 96, with a size for each class and one for all."""
    cluster.post(NODES, node_json("n2", cpu="96"))
    first = cluster.add_web(cpu="1", memory="1Gi", memory_limit="2Gi")
    [owner] = first["metadata"]["ownerReferences"]
    second = pod_json("web-1-b", node="n2", labels={"app": "web"}, owner=owner, cpu="3", memory="1Gi")
    cluster.put_pod(second, running_status(second))
    names = ("app", "app.4-cpus", "app.96-cpus", "app.8-cpus")
    sizes = [{**RECOMMENDED, "containerName": name} for name in names]
    status = {"status": {"recommendation": {"containerRecommendations": sizes}}}
    cluster.patch(f"{AUTOSCALERS}/web/status", status, MERGE)


def test_a_size_for_a_class_of_nodes_is_shown_beside_what_pods_there_request(cluster: Cluster) -> None:
    add_sizes_by_class(cluster)
    found = {row["container"]: row for row in rows(cluster, "recommend")}
    shown = {name: (row["pods"], row["requests"]["cpu_millicores"], row["cpu"]) for name, row in found.items()}
    assert shown == {
        "app": (2, 3000, "3 -> 250m"),
        "app.4-cpus": (1, 1000, "1 -> 250m"),
        "app.96-cpus": (1, 3000, "3 -> 250m"),
        # No pod is there: what the container requests elsewhere.
        "app.8-cpus": (0, 3000, "3 -> 250m"),
    }
    assert found["app.4-cpus"]["limits"]["memory_bytes"] == 2 * 1024**3


def test_explain_tells_the_size_that_holds_on_the_pods_node(cluster: Cluster) -> None:
    add_sizes_by_class(cluster)
    for pod, name in (("web-1-a", "app.4-cpus"), ("web-1-b", "app.96-cpus")):
        told = facts(cluster, "explain", pod)["recommendations"]
        assert [one["container"] for one in told if "container" in one] == [name]


def test_json_and_yaml_hold_the_same(cluster: Cluster) -> None:
    cluster.add_web(cpu="1", memory="1Gi")
    found = rows(cluster, "recommend")
    assert found == yaml.safe_load(cluster.run("recommend", "-o", "yaml").stdout)
    assert found[0]["requests"] == {"cpu_millicores": 1000, "memory_bytes": 1024**3}
    assert found[0]["target"] == {"cpu_millicores": 250, "memory_bytes": 200 * 1024**2}


def test_a_pod_is_shown_under_the_owner_whose_autoscaler_counts_and_with_all_that_is_said_of_it_r42(
    cluster: Cluster,
) -> None:
    cluster.add_web()
    controlled = {"metadata": {"ownerReferences": [owner_json("Kafka", "k", "uid-k", "kafka.io/v1")]}}
    cluster.patch(f"{DEPLOYMENTS}/web", controlled, MERGE)
    assert facts(cluster, "explain", "web-1-a")["workload"] == "default/Deployment/web"
    above = autoscaler_json("k")
    above["spec"]["targetRef"] = {"apiVersion": "kafka.io/v1", "kind": "Kafka", "name": "k"}
    cluster.post(AUTOSCALERS, above)
    cluster.patch(f"{AUTOSCALERS}/k/status", {"status": {"conditions": []}}, MERGE)
    assert facts(cluster, "explain", "web-1-a")["workload"] == "default/Kafka/k"
    assert {row["workload"]: row["pods"] for row in rows(cluster, "recommend")} == {"Deployment/web": 0, "Kafka/k": 1}
    assert {row["autoscaler"] for row in facts(cluster, "explain", "web-1-a")["recommendations"]} >= {"web"}


def test_an_autoscaler_without_a_recommendation_says_why(cluster: Cluster) -> None:
    cluster.post(AUTOSCALERS, autoscaler_json("lost"))
    condition = {
        "type": "NoPodsMatched",
        "status": "True",
        "reason": "NoPodsMatched",
        "message": "no pod belongs to it",
    }
    # As the recommender writes it: both say the same.
    provided = condition | {"type": "RecommendationProvided", "status": "False"}
    cluster.patch(f"{AUTOSCALERS}/lost/status", {"status": {"conditions": [provided, condition]}}, MERGE)
    (row,) = rows(cluster, "recommend")
    assert row["message"] == "NoPodsMatched: no pod belongs to it"
    assert row["confidence"] == ""


def test_namespaces_are_chosen_as_kubectl_chooses_them(cluster: Cluster) -> None:
    cluster.post("/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "other"}})
    cluster.add_web()
    cluster.add_web("other", "shop")
    assert [row["workload"] for row in rows(cluster, "recommend")] == ["Deployment/web"]
    assert [row["workload"] for row in rows(cluster, "recommend", "-n", "other")] == ["Deployment/shop"]
    assert [row["workload"] for row in rows(cluster, "recommend", "--context", "other")] == ["Deployment/shop"]
    assert [row["namespace"] for row in rows(cluster, "recommend", "-A")] == ["default", "other"]
    assert [row["workload"] for row in rows(cluster, "recommend", "-A", "-l", "app=shop")] == ["Deployment/shop"]
    assert rows(cluster, "recommend", "-l", "app in (nothing)") == []


def test_a_named_kubeconfig_comes_before_the_environments(cluster: Cluster, tmp_path: Path) -> None:
    cluster.add_web()
    empty = write_kubeconfig(tmp_path / "empty", "http://127.0.0.1:9", "default")
    answer = cluster.run("recommend", "--kubeconfig", str(cluster.kubeconfig), KUBECONFIG=str(empty))
    assert answer.exit_code == 0, answer.output


def test_a_selector_that_can_not_be_read_is_refused_by_the_api(cluster: Cluster) -> None:
    answer = cluster.run("recommend", "-l", "app in (")
    assert answer.exit_code == 1
    assert "unable to parse requirement" in str(answer.exception)


@pytest.mark.parametrize("name", ["web-1-a", "pod/web-1-a"])
def test_explain_tells_of_a_pod(cluster: Cluster, name: str) -> None:
    cluster.add_web(cpu="1", memory="1Gi")
    found = facts(cluster, "explain", name)
    assert found["pod"] == "default/web-1-a"
    assert found["workload"] == "default/Deployment/web"
    assert found["recommendations"][0]["target"] == {"cpu": "250m", "memory": "200Mi"}
    assert found["recommendations"][1]["condition"] == "LowConfidence"
    (container,) = found["containers"]
    assert container["desired"]["requests"] == {"cpu": "1", "memory": "1Gi"}
    assert container["allocated"] == {"requests": {"cpu": "1", "memory": "1Gi"}}
    assert container["restarts"] == 0
    table = cluster.run("explain", name)
    assert table.exit_code == 0
    for word in ("Pod default/web-1-a of", "Recommendations", "Containers", "Events"):
        assert word in table.stdout


def test_explain_of_an_unknown_pod_names_it_and_its_namespace(cluster: Cluster) -> None:
    answer = cluster.run("explain", "gone")
    assert answer.exit_code == 1
    assert 'pods "gone" not found in namespace "default"' in str(answer.exception)


def test_explain_tells_the_pods_own_events_in_their_order(cluster: Cluster) -> None:
    body = cluster.add_web()
    uid = cluster.get(f"/api/v1/namespaces/default/pods/{body['metadata']['name']}")["metadata"]["uid"]
    for number, (reason, of) in enumerate([("Second", uid), ("Other", "another"), ("First", uid)]):
        cluster.post(
            EVENTS,
            {
                "apiVersion": "v1",
                "kind": "Event",
                "metadata": {"name": f"e{number}", "namespace": "default"},
                "involvedObject": {"kind": "Pod", "name": "web-1-a", "namespace": "default", "uid": of},
                "reason": reason,
                "message": "m",
                "type": "Normal",
                "lastTimestamp": f"2026-11-29T12:00:0{9 - number}Z",
            },
        )
    assert [event["reason"] for event in facts(cluster, "explain", "web-1-a")["events"]] == ["First", "Second"]


def test_explain_tells_the_events_of_the_pods_autoscaler_and_how_often_they_came(cluster: Cluster) -> None:
    cluster.add_web()
    [vpa] = cluster.get("/apis/autoscaling.k8s.io/v1/namespaces/default/verticalpodautoscalers")["items"]
    about = {"kind": "VerticalPodAutoscaler", "apiVersion": "autoscaling.k8s.io/v1", "namespace": "default"}
    cluster.post(
        EVENTS,
        {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": "killed", "namespace": "default"},
            "involvedObject": {**about, "name": vpa["metadata"]["name"], "uid": vpa["metadata"]["uid"]},
            "reason": "OomKilled",
            "message": "container app was killed",
            "type": "Warning",
            "count": 10,
            "lastTimestamp": "2026-11-29T12:00:00Z",
        },
    )
    [event] = facts(cluster, "explain", "web-1-a")["events"]
    assert (event["about"], event["reason"]) == (f"VerticalPodAutoscaler {vpa['metadata']['name']}", "OomKilled")
    assert "OomKilled (x10): container app was killed" in cluster.run("explain", "web-1-a").stdout


async def _explaining(request: web.Request) -> web.Response:
    return web.json_response({"asked": request.match_info["key"], "next_try": {"at": "soon", "reason": "NoRoom"}})


async def _garbage(_: web.Request) -> web.Response:
    return web.Response(body=b"\xff not json")


async def _server(handler: Any) -> tuple[web.AppRunner, str]:
    app = web.Application()
    app.router.add_get("/explain/{key:.*}", handler)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    return runner, f"http://127.0.0.1:{runner.addresses[0][1]}"


def test_each_part_is_asked_and_one_that_does_not_answer_is_said_so(cluster: Cluster) -> None:
    cluster.add_web()
    runner, address = cluster.on_loop(_server(_explaining))
    broken, bad_address = cluster.on_loop(_server(_garbage))
    cluster.post(LEASES, lease("updater", address))
    cluster.post(LEASES, lease("recommender", "http://127.0.0.1:9"))
    cluster.post(LEASES, lease("odd", bad_address))
    cluster.post(LEASES, lease("silent", ""))
    found = facts(cluster, "explain", "web-1-a")["parts"]
    table = cluster.run("explain", "web-1-a")
    cluster.on_loop(runner.cleanup())
    cluster.on_loop(broken.cleanup())
    assert found["updater"]["asked"] == "default/web-1-a"
    assert "does not answer at http://127.0.0.1:9" in found["recommender"]["error"]
    assert "does not answer" in found["odd"]["error"]
    assert "has not said where it listens" in found["silent"]["error"]
    assert table.exit_code == 0
    assert "What the updater says" in table.stdout
    assert "next try: at soon, reason NoRoom" in table.stdout


def test_a_part_in_a_pod_is_asked_through_the_api_server(cluster: Cluster) -> None:
    """The local cluster refuses by name what a real one does."""
    cluster.add_web()
    body = pod_json("updater-1", node="n1", labels={"app.kubernetes.io/part-of": "elastipod"})
    cluster.put_pod(body, running_status(body) | {"podIP": "10.1.2.3"})
    cluster.post(LEASES, lease("updater", "http://10.1.2.3:8080"))
    error = facts(cluster, "explain", "web-1-a")["parts"]["updater"]["error"]
    assert "pods/proxy is not served by the local cluster" in error


def test_status_tells_of_parts_room_and_what_waits(cluster: Cluster) -> None:
    cluster.add_web(cpu="1", memory="1Gi")
    cluster.post(LEASES, lease("updater", "http://127.0.0.1:9"))
    waiting = pod_json("slow", node="n1")
    pending = {"type": "PodResizePending", "status": "True", "reason": "Deferred", "message": "no room now"}
    status = running_status(waiting)
    cluster.put_pod(waiting, {**status, "conditions": [*status["conditions"], pending]})
    found = facts(cluster, "status")
    assert [part["part"] for part in found["parts"]] == ["updater"]
    assert found["nodes"][0]["cpu_free"] == "2900m"
    assert found["nodes"][0]["spike_protection"] == "none"
    assert found["waiting"] == [
        {"namespace": "default", "pod": "slow", "progress": "deferred", "reason": "Deferred", "message": "no room now"}
    ]
    table = cluster.run("status")
    assert table.exit_code == 0
    assert "Deferred" in table.stdout


def test_a_part_is_silent_only_when_it_should_have_spoken() -> None:
    now = 1_000_000.0

    def state(part: RunningPart) -> str:
        found: str = status_facts(Picture([], [], [], [], {}, []), [part], now)["parts"][0]["state"]
        return found

    def actuator(seconds_ago: float) -> RunningPart:
        return RunningPart("actuator", heard_at=now - seconds_ago, node="n1")

    assert [state(actuator(age)) for age in (187.0, HEARTBEAT_SECONDS, HEARTBEAT_SECONDS + 61)] == [
        "well",
        "well",
        "silent",
    ]
    leader = RunningPart("updater", heard_at=now - 14, silent_after_seconds=15)
    assert state(leader) == "well"
    assert state(replace(leader, heard_at=now - 16)) == "silent"
    assert state(replace(leader, heard_at=None)) == "silent"


def test_how_long_a_leader_may_be_silent_stands_in_its_lease(cluster: Cluster) -> None:
    cluster.post(LEASES, lease("updater", ""))
    (part,) = facts(cluster, "status")["parts"]
    assert part["state"] == "silent"
    renewed = {"spec": {"renewTime": to_rfc3339_micro(SystemClock().now())}}
    cluster.patch(f"{LEASES}/elastipod-updater", renewed, MERGE)
    (part,) = facts(cluster, "status")["parts"]
    assert part["state"] == "well"


def test_status_without_parts_says_so(cluster: Cluster) -> None:
    assert "No part of elastipod has made itself known" in cluster.run("status").stdout


@pytest.mark.parametrize("words", [["recommend", "-o", "wide"], ["explain", "web-1-a"], ["status", "-o", "wide"]])
def test_what_comes_from_the_cluster_can_not_move_the_cursor(cluster: Cluster, words: list[str]) -> None:
    cluster.add_web()
    condition = {"type": "Odd", "status": "True", "reason": "Odd", "message": HOSTILE}
    cluster.patch(f"{AUTOSCALERS}/web/status", {"status": {"conditions": [condition]}}, MERGE)
    pending = {"type": "PodResizePending", "status": "True", "reason": HOSTILE, "message": HOSTILE}
    cluster.patch("/api/v1/namespaces/default/pods/web-1-a/status", {"status": {"conditions": [pending]}}, MERGE)
    answer = cluster.run(*words)
    assert answer.exit_code == 0, answer.output
    assert all(one.isprintable() or one == "\n" for one in answer.stdout)
    assert "\\x1b[31m" in answer.stdout
    assert not any(line.startswith("next") for line in answer.stdout.splitlines())


@pytest.mark.parametrize("output", ["json", "yaml"])
def test_json_and_yaml_are_plain_ascii_whatever_they_hold(cluster: Cluster, output: str) -> None:
    cluster.add_web()
    pending = {"type": "PodResizePending", "status": "True", "reason": "Deferred", "message": HOSTILE}
    cluster.patch("/api/v1/namespaces/default/pods/web-1-a/status", {"status": {"conditions": [pending]}}, MERGE)
    answer = cluster.run("status", "-o", output)
    assert answer.stdout.isascii()
    assert "\x1b" not in answer.stdout
    load = json.loads if output == "json" else yaml.safe_load
    assert load(answer.stdout)["waiting"][0]["message"] == HOSTILE
