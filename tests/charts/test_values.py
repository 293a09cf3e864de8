"""What may be set, and what is refused: by the schema, or by its name where values contradict each other."""

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from elastipod.pods import Node
from elastipod.settings import load_all
from recommender.nodekinds import WORDS, capacity_type
from recommender.prices import PriceError, read_prices
from tests.charts.pages import CHART, SCHEMA, SET_BY_THE_CHART, SETTINGS, camel, default_values, pages
from tests.charts.rendering import COMPONENTS, Refused, containers, helm, needs_helm, notes, render

Json = dict[str, Any]


def schema() -> Json:
    found: Json = json.loads(SCHEMA.read_text("utf-8"))
    return found


def objects(one: Any, path: str = "") -> Iterator[tuple[str, Json]]:
    """Every schema within a schema."""
    if isinstance(one, dict):
        if "type" in one or "$ref" in one or "anyOf" in one or "allOf" in one:
            yield path, one
        for key, each in one.items():
            yield from objects(each, f"{path}/{key}")


def test_every_value_is_described() -> None:
    for path, one in objects(schema()):
        for name, each in one.get("properties", {}).items():
            if not path.endswith("/items"):
                assert each["description"].endswith("."), f"{path}: {name}"


def test_no_object_with_named_values_takes_others() -> None:
    for path, one in objects(schema()):
        if "properties" in one:
            assert one["additionalProperties"] is False, path


def test_every_default_stands_in_the_schema_and_every_value_has_a_default() -> None:
    def compare(values: Json, one: Json, path: str) -> None:
        properties = one.get("properties")
        if properties is None or not values:
            return
        assert set(values) == set(properties) - {"global"}, path
        for name, value in values.items():
            if isinstance(value, dict):
                compare(value, properties[name], f"{path}.{name}")

    compare(default_values(), schema(), "")


def test_schema_and_readme_say_what_the_code_says() -> None:
    for path, text in pages().items():
        assert path.read_text("utf-8") == text, f"{path.name}: run make docs"


@needs_helm
def test_lint_finds_nothing() -> None:
    assert "0 chart(s) failed" in helm("lint", "--strict", str(CHART))


@needs_helm
@pytest.mark.parametrize(
    ("values", "named"),
    [
        ({"recomender": {}}, "recomender"),
        ({"updater": {"settings": {"coolDown": 1}}}, "coolDown"),
        ({"updater": {"settings": {"namespacesOff": []}}}, "namespacesOff"),
        ({"updater": {"replicas": 0}}, "/updater/replicas"),
        ({"recommender": {"settings": {"halfLifeSeconds": "a day"}}}, "/recommender/settings/halfLifeSeconds"),
        ({"actuator": {"cgroup": {"version": "v3"}}}, "/actuator/cgroup/version"),
        ({"actuator": {"stateFolder": "/"}}, "/actuator/stateFolder"),
        ({"actuator": {"stateFolder": "/run/../etc"}}, "/actuator/stateFolder"),
        ({"actuator": {"cgroup": {"parent": "../.."}}}, "/actuator/cgroup/parent"),
        ({"protectedNamespaces": ["a'b"]}, "/protectedNamespaces/0"),
        ({"recommenderNames": []}, "/recommenderNames"),
        ({"images": {"node": {"digest": "sha256:abc"}}}, "/images/node/digest"),
        ({"images": {"registry": "https://registry.example"}}, "/images/registry"),
        ({"images": {"registry": "registry.example/"}}, "/images/registry"),
        ({"prices": {"currency": "euro"}}, "/prices/currency"),
        ({"prices": {"nodes": [{"coreHour": 1}]}}, "/prices/nodes/0"),
        ({"prices": {"nodes": [{"coreHour": -1, "gibHour": 1}]}}, "/prices/nodes/0/coreHour"),
        ({"prices": {"nodes": [{"coreHour": 1, "gibHour": 1, "region": "a,b"}]}}, "/prices/nodes/0/region"),
    ],
)
def test_what_the_schema_does_not_allow_is_refused_by_its_name(values: Json, named: str) -> None:
    with pytest.raises(Refused, match="values don't meet the specifications of the schema") as refused:
        render(values)
    assert named in str(refused.value).replace("'", "")


_OFF = {name: {"enabled": False} for name in COMPONENTS}
_BY_NAMESPACE: Json = {"scope": "namespace", "admission": {"enabled": False}, "actuator": {"enabled": False}}


