"""A patch is one that the API server takes, and says where it can not be known to be."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from elastipod.cli.patches import patch_of, patches
from elastipod.cli.reportpage import Patches
from elastipod.cli.verbs import command
from elastipod.clock import SystemClock
from elastipod.pods import Container, ContainerKind, Pod, Workload
from elastipod.quantities import Resources, parse_memory
from recommender.ranges import Resource
from recommender.wholepods import pod_target
from tests.build import container_json
from tests.cli.cluster import RECOMMENDED, Cluster
from tests.localcluster.served import AUTOSCALERS, MERGE
from tests.recommender.prometheus.fleet import MI, Fleet, steady
from tests.recommender.prometheus.server import serving
from tests.recommender.report.build import GIB, account, paid, savings

Json = dict[str, Any]
WEB = Workload("shop", "Deployment", "web")


def row(container: str = "app", **more: Any) -> Json:
    amounts = {"cpu_millicores": None, "memory_bytes": None}
    return {
        "namespace": "shop",
        "workload": "Deployment/web",
        "container": container,
        "confidence": "enough",
        "message": "",
        "requests": amounts,
        "limits": amounts,
        "target": {"cpu_millicores": 100, "memory_bytes": 100 * MI + 1},
        **more,
    }


def pod_spec(text: str) -> Json:
    found: Json = yaml.safe_load(text)["spec"]["template"]["spec"]
    return found


def test_a_pod_that_requests_as_a_whole_requests_what_its_containers_come_to() -> None:
    whole = {"cpu_millicores": 200, "memory_bytes": 200 * MI + 2}
    found = pod_spec(patch_of(WEB, [row("app", pod_target=whole), row("log", pod_target=whole)]))
    assert found["resources"] == {"requests": {"cpu": "200m", "memory": str(200 * MI + 2)}}
    # Rounded down, so that they never come to more than the pod.
    assert [one["resources"]["requests"]["memory"] for one in found["containers"]] == ["100Mi", "100Mi"]


def test_a_patch_has_what_a_cap_allows_and_says_what_is_needed() -> None:
    needed = {"cpu_millicores": 1000, "memory_bytes": 100 * MI + 1}
    text = patch_of(WEB, [row(needed=needed)])
    assert text.startswith("# app needs cpu 1; a cap holds it down to 100m.\napiVersion")
    assert pod_spec(text)["containers"][0]["resources"]["requests"]["cpu"] == "100m"
    capped = account(0.9, 0.5, pods=2, direction="more", reason="CappedByMax", waste=paid(0.0), lacking=paid(0.1))
    assert Patches(savings(capped)).of(WEB).startswith("# app needs cpu 500m; a cap holds it down to 250m.\n")


def test_in_a_pod_that_requests_as_a_whole_all_that_is_recommended_is_patched_or_nothing() -> None:
    whole = {"cpu_millicores": 200, "memory_bytes": 200 * MI}
    rows = [row("app", pod_target=whole), row("log", pod_target=whole, reason="WithinBounds")]
    assert [one["name"] for one in pod_spec(patch_of(WEB, rows))["containers"]] == ["app", "log"]
    assert patch_of(WEB, rows[1:]) == ""


def test_a_limit_within_a_pod_that_requests_as_a_whole_stays_where_it_can() -> None:
    whole = {"cpu_millicores": 100, "memory_bytes": 100 * MI + 1}
    amounts = {"cpu_millicores": 50, "memory_bytes": 400 * MI}
    found = pod_spec(patch_of(WEB, [row(pod_target=whole, requests=amounts, limits=amounts)]))
    # What the pod's own limit is nobody tells: no container's may grow beyond its request.
    assert found["containers"][0]["resources"]["limits"] == {"cpu": "100m"}


def test_of_a_pod_that_requests_one_resource_as_a_whole_the_other_is_its_containers_own() -> None:
    whole = {"cpu_millicores": 100, "memory_bytes": None}
    limits = {"cpu_millicores": None, "memory_bytes": 200 * MI}
    requests = {"cpu_millicores": None, "memory_bytes": 100 * MI}
    found = pod_spec(patch_of(WEB, [row(pod_target=whole, requests=requests, limits=limits)]))
    assert found["resources"] == {"requests": {"cpu": "100m"}}
    assert found["containers"][0]["resources"]["requests"]["memory"] == "101Mi"
    assert found["containers"][0]["resources"]["limits"] == {"memory": "201Mi"}


def test_what_a_plain_init_container_needs_a_pod_keeps() -> None:
    setup = Container("setup", ContainerKind.INIT, requests=Resources(1500, None))
    pod = Pod(
        "shop", "web-0", "u", containers=(setup, Container("app", requests=Resources(1000, None))),
        pod_requests=Resources(2000, None),
    )  # fmt: skip
    assert pod_target(pod, {"app": Resources(300, 10)}) == Resources(1500, None)


def test_a_pod_keeps_what_it_requests_as_a_whole_while_the_need_of_one_container_is_not_known() -> None:
    containers = (Container("app", requests=Resources(1000, None)), Container("log"))
    pod = Pod("shop", "web-0", "u", containers=containers, pod_requests=Resources(2000, 1024 * MI))
    assert pod_target(pod, {"app": Resources(300, 10)}) == Resources(2000, 1024 * MI)
    assert pod_target(pod, {"app": Resources(300, 10), "log": Resources(50, None)}) == Resources(350, 1024 * MI)


def test_a_report_of_a_pod_that_requests_as_a_whole_has_the_same_patch() -> None:
    cpu = account(4.0, 1.0, pods=2, pod_target=0.5)
    memory = account(4.0, 1.0, Resource.MEMORY, pods=2, pod_target=0.5 * GIB)
    found = pod_spec(Patches(savings(cpu, memory)).of(WEB))
    assert found["resources"] == {"requests": {"cpu": "500m", "memory": "512Mi"}}
    assert found["containers"][0]["resources"]["requests"] == {"cpu": "500m", "memory": "512Mi"}


def test_where_a_kind_is_not_known_that_stands_beside_the_patch() -> None:
    text = patch_of(WEB, [row(is_sidecar=None), row("proxy", is_sidecar=True)])
    assert "# Not known: whether app is a native sidecar" in text
    assert "proxy is a native sidecar" not in text
    assert [one["name"] for one in pod_spec(text)["initContainers"]] == ["proxy"]
    assert "# Not known: whether app" in Patches(savings(account(is_sidecar=None))).of(WEB)


def test_what_is_not_known_of_all_pods_stands_above_the_patches_and_breaks_out_of_no_comment() -> None:
    text = "".join(patches([row()], ["not known\nkind: Evil " + "word " * 40]))
    assert "# not known" in text
    assert all(line.startswith("#") for line in text.partition("---")[0].splitlines())


def a_cluster(*metrics: str) -> Fleet:
    """A pod of an app, a native sidecar and a plain init container that runs long; only these metrics tell of them."""
    fleet = Fleet(now=int(SystemClock().now()) // 60 * 60)
    kinds: tuple[tuple[str, str, dict[str, str]], ...] = (
        ("app", "container", {}),
        ("proxy", "init_container", {"restart_policy": "Always"}),
        ("setup", "init_container", {}),
    )
    for container, kind, more in kinds:
        fleet.pod("web-0", ("StatefulSet", "web"), container=container)
        named = {"namespace": "shop", "pod": "web-0", "container": container}
        if "info" in metrics:
            fleet.metric(f"kube_pod_{kind}_info", 1, **named, **more)
        if "requests" in metrics:
            for resource, amount in (("cpu", 2), ("memory", 4096 * MI)):
                fleet.metric(f"kube_pod_{kind}_resource_requests", amount, resource=resource, **named)
    return fleet


@pytest.fixture(params=[("info", "requests"), ("requests",), ()], ids=["all", "requests", "nothing"])
def told(request: pytest.FixtureRequest) -> Iterator[tuple[tuple[str, ...], str]]:
    """Which metrics there are, and the patches that are printed."""
    with serving(a_cluster(*request.param).metrics) as url:
        answer = CliRunner().invoke(command(), ["recommend", "--prometheus", url, "-o", "patch"])
        assert answer.exit_code == 0, answer.output
        yield request.param, answer.stdout


@pytest.mark.promserver
def test_a_prometheus_tells_sidecars_from_others_where_it_can(told: tuple[tuple[str, ...], str]) -> None:
    metrics, text = told
    spec = pod_spec(text)
    doubts = {name for name in ("app", "proxy", "setup") if f"whether {name} is a native sidecar" in text}
    placed = {where: [one["name"] for one in those] for where, those in spec.items()}
    if "info" in metrics:
        assert (placed, doubts) == ({"containers": ["app"], "initContainers": ["proxy"]}, set())
    else:
        assert placed == {"containers": ["app", "proxy", "setup"]}
        assert doubts == ({"proxy", "setup"} if metrics else {"app", "proxy", "setup"})


@pytest.mark.promserver
def test_a_sidecars_size_is_what_its_own_metrics_say() -> None:
    with serving(a_cluster("info", "requests").metrics) as url:
        answer = CliRunner().invoke(command(), ["recommend", "--prometheus", url, "-o", "json"])
    rows = {one["container"]: one for one in yaml.safe_load(answer.stdout)}
    assert sorted(rows) == ["app", "proxy"]
    assert rows["proxy"]["requests"] == rows["app"]["requests"] == {"cpu_millicores": 2000, "memory_bytes": 4096 * MI}


@pytest.mark.promserver
def test_with_a_cluster_named_a_pod_that_requests_as_a_whole_is_never_asked_to_hold_more_than_it_may(
    cluster: Cluster,
) -> None:
    sizes = {"cpu": "1", "memory": "512Mi"}
    containers = [container_json("app", cpu=None, memory=None), container_json("log", cpu=None, memory=None)]
    web = cluster.add_web(containers=containers, resources={"requests": sizes, "limits": sizes})
    fleet = Fleet(now=int(SystemClock().now()) // 60 * 60)
    for name, memory in (("app", 600 * MI), ("log", 50 * MI)):
        fleet.pod(web["metadata"]["name"], None, namespace="default", container=name, memory=steady(memory))
    with serving(fleet.metrics) as url:
        named = ("--prometheus", url, "--kubeconfig", str(cluster.kubeconfig))
        patch = cluster.run("recommend", *named, "-o", "patch")
        report = cluster.run("report", *named, "-o", "json")
    assert patch.exit_code == report.exit_code == 0, patch.output + report.output
    spec = pod_spec(patch.stdout)
    whole = parse_memory(spec["resources"]["requests"]["memory"])
    parts = [parse_memory(one["resources"]["requests"]["memory"]) for one in spec["containers"]]
    assert sum(parts) <= whole <= 512 * MI
    told = {(one["container"], one["resource"]): one for one in json.loads(report.stdout)["accounts"]}
    assert told["app", "memory"]["podTarget"] == told["log", "memory"]["podTarget"] == whole
    assert told["app", "memory"]["requested"]["amount"] + told["log", "memory"]["requested"]["amount"] == 512 * MI
    assert "spec.resources" not in patch.stdout


def test_what_a_pod_should_request_as_a_whole_is_told_of_what_an_autoscaler_recommends(cluster: Cluster) -> None:
    cluster.add_web(cpu="1", memory="1Gi", resources={"requests": {"cpu": "2"}})
    [one] = json.loads(cluster.run("recommend", "-o", "json").stdout)
    # The API server gives a pod that states one amount as a whole the other from its containers.
    assert one["pod_target"] == {"cpu_millicores": 250, "memory_bytes": 200 * MI}


def test_what_an_autoscaler_needs_and_a_cap_holds_down_is_said_in_its_patch(cluster: Cluster) -> None:
    cluster.add_web(cpu="1", memory="1Gi")
    capped = {**RECOMMENDED, "uncappedTarget": {"cpu": "2", "memory": "100Mi"}}
    status = {"recommendation": {"containerRecommendations": [capped]}, "conditions": []}
    cluster.patch(f"{AUTOSCALERS}/web/status", {"status": status}, MERGE)
    [one] = json.loads(cluster.run("recommend", "-o", "json").stdout)
    assert one["needed"] == {"cpu_millicores": 2000, "memory_bytes": 200 * MI}
    assert "# app needs cpu 2; a cap holds it down to 250m.\n" in cluster.run("recommend", "-o", "patch").stdout


def test_what_is_put_into_pods_when_they_are_made_is_in_no_patch() -> None:
    template = {WEB: frozenset({"app"})}
    text = "".join(patches([row(), row("istio-proxy")], templates=template))
    assert "# shop/Deployment/web, istio-proxy: the template does not have it" in text
    [document] = [one for one in yaml.safe_load_all(text) if one]
    assert [one["name"] for one in document["spec"]["template"]["spec"]["containers"]] == ["app"]
    whole = {"cpu_millicores": 200, "memory_bytes": None}
    spec = pod_spec(patch_of(WEB, [row(pod_target=whole), row("istio-proxy", pod_target=whole)], template[WEB]))
    assert (spec["resources"]["requests"]["cpu"], len(spec["containers"])) == ("200m", 1)
    both = savings(account(), account(container="istio-proxy"))
    assert "istio-proxy" not in Patches(both, template).of(WEB)


@pytest.mark.promserver
def test_with_a_cluster_named_its_templates_are_heeded(cluster: Cluster) -> None:
    containers = [container_json(name, cpu="1", memory="1Gi") for name in ("app", "istio-proxy")]
    web = cluster.add_web(containers=containers)
    fleet = Fleet(now=int(SystemClock().now()) // 60 * 60)
    for name in ("app", "istio-proxy"):
        fleet.pod(web["metadata"]["name"], None, namespace="default", container=name)
    with serving(fleet.metrics) as url:
        named = ("--prometheus", url, "--kubeconfig", str(cluster.kubeconfig))
        patch = cluster.run("recommend", *named, "-o", "patch").stdout
        page = cluster.run("report", *named, "-o", "html").stdout
        alone = cluster.run("recommend", "--prometheus", url, "-o", "patch").stdout
    assert [one["name"] for one in pod_spec(patch)["containers"]] == ["app"]
    assert "istio-proxy: the template does not have it" in patch
    assert "name: app" in page
    assert "name: istio-proxy" not in page
    assert "whether a template has each of their containers" in " ".join(alone.replace("#", " ").split())
