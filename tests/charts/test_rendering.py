"""What is rendered, over many values: whole, safe, and with the rights that the code asks for."""

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, assume, given, settings

from elastipod.process import ProcessSettings
from tests.charts.pages import SCHEMA, SETTINGS
from tests.charts.rendering import COMPONENTS, NAMESPACE, Manifests, Refused, containers, needs_helm, render, rules
from tests.charts.strategies import values
from updater.admission.canary import CANARY

Json = dict[str, Any]
pytestmark = needs_helm

BY_NAMESPACE: Json = {
    "scope": "namespace",
    "namespaces": ["team-a", "team-b"],
    "rbac": {"readNodes": True},
    "admission": {"enabled": False},
    "actuator": {"enabled": False},
}
CASES: dict[str, Json] = {
    "defaults": {},
    "beside an upstream VPA": {"recommenderNames": ["elastipod"]},
    "recommender alone": {name: {"enabled": False} for name in ("updater", "admission", "actuator")},
    "actuator alone": {name: {"enabled": False} for name in ("updater", "admission", "recommender")},
    "one of each": {name: {"replicas": 1} for name in ("recommender", "updater", "admission")},
    "by namespace": BY_NAMESPACE,
    "one namespace, recommender alone": {
        **BY_NAMESPACE,
        "namespaces": [],
        "rbac": {"readNodes": False},
        "updater": {"enabled": False},
    },
    "cgroup v1": {"actuator": {"cgroup": {"version": "v1", "driver": "cgroupfs", "parent": "kubelet"}}},
    "direct mode": {"actuator": {"settings": {"direct": True}, "cgroup": {"version": "v1"}}},
    "no capability": {"actuator": {"sysNice": False}},
    "cert-manager": {"admission": {"certificate": {"source": "certManager"}}},
    "own certificate": {"admission": {"certificate": {"source": "secret", "secretName": "own", "caBundle": "PEM"}}},
    "usage from actuators": {
        "recommender": {"settings": {"usageSource": "actuators,metrics"}},
        "networkPolicy": {"enabled": True, "metricsFrom": [{"podSelector": {}}]},
        "actuator": {"cgroup": {"version": "v1"}},
    },
    "usage from prometheus": {
        "recommender": {
            "settings": {"usageSource": "prometheus", "prometheusUrl": "http://prometheus.monitoring:9090"}
        },
        "networkPolicy": {"enabled": True, "dnsTo": [{"podSelector": {}}]},
    },
    "pod monitor": {"metrics": {"podMonitor": {"enabled": True}}, "networkPolicy": {"enabled": True}},
    "service monitor": {"metrics": {"serviceMonitor": {"enabled": True}}},
    "dashboards and rules": {"metrics": {"dashboards": {"enabled": True}, "prometheusRule": {"enabled": True}}},
    "user namespaces": {"userNamespaces": True},
    "own namespace for nodes": {"actuator": {"namespace": "nodes", "createNamespace": False}},
}


@pytest.fixture(params=CASES, scope="module")
def manifests(request: pytest.FixtureRequest) -> Manifests:
    return render(CASES[request.param])


def test_every_object_is_named_labelled_and_there_once(manifests: Manifests) -> None:
    is_whole(manifests)


def test_every_pod_but_the_actuators_keeps_to_restricted(manifests: Manifests) -> None:
    for component, pod in manifests.pods().items():
        if component != "actuator":
            is_restricted(pod)


def test_no_right_is_wider_than_it_has_to_be(manifests: Manifests) -> None:
    has_narrow_rights(manifests)