@needs_helm
@pytest.mark.parametrize(
    ("values", "named"),
    [
        (_OFF, ["recommender.enabled", "actuator.enabled"]),
        ({"namespaces": ["team-a"]}, ["namespaces", "scope: namespace"]),
        ({"rbac": {"readNodes": True}}, ["rbac.readNodes", "scope: namespace"]),
        ({"scope": "namespace"}, ["actuator.enabled", "scope: namespace"]),
        ({"scope": "namespace", "actuator": {"enabled": False}}, ["admission.enabled", "scope: namespace"]),
        (_BY_NAMESPACE, ["updater.enabled", "rbac.readNodes"]),
        (
            {
                **_BY_NAMESPACE,
                "updater": {"enabled": False},
                "namespaces": ["team-a"],
                "protectedNamespaces": ["team-a"],
            },
            ["team-a", "namespaces", "protectedNamespaces"],
        ),
        ({"admission": {"certificate": {"source": "secret"}}}, ["admission.certificate.secretName"]),
        (
            {"admission": {"certificate": {"source": "secret", "secretName": "own"}}},
            ["admission.certificate.caBundle"],
        ),
        (
            {"admission": {"certificate": {"secretName": "own"}}},
            ["admission.certificate.secretName", "admission.certificate.source: helm"],
        ),
        (
            {"admission": {"certificate": {"source": "certManager", "caBundle": "x"}}},
            ["admission.certificate.caBundle", "admission.certificate.source: certManager"],
        ),
        (
            {"admission": {"certificate": {"issuerRef": {"name": "x"}}}},
            ["admission.certificate.issuerRef", "admission.certificate.source: helm"],
        ),
        (
            {"admission": {"replicas": 1, "webhook": {"failurePolicy": "Fail"}}},
            ["admission.webhook.failurePolicy", "admission.replicas"],
        ),
        ({"admission": {"port": 9000}, "metrics": {"port": 9000}}, ["admission.port", "metrics.port", "9000"]),
        ({"actuator": {"namespace": "elastipod"}}, ["actuator.namespace", "actuator.createNamespace"]),
        ({"actuator": {"cgroup": {"parent": "kubelet/more"}}}, ["actuator.cgroup.parent", "actuator.cgroup.driver"]),
        (
            {"actuator": {"settings": {"memorySpike": "Pause", "memorySpikeAllowed": False}}},
            ["actuator.settings.memorySpike", "actuator.settings.memorySpikeAllowed"],
        ),
        ({"actuator": {"namespace": "kube-system"}}, ["actuator.namespace", "actuator.createNamespace"]),
        ({"updater": {"serviceAccount": {"create": False}}}, ["updater.serviceAccount.name"]),
        (
            {name: {"serviceAccount": {"name": "x"}} for name in ("recommender", "updater")},
            ["recommender.serviceAccount.name", "updater.serviceAccount.name"],
        ),
        (
            {name: {"serviceAccount": {"create": False, "name": "x"}} for name in ("recommender", "updater")},
            ["recommender.serviceAccount.name", "updater.serviceAccount.name"],
        ),
        (
            {"recommender": {"serviceAccount": {"name": "elastipod-updater"}}},
            ["recommender.serviceAccount.name", "updater.serviceAccount.name"],
        ),
        ({"updater": {"serviceAccount": {"name": "elastipod-test"}}}, ["updater.serviceAccount.name", "helm test"]),
        (
            {"updater": {"serviceAccount": {"create": False, "name": "default"}}},
            ["updater.serviceAccount.name", "default"],
        ),
        ({"actuator": {"serviceAccount": {"name": "default"}}}, ["actuator.serviceAccount.name", "default"]),
        (
            {**_BY_NAMESPACE, "updater": {"enabled": False}, "protectedNamespaces": ["elastipod"]},
            ["elastipod", "namespaces", "protectedNamespaces"],
        ),
        (
            {"recommender": {"nodeSelector": {"kubernetes.io/os": "windows"}}},
            ["recommender.nodeSelector", "kubernetes.io/os: windows"],
        ),
        (
            {"admission": {"hostNetwork": True}, "userNamespaces": True},
            ["admission.hostNetwork", "userNamespaces"],
        ),
        ({"commonLabels": {"app.kubernetes.io/name": "x"}}, ["commonLabels", "app.kubernetes.io/name"]),
        ({"updater": {"podLabels": {"helm.sh/chart": "x"}}}, ["updater.podLabels", "helm.sh/chart"]),
        (
            {"images": {"node": {"tag": "1", "digest": f"sha256:{'0' * 64}"}}},
            ["images.node.tag", "images.node.digest"],
        ),
        ({"prices": {"csv": "x", "nodes": [{"coreHour": 1, "gibHour": 1}]}}, ["prices.csv", "prices.nodes"]),
        ({"prices": {"csv": "x", "currency": "EUR"}}, ["prices.csv", "prices.currency is EUR"]),
        ({"prices": {"currency": "EUR"}}, ["prices.currency is EUR", "prices.nodes"]),
        (
            {"prices": {"nodes": [{"coreHour": 1, "gibHour": 1}, {"coreHour": 2, "gibHour": 1}]}},
            ["prices.nodes, entry 2 speaks of the same nodes as prices.nodes, entry 1"],
        ),
        ({"prices": {"nodes": [{"coreHour": 2e6, "gibHour": 1}]}}, ["prices.nodes, entry 1", "core_hour is"]),
        (
            {"metrics": {"podMonitor": {"enabled": True}, "serviceMonitor": {"enabled": True}}},
            ["metrics.podMonitor.enabled", "metrics.serviceMonitor.enabled"],
        ),
    ],
)
def test_values_that_contradict_each_other_are_refused_by_their_names(values: Json, named: list[str]) -> None:
    with pytest.raises(Refused) as refused:
        render(values)
    for name in named:
        assert name in str(refused.value)


