"""What a HorizontalPodAutoscaler may say: its target, its bounds and its metrics.

Owns the rules between its fields. Behaviour is kept as it is written: nothing scales horizontally here.
"""

from collections.abc import Iterator
from typing import Any, Final

from elastipod.localcluster.api.failures import Problem, forbidden_field, invalid_value, not_supported, required
from elastipod.localcluster.api.podspec import nano

Json = dict[str, Any]

_SOURCES: Final = {
    "ContainerResource": "containerResource",
    "External": "external",
    "Object": "object",
    "Pods": "pods",
    "Resource": "resource",
}
_TARGETS: Final = ("Utilization", "Value", "AverageValue")


def scaler_problems(spec: Json) -> Iterator[Problem]:
    """Everything wrong with a scaler."""
    target = spec.get("scaleTargetRef") or {}
    yield from (required(f"spec.scaleTargetRef.{field}") for field in ("kind", "name") if not target.get(field))
    if not target.get("apiVersion"):
        yield invalid_value("spec.scaleTargetRef.apiVersion", "", "must specify API version")
    least, most = spec.get("minReplicas", 1), spec.get("maxReplicas", 0)
    metrics = spec.get("metrics") or []
    if least < 0:
        yield invalid_value("spec.minReplicas", least, "must be greater than or equal to 0")
    elif least == 0 and not any(one.get("type") in ("Object", "External") for one in metrics):
        detail = "must specify at least one Object or External metric to support scaling to zero replicas"
        yield forbidden_field("spec.metrics", detail)
    if most == 0:
        yield required("spec.maxReplicas")
    elif most < 0:
        yield invalid_value("spec.maxReplicas", most, "must be greater than 0")
    if most < least:
        yield invalid_value("spec.maxReplicas", most, "must be greater than or equal to `minReplicas`")
    for place, metric in enumerate(metrics):
        yield from _metric_problems(metric, f"spec.metrics[{place}]")


def _metric_problems(metric: Json, path: str) -> Iterator[Problem]:
    kind = metric.get("type") or ""
    if not kind:
        yield required(f"{path}.type", "must specify a metric source type")
    if kind not in _SOURCES:
        yield not_supported(f"{path}.type", kind, tuple(_SOURCES))
        return
    stated = [field for field in _SOURCES.values() if metric.get(field) is not None]
    wanted = _SOURCES[kind]
    if wanted not in stated:
        yield required(f"{path}.{wanted}", "must populate information for the given metric source")
    for other in stated:
        if other != wanted:
            yield forbidden_field(f"{path}.{other}", "must populate the given metric source only")
    if wanted in stated:
        yield from _source_problems(wanted, metric[wanted], f"{path}.{wanted}")


def _source_problems(kind: str, source: Json, path: str) -> Iterator[Problem]:
    target = source.get("target") or {}
    if kind in ("resource", "containerResource"):
        if not source.get("name"):
            yield required(f"{path}.name", "must specify a resource name")
        if kind == "containerResource" and not source.get("container"):
            yield required(f"{path}.container", "must specify a container")
        yield from _usage_problems(target, f"{path}.target")
    else:
        if kind == "object":
            about = source.get("describedObject") or {}
            yield from (
                required(f"{path}.describedObject.{field}") for field in ("kind", "name") if not about.get(field)
            )
        if not (source.get("metric") or {}).get("name"):
            yield required(f"{path}.metric.name", "must specify a metric name")
        needed = ("averageValue",) if kind == "pods" else ("value", "averageValue")
        if not any(target.get(field) is not None for field in needed):
            yield required(f"{path}.target.averageValue", "must specify a positive target averageValue")
    if kind == "external" and target.get("value") is not None and target.get("averageValue") is not None:
        detail = "may not set both a target value for metric and a per-pod target"
        yield forbidden_field(f"{path}.target.value", detail)
    yield from _target_problems(target, f"{path}.target")


def _usage_problems(target: Json, path: str) -> Iterator[Problem]:
    share, amount = target.get("averageUtilization"), target.get("averageValue")
    if share is None and amount is None:
        detail = "must set either a target raw value or a target utilization"
        yield required(f"{path}.averageUtilization", detail)
    if share is not None and amount is not None:
        yield forbidden_field(f"{path}.averageValue", "may not set both a target raw value and a target utilization")


def _target_problems(target: Json, path: str) -> Iterator[Problem]:
    kind = target.get("type") or ""
    if not kind:
        yield required(f"{path}.type", "must specify a metric target type")
    if kind not in _TARGETS:
        yield invalid_value(f"{path}.type", kind, "must be either Utilization, Value, or AverageValue")
    for field in ("value", "averageValue"):
        if target.get(field) is not None and nano(target[field]) <= 0:
            yield invalid_value(f"{path}.{field}", target[field], "must be positive")
    share = target.get("averageUtilization")
    if share is not None and share < 1:
        yield invalid_value(f"{path}.averageUtilization", share, "must be greater than 0")
