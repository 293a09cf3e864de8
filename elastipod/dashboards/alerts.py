"""What an alert is, and rules as Prometheus reads them.

Owns the words and that form. Which alerts there are is rules.py's matter. An alert says nothing where its metric is
gone, so each has a partner that speaks then.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

Json = dict[str, Any]

_MISSED_FOR: Final = "7d"
"""So long a cluster is missed that told of a metric once."""


class Severity(StrEnum):
    """How soon a person should look."""

    WARNING = "warning"
    INFO = "info"


@dataclass(frozen=True, slots=True)
class Recorded:
    """A series that Prometheus computes and keeps."""

    name: str
    expression: str


@dataclass(frozen=True, slots=True)
class Alert:
    """Something that a person should hear of, once it has held for long enough."""

    name: str
    expression: str
    holds_for: str
    summary: str
    """One line; labels as Prometheus' templates have them, and `each` value of one that is none of the alert's."""
    what_to_do: str
    watched: str
    """A series that is always there while the alert can see."""
    severity: Severity = Severity.WARNING
    unseen: Severity = Severity.INFO
    """Its partner's."""


@dataclass(frozen=True, slots=True)
class Group:
    """The rules about one component."""

    component: str
    recorded: tuple[Recorded, ...]
    alerts: tuple[Alert, ...]


def each(label: str, metric: str, by: tuple[str, ...], condition: str) -> str:
    """The values of a metric's label of what an alert is about, where a condition holds, in its text.

    What changes while the alert is the same is no label of it: it would be another alert, which has not held for long.
    """
    same = ", ".join(f"{one}=%q" for one in by)
    about = " ".join(f"$labels.{one}" for one in by)
    asked = f"query (printf `group by ({label}) ({metric}{{{same}}} {condition})` {about})"
    return (
        f"{{{{ range $i, $one := {asked} }}}}{{{{ if $i }}}}, {{{{ end }}}}{{{{ $one.Labels.{label} }}}}{{{{ end }}}}"
    )


def rule_file(group: Group) -> Json:
    """A rule file of Prometheus, which is the spec of a PrometheusRule as well."""
    recording = [{"record": one.name, "expr": one.expression} for one in group.recorded]
    alerting = [rule for one in group.alerts for rule in (_alert(one), _partner(one))]
    parts = (("recording", recording), ("alerts", alerting))
    return {
        "groups": [{"name": f"elastipod-{group.component}-{name}", "rules": rules} for name, rules in parts if rules]
    }


def _alert(alert: Alert) -> Json:
    return _rule(alert.name, alert.expression, alert.holds_for, alert.severity, alert.summary, alert.what_to_do)


def _partner(alert: Alert) -> Json:
    # With several clusters in one Prometheus it is missed where it was of late; where it never was, once for all.
    there = f"group by (cluster) ({alert.watched})"
    gone = (
        f"(max_over_time(({there})[{_MISSED_FOR}:1h]) unless {there}) or group by (cluster) (absent({alert.watched}))"
    )
    return _rule(
        f"{alert.name}Unknown",
        gone,
        "15m",
        alert.unseen,
        f"{alert.name} can not be told: {alert.watched} is missing.",
        "See whether the component runs, leads, and is scraped; `elastipod status` tells.",
    )


def _rule(name: str, expression: str, holds_for: str, severity: Severity, summary: str, what_to_do: str) -> Json:
    return {
        "alert": name,
        "expr": expression,
        "for": holds_for,
        "labels": {"severity": str(severity)},
        "annotations": {"summary": summary, "description": what_to_do},
    }