@needs_helm
@pytest.mark.parametrize(
    "prices",
    [
        {
            "currency": "EUR",
            "nodes": [
                {"instanceType": "m5.large", "capacityType": "spot", "coreHour": 0.000004, "gibHour": 1e-7},
                {"coreHour": 3, "gibHour": 0.5},
            ],
        },
        {
            "csv": "core_hour,gib_hour,instance_type,currency,capacity_type\n"
            "0.000004,1e-7,m5.large,EUR,spot\n3,0.5,,EUR,"
        },
    ],
)
def test_prices_reach_the_recommender_as_they_are_given(prices: Json) -> None:
    manifests = render({"prices": prices})
    pod = manifests.pods()["recommender"]
    [container] = containers(pod)
    [path] = [one["value"] for one in container["env"] if one["name"] == "ELASTIPOD_PRICES_FILE"]
    [mount] = [one for one in container["volumeMounts"] if path.startswith(one["mountPath"])]
    [volume] = [one for one in pod["spec"]["volumes"] if one["name"] == mount["name"]]
    table = read_prices(manifests.one("ConfigMap", volume["configMap"]["name"])["data"][path.rpartition("/")[2]])
    labels = {"node.kubernetes.io/instance-type": "m5.large", "karpenter.sh/capacity-type": "spot"}
    found = [table.of(Node("n", labels=labels)), table.of(Node("n"))]
    assert [(one.core_hour, one.gib_hour, one.currency) for one in found] == [(4e-6, 1e-7, "EUR"), (3.0, 0.5, "EUR")]
    # Another price is read, since the pod is another.
    other = render({"prices": {"nodes": [{"coreHour": 4, "gibHour": 1}]}}).pods()["recommender"]
    assert other["metadata"]["annotations"] != pod["metadata"]["annotations"]


REFUSED_TABLES = [
    "\n",
    "core_hour",
    "core_hour;gib_hour\n0,1;0,2",
    "core_hour,gib_hour,zone\n1,2,a",
    "core_hour,gib_hour,core_hour\n1,2,1",
    "core_hour,gib_hour\r1,2\r",
    "core_hour,gib_hour\n",
    "core_hour,gib_hour\n1",
    "core_hour,gib_hour\n1,two",
    "core_hour,gib_hour\n-1,2",
    "core_hour,gib_hour\n1,2000000",
    "core_hour,gib_hour\n1,2\n1,3",
    "capacity_type,core_hour,gib_hour\nspot,1,2\nPREEMPTIBLE ,1,3",
    "core_hour,gib_hour,currency\n1,2,euro",
    "region,core_hour,gib_hour,currency\na,1,2,EUR\n,1,2,USD",
    "region,core_hour,gib_hour,currency\na,1,2,EUR",
]
TAKEN_TABLES = [
    "\ufeffcore_hour,gib_hour\r\n.5,25e-2\r\n",
    '"core_hour","gib_hour","region"\n"1","2","a,b"\n',
    "\n core_hour , gib_hour\n\n1,2\n,\n",
    "region,capacity_type,core_hour,gib_hour\na,spot,1,2\na,,1,2\na,on-demand,1,2\na,reserved,1,2\n",
]


