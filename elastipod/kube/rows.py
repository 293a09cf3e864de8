"""Bytes of the API to slim rows; pods are podrows.py's.

Owns how nodes, owners, LimitRanges and quotas are read: a strange amount or time inside one counts as not set.
"""

from typing import Final

from elastipod.api import Autoscaler, ElasticNode, ElasticPolicy, ResourceList
from elastipod.kube import shapes
from elastipod.kube.decoding import Decoder, whole
from elastipod.kube.fields import NO_LABELS, amount, amounts, controlling_owner, instant, interned, own_annotations
from elastipod.limits import LimitRange, LimitRangeItem, Quota
from elastipod.owners import Owned
from elastipod.pods import Node, Taint
from elastipod.quantities import parse_cpu, parse_memory


def _node_row(node: shapes.NodeShape) -> Node:
    ready = next((one for one in node.status.conditions or () if one.type == "Ready"), None)
    is_ready = ready is not None and ready.status == "True"
    allocatable = node.status.allocatable or node.status.capacity or {}
    return Node(
        name=node.metadata.name,
        uid=node.metadata.uid,
        resource_version=node.metadata.resource_version,
        allocatable=amounts(allocatable),
        capacity=amounts(node.status.capacity),
        allocatable_pods=_count(allocatable.get("pods"), 110),
        is_ready=is_ready,
        not_ready_since=None if is_ready or ready is None else instant(ready.last_transition_time),
        is_unschedulable=bool(node.spec.unschedulable),
        labels=node.metadata.labels or NO_LABELS,
        taints=tuple(Taint(taint.key, taint.effect, taint.value or "") for taint in node.spec.taints or ()),
        kubelet_version=node.status.node_info.kubelet_version if node.status.node_info else "",
    )


def _limit_range_row(found: shapes.LimitRangeShape) -> LimitRange:
    return LimitRange(
        found.metadata.namespace,
        found.metadata.name,
        tuple(
            LimitRangeItem(
                item.type,
                amounts(item.min),
                amounts(item.max),
                amounts(item.default),
                amounts(item.default_request),
                _ratio(item.max_limit_request_ratio, "cpu"),
                _ratio(item.max_limit_request_ratio, "memory"),
            )
            for item in found.spec.limits or ()
        ),
    )


def _quota_row(found: shapes.QuotaShape) -> Quota:
    hard = _quota_amounts(found.spec.hard) or _quota_amounts(found.status.hard)
    is_scoped = bool(found.spec.scopes or found.spec.scope_selector)
    return Quota(found.metadata.namespace, found.metadata.name, hard, _quota_amounts(found.status.used), is_scoped)


def _owned_row(found: shapes.OwnedShape, kind: str) -> Owned:
    meta = found.metadata
    return Owned(
        kind=found.kind or kind,
        namespace=meta.namespace,
        name=meta.name,
        uid=meta.uid,
        labels=interned(meta.labels),
        annotations=own_annotations(meta.annotations),
        owner=controlling_owner(meta.owner_references),
        generation=meta.generation or 0,
        replicas=found.spec.replicas if found.spec.replicas is not None else found.spec.parallelism,
    )


def _quota_amounts(listed: ResourceList | None) -> dict[str, int]:
    found: dict[str, int] = {}
    for key, text in (listed or {}).items():
        scope, _, resource = key.rpartition(".")
        if resource in ("cpu", "memory") and scope in ("", "requests", "limits"):
            read = amount(parse_cpu if resource == "cpu" else parse_memory, text)
            if read is not None:
                found[f"{scope or 'requests'}.{resource}"] = read
    return found


def _ratio(listed: ResourceList | None, resource: str) -> float | None:
    millionths = amount(parse_cpu, (listed or {}).get(resource))
    return None if millionths is None else millionths / 1000


def _count(text: str | int | float | None, otherwise: int) -> int:
    found = amount(parse_memory, text)
    return otherwise if found is None else found


decode_node: Final = Decoder(shapes.NodeShape, _node_row)
decode_limit_range: Final = Decoder(shapes.LimitRangeShape, _limit_range_row)
decode_quota: Final = Decoder(shapes.QuotaShape, _quota_row)

decode_autoscaler: Final = whole(Autoscaler)
decode_policy: Final = whole(ElasticPolicy)
decode_elastic_node: Final = whole(ElasticNode)


def metadata_decoder(kind: str) -> Decoder[Owned]:
    """For the controllers of one kind, as owners of pods: items of a list carry no kind."""
    return Decoder(shapes.OwnedShape, lambda found: _owned_row(found, kind))
