"""Every metric that a board or a rule names is one that the code publishes, and is treated as what it is."""

import re
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from elastipod.dashboards.boards import BOARDS, files
from elastipod.dashboards.rules import GROUPS
from tests.metricspage import families

KUBELETS = {
    "container_cpu_cfs_periods_total",
    "container_cpu_cfs_throttled_periods_total",
    "container_start_time_seconds",
}
"""Of the kubelets' cAdvisor; of others nothing is asked for."""
_RECORDED = {one.name for group in GROUPS for one in group.recorded}
_WORDS = {
    *("abs", "absent", "and", "by", "count", "group", "histogram_quantile", "label_replace", "last_over_time", "max"),
    *("max_over_time", "min", "offset", "on", "or", "rate", "sum", "time", "topk", "unless"),
}


def published() -> set[str]:
    """The names of all series that the parts tell."""
    told = [family for section in families().values() for family in section]
    plain = {one.name for one in told if one.kind != "histogram"}
    return plain | {
        f"{one.name}_{part}" for one in told if one.kind == "histogram" for part in ("bucket", "count", "sum")
    }


def expressions() -> Iterator[tuple[str, str]]:
    """All that is asked of Prometheus, and where."""
    for board in BOARDS:
        for panel in board.panels:
            for query in panel.queries:
                yield f"{board.name}: {panel.title}", query.expression
        for annotation in board.annotations:
            yield f"{board.name}: {annotation.name}", annotation.expression
        for variable in board.variables:
            yield f"{board.name}: ${variable.name}", variable.metric
    for name, text in files().items():
        if name.startswith("rules/"):
            for group in yaml.safe_load(text)["groups"]:
                for rule in group["rules"]:
                    yield f"{name}: {rule.get('alert') or rule['record']}", rule["expr"]


def names(expression: str) -> set[str]:
    """The metrics in an expression: its words outside of selectors, labels and durations."""
    bare = re.sub(r'"[^"]*"', "", expression)
    bare = re.sub(r"\{[^}]*\}|\[[^\]]*\]|\b(?:by|on) \([^)]*\)|offset \$?\w+", " ", bare)
    return set(re.findall(r"[a-zA-Z_:][\w:]*", bare)) - _WORDS


def test_every_metric_is_published_recorded_or_the_kubelets() -> None:
    known = published() | _RECORDED | KUBELETS
    unknown = {where: found for where, expression in expressions() if (found := names(expression) - known)}
    assert not unknown


def test_nothing_that_is_published_of_workloads_is_shown_nowhere() -> None:
    shown = {name for _, expression in expressions() for name in names(expression)}
    hidden = {name for name in published() if name.startswith(("elastipod_workload_", "elastipod_node_"))} - shown
    assert hidden <= {"elastipod_workload_requests_cost_per_hour"}


def test_whatever_is_recorded_is_shown() -> None:
    shown = {
        name
        for board in BOARDS
        for panel in board.panels
        for query in panel.queries
        for name in names(query.expression)
    }
    assert shown >= _RECORDED


def test_only_what_counts_is_asked_for_its_growth() -> None:
    for where, expression in expressions():
        growing = set(re.findall(r"rate\((\w+)", expression))
        assert all(name.endswith(("_total", "_count", "_bucket")) for name in growing), where


@pytest.mark.parametrize(
    ("expression", "found"),
    [
        ('sum by (a, b) (max by (c) (rate(x_total{a="b"}[5m]))) / y', {"x_total", "y"}),
        ("topk(10, n:x:sum or z) and on (q) w offset 15m", {"n:x:sum", "z", "w"}),
    ],
)
def test_metrics_are_found_in_expressions(expression: str, found: Any) -> None:
    assert names(expression) == found
