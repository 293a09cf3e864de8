"""HorizontalPodAutoscalers as the recommender reads them: which resource's utilization they scale on.

Owns their reading, and what is left alone for them. Utilization is usage over request: whoever moves the request moves
what the other aims at, and the two chase each other. A target in absolute amounts does not care.
"""

from collections.abc import Iterable
from typing import Final

from msgspec import Struct

from elastipod.api import TargetRef
from elastipod.eligible import named_by
from elastipod.kube.decoding import Decoder
from elastipod.pods import Workload
from recommender.capping import Hold
from recommender.ranges import Resource


class Scaler(Struct, frozen=True):
    """A HorizontalPodAutoscaler, as far as it scales on utilization."""

    name: str
    target: Workload
    on: tuple[tuple[str, str | None], ...] = ()
    """Resource, and the container where it is of one only."""


class _Json(Struct, rename="camel", frozen=True):
    """A JSON object of the API."""


class _Target(_Json, frozen=True):
    type: str = ""
    average_utilization: int | None = None


class _Metric(_Json, frozen=True):
    name: str = ""
    container: str | None = None
    target: _Target = _Target()


class _MetricSpec(_Json, frozen=True):
    type: str = ""
    resource: _Metric | None = None
    container_resource: _Metric | None = None


class _Spec(_Json, frozen=True):
    scale_target_ref: TargetRef = TargetRef()
    metrics: list[_MetricSpec] | None = None


class _Meta(_Json, frozen=True):
    name: str
    namespace: str = ""
    resource_version: str = ""


class _Scaler(_Json, frozen=True):
    metadata: _Meta
    spec: _Spec = _Spec()


def holds(scalers: Iterable[Scaler]) -> tuple[Hold, ...]:
    """What is left alone for the autoscalers of one workload."""
    known = {one.value: one for one in Resource}
    return tuple(
        Hold(known[resource], f"HorizontalPodAutoscaler {scaler.name}", container)
        for scaler in sorted(scalers, key=lambda one: one.name)
        for resource, container in scaler.on
        if resource in known
    )


def _scaler(found: _Scaler) -> Scaler:
    on: list[tuple[str, str | None]] = []
    for one in found.spec.metrics or ():
        metric = one.resource if one.type == "Resource" else one.container_resource
        if metric is not None and metric.target.type == "Utilization":
            on.append((metric.name, metric.container if one.type == "ContainerResource" else None))
    return Scaler(found.metadata.name, named_by(found.spec.scale_target_ref, found.metadata.namespace), tuple(on))


decode_scaler: Final = Decoder(_Scaler, _scaler)
"""A HorizontalPodAutoscaler of autoscaling/v2."""