@given(values(json.loads(SCHEMA.read_text("utf-8"))))
@pytest.mark.timeout(300)
@settings(max_examples=15, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
def test_whatever_the_schema_allows_is_rendered_or_refused_by_its_name(chosen: Json) -> None:
    try:
        rendered = render(chosen)
    except Refused as refused:
        assert "elastipod: " in str(refused)
        assume(False)
    is_whole(rendered)
    has_narrow_rights(rendered)


def is_whole(manifests: Manifests) -> None:
    """What the API server would not have otherwise, and what people look for."""
    places = [(one["kind"], one["metadata"].get("namespace"), one["metadata"]["name"]) for one in manifests]
    assert len(places) == len(set(places))
    for one in manifests:
        meta = one["metadata"]
        assert 0 < len(meta["name"]) <= 253
        for label in ("name", "instance", "component", "part-of", "version", "managed-by"):
            assert 0 < len(meta["labels"][f"app.kubernetes.io/{label}"]) <= 63, meta
        if one["kind"] in ("Deployment", "DaemonSet"):
            labels = one["spec"]["template"]["metadata"]["labels"]
            assert one["spec"]["selector"]["matchLabels"].items() <= labels.items()
    for component, pod in manifests.pods().items():
        for container in containers(pod):
            names = [one["name"] for one in container.get("env", [])]
            assert len(names) == len(set(names))
            ours = {one.removeprefix("ELASTIPOD_").lower() for one in names if one.startswith("ELASTIPOD_")}
            known = {
                *ProcessSettings.__dataclass_fields__,
                *SETTINGS.get(component, ProcessSettings).__dataclass_fields__,
            }
            assert ours <= known, ours - known
            assert container["image"].count(":") <= 2


def is_restricted(pod: Json) -> None:
    """Pod Security's level `restricted`, by the letter."""
    spec = pod["spec"]
    assert not any(spec.get(one) for one in ("hostNetwork", "hostPID", "hostIPC"))
    assert all(set(one) - {"name"} <= {"emptyDir", "secret", "projected"} for one in spec.get("volumes", []))
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert spec["securityContext"]["runAsUser"] != 0
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    for container in containers(pod):
        context = container["securityContext"]
        assert context["allowPrivilegeEscalation"] is False
        assert context["readOnlyRootFilesystem"] is True
        assert context["capabilities"] == {"drop": ["ALL"]}
        assert "privileged" not in context
        assert all("hostPort" not in one for one in container.get("ports", []))


def has_narrow_rights(manifests: Manifests) -> None:
    for account, granted in rules(manifests).items():
        for rule in granted:
            words = {*rule["apiGroups"], *rule["resources"], *rule["verbs"]}
            assert "*" not in words, account
            assert not words & {"secrets", "pods/status", "nodes/proxy", "pods/exec", "serviceaccounts/token"}
            assert not words & {"impersonate", "bind", "escalate"}
            assert "rbac.authorization.k8s.io" not in words
            assert "admissionregistration.k8s.io" not in words
            if {"pods", "nodes"} & set(rule["resources"]):
                assert set(rule["verbs"]) <= {"get", "list", "watch"}, account


def test_by_namespace_there_is_no_cluster_role_but_the_one_that_reads_nodes() -> None:
    manifests = render(BY_NAMESPACE)
    for role in manifests.of("ClusterRole"):
        assert role["rules"] == [{"apiGroups": [""], "resources": ["nodes"], "verbs": ["list", "watch"]}]
    named = {one["metadata"]["namespace"] for one in manifests.of("Role", "-updater")}
    assert named == {"team-a", "team-b"}
    without = render(CASES["one namespace, recommender alone"])
    kinds = {one["kind"] for one in without}
    assert not kinds & {"ClusterRole", "ClusterRoleBinding", "ValidatingAdmissionPolicy", "Namespace"}
    assert not kinds & {"MutatingWebhookConfiguration", "ValidatingAdmissionPolicyBinding"}


def test_nothing_may_evict() -> None:
    for chosen in CASES.values():
        for granted in rules(render(chosen)).values():
            assert not any("pods/eviction" in rule["resources"] for rule in granted)


def test_the_actuator_is_root_with_nothing_but_its_part_of_the_cgroup_tree() -> None:
    pod = render().pods()["actuator"]
    spec = pod["spec"]
    assert not any(spec.get(one) for one in ("hostNetwork", "hostPID", "hostIPC"))
    assert spec["securityContext"]["runAsUser"] == 0
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert spec["priorityClassName"] == "system-node-critical"
    assert [one["name"] for one in containers(pod)] == ["guard", "actuator"]
    for container in containers(pod):
        assert container["securityContext"] == {
            "privileged": False,
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"], "add": ["SYS_NICE"]},
        }
    assert host_paths(pod) == {"/run/elastipod", "/sys/fs/cgroup/kubepods.slice"}


def test_only_the_container_that_speaks_to_the_api_has_a_token() -> None:
    pod = render().pods()["actuator"]
    assert pod["spec"]["automountServiceAccountToken"] is False
    guard, actuator = containers(pod)
    assert "token" not in {one["name"] for one in guard["volumeMounts"]}
    assert "token" in {one["name"] for one in actuator["volumeMounts"]}
    assert "env" not in guard


def test_without_its_capability_the_actuator_has_none() -> None:
    for container in containers(render({"actuator": {"sysNice": False}}).pods()["actuator"]):
        assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}


