"""What a release gives the recommender and the actuators for the usage that is read: from these, or from Prometheus."""

from typing import Any

import pytest

from tests.charts.rendering import NAMESPACE, Manifests, Refused, needs_helm, render

Json = dict[str, Any]
NODES = f"{NAMESPACE}-node"

pytestmark = needs_helm


def release(**values: Json) -> Manifests:
    """One whose recommender reads usage from the actuators."""
    recommender = {"settings": {"usageSource": "actuators,metrics"}}
    return render({"recommender": recommender, "networkPolicy": {"enabled": True}, **values})


def environ(manifests: Manifests, component: str) -> dict[str, str]:
    container = manifests.pods()[component]["spec"]["containers"][0]
    return {one["name"]: one.get("value", "") for one in container["env"]}


def mounts(manifests: Manifests, name: str) -> dict[str, bool]:
    """A container's mounts of the host's cgroups, and whether they can only be read."""
    spec = manifests.pods()["actuator"]["spec"]
    [container] = [one for one in [*spec["initContainers"], *spec["containers"]] if one["name"] == name]
    return {
        one["mountPath"]: one.get("readOnly", False)
        for one in container["volumeMounts"]
        if one["mountPath"].startswith("/host/cgroup/")
    }


def peers(manifests: Manifests, component: str, way: str, port: Any) -> list[Json]:
    """Who a component's policy lets in, or it out to, at a port."""
    rules = manifests.one("NetworkPolicy", component)["spec"][way]
    key = "from" if way == "ingress" else "to"
    return [one for rule in rules if {"port": port, "protocol": "TCP"} in rule["ports"] for one in rule.get(key, [])]


def pods_of(component: str, namespace: str) -> Json:
    labels = {"name": "elastipod", "instance": "elastipod", "component": component}
    return {
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
        "podSelector": {"matchLabels": {f"app.kubernetes.io/{name}": value for name, value in labels.items()}},
    }


def test_actuators_read_usage_only_where_it_is_asked_of_them() -> None:
    assert environ(release(), "actuator")["ELASTIPOD_SAMPLE_SECONDS"] == "10"
    assert environ(release(), "recommender")["ELASTIPOD_ACTUATORS_NAMESPACE"] == NODES
    without = render()
    assert "ELASTIPOD_SAMPLE_SECONDS" not in environ(without, "actuator")
    assert "ELASTIPOD_ACTUATORS_NAMESPACE" not in environ(without, "recommender")


def test_how_often_they_read_can_be_set() -> None:
    assert environ(release(actuator={"settings": {"sampleSeconds": 2}}), "actuator")["ELASTIPOD_SAMPLE_SECONDS"] == "2"


def test_the_recommender_reaches_the_actuators_and_nobody_else_is_let_in_for_it() -> None:
    manifests = release(networkPolicy={"enabled": True, "metricsFrom": [{"podSelector": {}}]})
    assert peers(manifests, "recommender", "egress", 8080) == [pods_of("actuator", NODES)]
    assert peers(manifests, "actuator", "ingress", "metrics") == [
        {"podSelector": {}},
        pods_of("recommender", NAMESPACE),
    ]
    for component in ("recommender", "updater", "admission"):
        assert peers(manifests, component, "ingress", "metrics") == [{"podSelector": {}}]
    for component in ("updater", "actuator"):
        assert peers(manifests, component, "egress", 8080) == []


def test_without_it_the_policies_are_as_they_were() -> None:
    given: Json = {"enabled": True, "metricsFrom": [{"podSelector": {}}]}
    manifests = render({"networkPolicy": given})
    assert peers(manifests, "recommender", "egress", 8080) == []
    assert peers(manifests, "actuator", "ingress", "metrics") == [{"podSelector": {}}]


def test_no_right_is_added_for_it() -> None:
    def rights(manifests: Manifests) -> list[Json]:
        return [one["rules"] for one in [*manifests.of("ClusterRole"), *manifests.of("Role")]]

    assert rights(release()) == rights(render({"networkPolicy": {"enabled": True}}))