@needs_helm
@pytest.mark.parametrize("table", [*REFUSED_TABLES, *TAKEN_TABLES])
def test_a_price_table_is_refused_where_the_recommender_would_refuse_it(table: str) -> None:
    if table in TAKEN_TABLES:
        read_prices(table)
        render({"prices": {"csv": table}})
        return
    with pytest.raises(PriceError):
        read_prices(table)
    with pytest.raises(Refused, match=r"prices\.csv"):
        render({"prices": {"csv": table}})


@needs_helm
@pytest.mark.parametrize("word", [*WORDS, "ON_DEMAND", "On-Demand", "Ec2Spot"])
def test_the_chart_knows_the_words_for_capacity_types_that_the_recommender_knows(word: str) -> None:
    of = {"coreHour": 1, "gibHour": 1}
    entries = [{**of, "capacityType": word}, {**of, "capacityType": capacity_type(word)}]
    with pytest.raises(Refused, match="same nodes"):
        render({"prices": {"nodes": entries}})


@needs_helm
def test_without_prices_nothing_of_them_is_rendered() -> None:
    manifests = render({})
    assert "prices" not in json.dumps(manifests)


@needs_helm
def test_kubernetes_before_1_33_is_refused_with_the_reason() -> None:
    with pytest.raises(Refused, match=r"Kubernetes v1\.32\.9 can not resize running pods.*1\.33"):
        render({}, "--kube-version", "1.32.9")


@needs_helm
def test_notes_tell_what_1_33_can_not_do_and_that_there_are_no_metrics() -> None:
    old = notes("--kube-version", "1.33.4")
    assert "does not lower a running container's memory limit" in old
    assert "has no metrics API" in old
    new = notes("--kube-version", "1.34.0", "--api-versions", "metrics.k8s.io/v1beta1")
    assert "!!" not in new


@needs_helm
@pytest.mark.parametrize(
    ("values", "level", "named"),
    [
        ([], "restricted", ""),
        (["actuator.enabled=false"], "restricted", ""),
        (["admission.hostNetwork=true"], "", "admission.hostNetwork"),
        (["admission.hostNetwork=true", "admission.enabled=false"], "restricted", ""),
        (["podSecurityContext.runAsUser=0"], "baseline", "podSecurityContext.runAsUser"),
        (["podSecurityContext=null"], "baseline", "podSecurityContext.runAsNonRoot, podSecurityContext.seccompProfile"),
        (["containerSecurityContext.privileged=true"], "", "containerSecurityContext.privileged"),
        (
            ["containerSecurityContext.capabilities.add={NET_BIND_SERVICE,KILL}"],
            "baseline",
            "containerSecurityContext.capabilities.add",
        ),
        (["containerSecurityContext.capabilities.add={SYS_ADMIN}"], "", "containerSecurityContext.capabilities.add"),
        (["podSecurityContext.seccompProfile.type=Unconfined"], "", "podSecurityContext.seccompProfile"),
        (["updater.extraVolumes[0].name=x", "updater.extraVolumes[0].hostPath.path=/x"], "", "updater.extraVolumes"),
        (["updater.extraVolumes[0].name=x", "updater.extraVolumes[0].nfs.path=/x"], "baseline", "updater.extraVolumes"),
        (["updater.extraVolumes[0].name=x", "updater.extraVolumes[0].secret.secretName=x"], "restricted", ""),
    ],
)
def test_notes_name_the_level_of_pod_security_that_the_values_keep_to(
    values: list[str], level: str, named: str
) -> None:
    told = notes(*(word for value in values for word in ("--set", value)))
    assert re.findall("pod-security.kubernetes.io/enforce=(.*)", told) == ([level] if level else [])
    assert re.findall(r"refuse pods with these values: (.*)\.", told) == ([named] if named else [])


EXAMPLES: Json = {"integer": 321, "number": 0.5, "boolean": True, "string": "8Gi", "array": ["X-A: b"]}
RECOMMENDER_VALUES: Json = {
    "mostWritesAtOnce": 104_857_600,
    "oomBumpRatio": 1.5,
    "estimator": "Histogram",
    "usageSource": "prometheus",
    "prometheusUrl": "https://prometheus.monitoring:9090",
    "prometheusProxy": "http://proxy:3128",
    "prometheusUsername": "",
    "prometheusMatchers": ['cluster="prod"', 'env=~"a|b"'],
    **dict.fromkeys(("prometheusTokenFile", "prometheusCaFile", "prometheusCertFile", "prometheusKeyFile"), __file__),
}