@pytest.mark.parametrize(
    ("cgroup", "direct", "trees"),
    [
        ({"version": "v2", "driver": "systemd"}, False, {"kubepods.slice"}),
        ({"version": "v2", "driver": "cgroupfs"}, True, {"kubepods"}),
        ({"version": "v2", "driver": "cgroupfs", "parent": "kubelet"}, False, {"kubelet/kubepods"}),
        (
            {"version": "v2", "driver": "systemd", "parent": "kubelet"},
            False,
            {"kubelet.slice/kubelet-kubepods.slice"},
        ),
        ({"version": "v1", "driver": "systemd"}, False, {"memory/kubepods.slice"}),
        ({"version": "v1", "driver": "cgroupfs"}, True, {"memory/kubepods", "cpu/kubepods"}),
    ],
)
def test_of_the_host_only_the_trees_of_its_pods_are_mounted(cgroup: Json, direct: bool, trees: set[str]) -> None:
    pod = render({"actuator": {"cgroup": cgroup, "settings": {"direct": direct}}}).pods()["actuator"]
    assert host_paths(pod) == {"/run/elastipod", *(f"/sys/fs/cgroup/{tree}" for tree in trees)}
    for container in containers(pod):
        mounted = {one["mountPath"] for one in container["volumeMounts"] if one["name"].startswith("cgroup")}
        assert mounted == {f"/host/cgroup/{tree}" for tree in trees}


def test_all_that_touch_pods_know_the_namespaces_that_are_protected() -> None:
    manifests = render({"protectedNamespaces": ["kube-system", "vault"]})
    told = {
        component: one["value"]
        for component, pod in manifests.pods().items()
        for one in containers(pod)[-1].get("env", [])
        if one["name"] == "ELASTIPOD_NAMESPACES_OFF"
    }
    assert told == dict.fromkeys(("updater", "admission", "actuator"), "elastipod,elastipod-node,kube-system,vault")


def test_new_pods_are_sent_to_the_webhook_only_from_where_they_may_be_sized() -> None:
    manifests = render({"protectedNamespaces": ["kube-system", "vault"]})
    webhook = manifests.one("MutatingWebhookConfiguration")["webhooks"][0]
    (out,) = webhook["namespaceSelector"]["matchExpressions"]
    assert out["operator"] == "NotIn"
    assert set(out["values"]) == {"elastipod", "elastipod-node", "kube-system", "vault"}
    assert (webhook["failurePolicy"], webhook["timeoutSeconds"], webhook["sideEffects"]) == ("Ignore", 2, "None")
    assert webhook["clientConfig"]["caBundle"]


@pytest.mark.parametrize("case", ["defaults", "cert-manager", "own certificate"])
def test_what_shows_the_webhooks_effect_goes_the_way_of_new_pods_and_nothing_else_does(case: str) -> None:
    own = {"webhook": {"failurePolicy": "Fail", "timeoutSeconds": 7}}
    manifests = render({"admission": {**CASES[case].get("admission", {}), **own}})
    pods, canary = manifests.one("MutatingWebhookConfiguration")["webhooks"]
    shared = set(canary) - {"name", "failurePolicy", "timeoutSeconds", "rules", "namespaceSelector", "objectSelector"}
    assert {"clientConfig", "sideEffects"} < shared
    assert {key: canary[key] for key in shared} == {key: pods[key] for key in shared}
    assert ("caBundle" in canary["clientConfig"]) is (case != "cert-manager")
    assert (canary["failurePolicy"], canary["timeoutSeconds"]) == ("Ignore", 4)
    assert (pods["failurePolicy"], pods["timeoutSeconds"]) == ("Fail", 7)
    (rule,) = canary["rules"]
    assert (rule["resources"], rule["operations"]) == (["configmaps"], ["CREATE"])
    assert canary["namespaceSelector"] == {"matchLabels": {"kubernetes.io/metadata.name": NAMESPACE}}
    assert canary["objectSelector"] == {"matchExpressions": [{"key": CANARY, "operator": "Exists"}]}
    (asks,) = (one["value"] for one in env(manifests, "admission") if one["name"] == "ELASTIPOD_CANARY_NAMESPACE")
    (role,) = manifests.of("Role", "-admission-own")
    assert asks == role["metadata"]["namespace"] == NAMESPACE
    assert role["rules"] == [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["create"]}]