@pytest.mark.parametrize(
    ("direct", "own"),
    [
        (False, {"cpuacct/kubepods.slice": True, "cpu/kubepods.slice": True, "memory/kubepods.slice": False}),
        (True, {"cpuacct/kubepods.slice": True, "cpu/kubepods.slice": False, "memory/kubepods.slice": False}),
    ],
)
def test_on_v1_what_counts_cpu_is_mounted_too_to_be_read_by_the_actuator_alone(
    direct: bool, own: dict[str, bool]
) -> None:
    actuator = {"cgroup": {"version": "v1"}, "settings": {"direct": direct}}
    manifests = release(actuator=actuator)
    assert mounts(manifests, "actuator") == {f"/host/cgroup/{tree}": only for tree, only in own.items()}
    volumes = {one["name"] for one in manifests.pods()["actuator"]["spec"]["volumes"]}
    for name in ("actuator", "guard"):
        assert not any("cpuacct" in path for path in mounts(manifests, "guard"))
        spec = manifests.pods()["actuator"]["spec"]
        [container] = [one for one in [*spec["initContainers"], *spec["containers"]] if one["name"] == name]
        assert {one["name"] for one in container["volumeMounts"]} <= volumes


def test_on_v2_nothing_more_is_mounted() -> None:
    assert mounts(release(), "actuator") == mounts(render(), "actuator")


def test_a_release_without_actuators_can_not_read_from_them() -> None:
    with pytest.raises(Refused, match=r"recommender\.settings\.usageSource names actuators"):
        release(actuator={"enabled": False})


PROMETHEUS: Json = {"podSelector": {"matchLabels": {"app": "prometheus"}}}
NAMES: Json = {"podSelector": {"matchLabels": {"k8s-app": "kube-dns"}}}
API_SERVER: Json = {"ipBlock": {"cidr": "10.0.0.1/32"}}


def egress(component: str, settings: Json, **policy: Any) -> list[Json]:
    manifests = render({"recommender": {"settings": settings}, "networkPolicy": {"enabled": True, **policy}})
    found: list[Json] = manifests.one("NetworkPolicy", component)["spec"]["egress"]
    return found


def ports(rules: list[Json]) -> list[tuple[int, str]]:
    return [(one["port"], one["protocol"]) for rule in rules for one in rule["ports"]]


@pytest.mark.parametrize(
    ("settings", "port"),
    [
        ({"prometheusUrl": "http://prometheus.monitoring:9090/prometheus"}, 9090),
        ({"prometheusUrl": "http://prometheus.monitoring"}, 80),
        ({"prometheusUrl": "https://prometheus.example/x:1"}, 443),
        ({"prometheusUrl": "http://[::1]:9091"}, 9091),
        ({"prometheusUrl": "http://[fd00::90]"}, 80),
        ({"prometheusUrl": "https://x", "prometheusProxy": "http://me:secret@proxy:3128"}, 3128),
    ],
)
def test_the_recommender_alone_reaches_prometheus_and_looks_up_its_name(settings: Json, port: int) -> None:
    api = [(443, "TCP"), (6443, "TCP")]
    assert ports(egress("recommender", settings)) == [*api, (port, "TCP"), (53, "UDP"), (53, "TCP")]
    for component in ("updater", "admission", "actuator"):
        assert ports(egress(component, settings)) == api
    assert ports(egress("recommender", {})) == api


def test_each_way_out_can_be_kept_to_whom_it_is_for() -> None:
    more = {"ports": [{"port": 10902, "protocol": "TCP"}], "to": [PROMETHEUS]}
    rules = egress(
        "recommender",
        {"prometheusUrl": "http://prometheus:9090"},
        apiServerTo=[API_SERVER],
        prometheusTo=[PROMETHEUS],
        dnsTo=[NAMES],
        recommenderEgress=[more],
    )
    assert [rule["to"] for rule in rules] == [[API_SERVER], [PROMETHEUS], [NAMES], [PROMETHEUS]]
    assert rules[-1] == more
    assert more not in egress("updater", {}, recommenderEgress=[more])