@needs_helm
@pytest.mark.parametrize(
    ("values", "named"),
    [
        ({"updater": None}, "missing property 'updater'"),
        ({"metrics": {"port": None}}, "at '/metrics': missing property 'port'"),
        ({"actuator": {"cgroup": None}}, "at '/actuator': missing property 'cgroup'"),
        ({"updater": {"serviceAccount": {"create": None}}}, "at '/updater/serviceAccount': missing property 'create'"),
    ],
)
def test_a_value_that_is_taken_away_is_missed_by_its_name(values: Json, named: str) -> None:
    with pytest.raises(Refused) as refused:
        render(values)
    assert named in str(refused.value)


def test_each_value_is_missed_that_can_not_be_empty() -> None:
    def compare(values: Json, one: Json, path: str) -> None:
        required = set(one.get("required", ()))
        for name, value in values.items():
            each = one["properties"][name]
            if isinstance(value, dict) and "properties" in each and value:
                assert name in required, f"{path}.{name}"
                compare(value, each, f"{path}.{name}")
            elif isinstance(value, bool | int) or each.get("enum"):
                assert name in required | {"revisionHistoryLimit"}, f"{path}.{name}"

    compare(default_values(), schema(), "")


@needs_helm
def test_what_can_be_empty_can_be_left_empty() -> None:
    """In YAML, a key with nothing but comments below it."""
    own = dict.fromkeys(
        ("settings", "podLabels", "podAnnotations", "nodeSelector", "tolerations", "extraEnv", "affinity", "resources")
    )
    webhook = {"namespaceSelector": None, "objectSelector": None}
    values: dict[str, Any] = {name: {**own, "priorityClassName": None} for name in COMPONENTS}
    values["admission"] |= {"webhook": webhook, "certificate": {"source": "certManager", "issuerRef": None}}
    on = {"enabled": True, "labels": None}
    values |= {"commonLabels": None, "protectedNamespaces": None, "podSecurityContext": None}
    manifests = render({**values, "metrics": dict.fromkeys(("podMonitor", "prometheusRule", "dashboards"), on)})
    assert set(manifests.pods()) == {*COMPONENTS, "test"}


@needs_helm
def test_a_release_with_dots_in_its_name_has_names_without() -> None:
    named = helm("template", "my.release", str(CHART))
    assert "name: my-release-elastipod-admission\n" in named
    assert "name: my.release" not in named


@needs_helm
def test_a_name_that_no_service_can_have_is_refused() -> None:
    with pytest.raises(Refused, match=r"1st-elastipod-.*set fullnameOverride"):
        helm("template", "1st", str(CHART))
    assert "name: first-admission\n" in helm("template", "1st", str(CHART), "--set", "fullnameOverride=first")


@needs_helm
@pytest.mark.parametrize("component", COMPONENTS)
def test_every_setting_of_a_component_reaches_it_as_it_was_given(component: str) -> None:
    """By way of the schema, helm and the environment, into the settings object."""
    given: Json = {}
    for name, one in schema()["definitions"][f"{component}Settings"]["properties"].items():
        given[name] = {"integer": 321, "number": 0.5, "boolean": True, "string": "8Gi", "array": ["X-A: b"]}[
            one["type"]
        ]
    given |= (
        {"memorySpike": "Off", "memorySpikeMaxFactor": 2.5, "sampleSeconds": 2.5} if component == "actuator" else {}
    )
    given |= {"ownerWaitSeconds": 0.25} if component == "admission" else {}
    given |= RECOMMENDER_VALUES if component == "recommender" else {}
    pod = render({component: {"settings": given}}).pods()[component]
    environ = {one["name"]: one["value"] for one in containers(pod)[-1]["env"] if "value" in one}
    (settings,) = load_all((SETTINGS[component],), [], _without_others(environ, component))
    for name in SETTINGS[component].__dataclass_fields__:
        if name not in SET_BY_THE_CHART:
            found = getattr(settings, name)
            assert (list(found) if isinstance(found, tuple) else found) == given[camel(name)], name


def _without_others(environ: dict[str, str], component: str) -> dict[str, str]:
    """What is meant for these settings, and not for ProcessSettings."""
    known = {f"ELASTIPOD_{name.upper()}" for name in SETTINGS[component].__dataclass_fields__}
    return {name: value for name, value in environ.items() if name in known}
