"""What the chart brings for those who watch elastipod: dashboards, rules, and how metrics are scraped."""

import json
from typing import Any

import pytest
import yaml

from elastipod.dashboards.boards import BOARDS, files
from tests.charts.rendering import NAMESPACE, needs_helm, render

Json = dict[str, Any]
pytestmark = needs_helm


def test_each_board_is_a_config_map_that_grafanas_sidecar_finds() -> None:
    found = render({"metrics": {"dashboards": {"enabled": True}}}).of("ConfigMap")
    texts = {name: text for one in found for name, text in one["data"].items()}
    assert set(texts) == {f"elastipod-{board.name}.json" for board in BOARDS}
    for board in BOARDS:
        assert json.loads(texts[f"elastipod-{board.name}.json"]) == json.loads(files()[f"dashboards/{board.name}.json"])
    for one in found:
        assert one["metadata"]["labels"]["grafana_dashboard"] == "1"
        assert one["metadata"]["namespace"] == NAMESPACE


def test_dashboards_lie_where_a_sidecar_of_another_namespace_looks() -> None:
    chosen = {
        "enabled": True,
        "namespace": "monitoring",
        "labels": {"grafana_dashboard": "yes", "team": "platform"},
        "annotations": {"grafana_folder": "elastipod"},
    }
    for one in render({"metrics": {"dashboards": chosen}}).of("ConfigMap"):
        meta = one["metadata"]
        assert meta["namespace"] == "monitoring"
        assert (meta["labels"]["grafana_dashboard"], meta["labels"]["team"]) == ("yes", "platform")
        assert meta["annotations"] == {"grafana_folder": "elastipod"}


def test_rules_speak_of_the_components_that_are_on_and_are_those_of_the_command() -> None:
    chosen: Json = {"metrics": {"prometheusRule": {"enabled": True, "labels": {"release": "prometheus"}}}}
    rule = render(chosen).one("PrometheusRule")
    assert rule["metadata"]["labels"]["release"] == "prometheus"
    plain = {name: yaml.safe_load(text) for name, text in files().items() if name.startswith("rules/")}
    assert rule["spec"]["groups"] == [
        group for name in ("recommender", "updater", "actuator") for group in plain[f"rules/{name}.yaml"]["groups"]
    ]
    alone = render({**chosen, "updater": {"enabled": False}, "actuator": {"enabled": False}}).one("PrometheusRule")
    assert alone["spec"]["groups"] == plain["rules/recommender.yaml"]["groups"]


@pytest.mark.parametrize(
    ("monitor", "kind", "endpoints"),
    [("podMonitor", "PodMonitor", "podMetricsEndpoints"), ("serviceMonitor", "ServiceMonitor", "endpoints")],
)
def test_scraping_keeps_the_namespace_that_a_metric_names_and_adds_the_node(
    monitor: str, kind: str, endpoints: str
) -> None:
    [endpoint] = render({"metrics": {monitor: {"enabled": True}}}).one(kind)["spec"][endpoints]
    assert endpoint["honorLabels"] is True
    assert endpoint["relabelings"] == [{"sourceLabels": ["__meta_kubernetes_pod_node_name"], "targetLabel": "node"}]


def test_nothing_of_it_is_there_unless_it_is_asked_for() -> None:
    assert not [one for one in render() if one["kind"] in ("ConfigMap", "PrometheusRule")]