@pytest.mark.parametrize("seconds", [0, 20])
def test_the_webhook_answers_for_a_while_when_it_is_to_end_and_has_its_whole_time_after_that(seconds: int) -> None:
    own = {"preStopSeconds": seconds, "terminationGracePeriodSeconds": 10}
    spec = render({"admission": own}).pods()["admission"]["spec"]
    assert spec["terminationGracePeriodSeconds"] == 10 + seconds
    pause = {"lifecycle": {"preStop": {"sleep": {"seconds": seconds}}}} if seconds else {}
    assert {key: one for key, one in spec["containers"][0].items() if key == "lifecycle"} == pause


def test_cert_manager_renews_what_pods_show_below_a_root_whose_key_stays() -> None:
    manifests = render(CASES["cert-manager"])
    shown, root = manifests.one("Certificate", "-admission"), manifests.one("Certificate", "-root")
    (asked,) = manifests.of("Issuer", shown["spec"]["issuerRef"]["name"])
    assert asked["spec"] == {"ca": {"secretName": root["spec"]["secretName"]}}
    assert (root["spec"]["isCA"], root["spec"]["privateKey"]["rotationPolicy"]) == (True, "Never")
    assert shown["spec"]["privateKey"]["rotationPolicy"] == "Always"
    # The API server trusts the root, and gets its next one before a pod shows what is signed with it.
    trusted = manifests.one("MutatingWebhookConfiguration")["metadata"]["annotations"]
    assert trusted == {"cert-manager.io/inject-ca-from": f"{NAMESPACE}/{root['metadata']['name']}"}
    theirs = {"certificate": {"source": "certManager", "issuerRef": {"kind": "ClusterIssuer", "name": "x"}}}
    manifests = render({"admission": theirs})
    assert not manifests.of("Issuer")
    only = manifests.one("Certificate")
    assert only["spec"]["issuerRef"] == {"kind": "ClusterIssuer", "name": "x"}
    trusted = manifests.one("MutatingWebhookConfiguration")["metadata"]["annotations"]
    assert trusted == {"cert-manager.io/inject-ca-from": f"{NAMESPACE}/{only['metadata']['name']}"}


def test_helm_and_cert_manager_do_not_take_each_others_secret() -> None:
    issued = render(CASES["cert-manager"])
    (volume,) = [one for one in issued.pods()["admission"]["spec"]["volumes"] if "secret" in one]
    secrets = {one["spec"]["secretName"] for one in issued.of("Certificate")}
    assert volume["secret"]["secretName"] in secrets
    assert render().one("Secret")["metadata"]["name"] not in secrets


def test_the_test_runs_where_the_components_may() -> None:
    placed = {"nodeSelector": {"pool": "system"}, "tolerations": [{"key": "system", "operator": "Exists"}]}
    spec = render({"recommender": placed}).pods()["test"]["spec"]
    assert spec["nodeSelector"] == {"pool": "system", "kubernetes.io/os": "linux"}
    assert spec["tolerations"] == placed["tolerations"]


def test_the_webhook_is_on_the_nodes_network_where_that_is_asked_for() -> None:
    spec = render({"admission": {"hostNetwork": True}}).pods()["admission"]["spec"]
    assert (spec["hostNetwork"], spec["dnsPolicy"]) == (True, "ClusterFirstWithHostNet")


def test_one_replica_has_no_disruption_budget() -> None:
    assert len(render().of("PodDisruptionBudget")) == 3
    assert not render(CASES["one of each"]).of("PodDisruptionBudget")


def test_two_releases_do_not_meet_in_what_is_cluster_wide() -> None:
    wide = {"ClusterRole", "ClusterRoleBinding", "MutatingWebhookConfiguration", "ValidatingAdmissionPolicy"}

    def names(*argv: str) -> set[tuple[str, str]]:
        return {(one["kind"], one["metadata"]["name"]) for one in render({}, *argv) if one["kind"] in wide}

    assert not names() & names("--namespace", "other")


@pytest.mark.parametrize("component", COMPONENTS)
def test_what_is_switched_off_leaves_nothing(component: str) -> None:
    for one in render({component: {"enabled": False}}):
        assert one["metadata"]["labels"]["app.kubernetes.io/component"] != component


def env(manifests: Manifests, component: str) -> list[Json]:
    found: list[Json] = containers(manifests.pods()[component])[-1]["env"]
    return found


def host_paths(pod: Json) -> set[str]:
    return {one["hostPath"]["path"] for one in pod["spec"]["volumes"] if "hostPath" in one}
