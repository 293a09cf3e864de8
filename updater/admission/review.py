"""AdmissionReview: the question about a new pod, and its answer.

Owns their form (admission.k8s.io/v1), the JSON Patch (RFC 6902) and the annotations that tell what was set.
"""

import base64
from collections.abc import Iterator
from typing import Any, Final

import msgspec
from msgspec import Struct

from elastipod.api import BOOST_ANNOTATION
from elastipod.kube.decoding import BadObject, decoded
from elastipod.kube.podrows import bound_node, pod_row
from elastipod.kube.shapes import ContainerSpecShape, Json, MetaShape, PodShape
from elastipod.pods import OWN_PREFIX, Container, ContainerKind, Pod
from elastipod.quantities import Resources, format_cpu, format_memory
from elastipod.reasons import Reason
from updater.admission.sizing import Sizing
from updater.boosted import boost_text
from updater.sizes import size_of

SIZED_ANNOTATION: Final = f"{OWN_PREFIX}sized"
"""On a pod: what it was given when it was created, what was there before, and what cut it down."""

_GROUP: Final = "admission.k8s.io/"
_MOST_WARNING: Final = 240
_MOST_PARTS: Final = 1_000
"""More of one kind than any real pod has, and few enough to be looked at in a moment."""


class _Kind(Json, frozen=True):
    group: str = ""
    version: str = ""
    resource: str = ""


class _Question(Json, frozen=True):
    uid: str
    resource: _Kind = _Kind()
    sub_resource: str = ""
    namespace: str = ""
    operation: str = ""
    object: msgspec.Raw = msgspec.Raw()


class _Review(Json, frozen=True):
    api_version: str
    kind: str
    request: _Question


class NewMeta(MetaShape, frozen=True):
    """A new object may have no name yet."""

    name: str = ""


class _NewPod(PodShape, frozen=True):
    metadata: NewMeta = NewMeta()


_reviews: Final = msgspec.json.Decoder(_Review)
_pods: Final = msgspec.json.Decoder(_NewPod)


class BadReview(ValueError):
    """What was sent is no AdmissionReview; the message says why."""


class Review(Struct, frozen=True, gc=False):
    """The question: a uid to answer by, and the object where it is about a new one of the core group."""

    uid: str
    api_version: str
    new: str = ""
    """Of which kind, in the plural."""
    namespace: str = ""
    raw: msgspec.Raw = msgspec.Raw()


class NewPod(Struct, frozen=True, gc=False):
    """A pod that is being created, with what its patch has to know of its JSON."""

    pod: Pod
    shape: PodShape


def read_review(body: bytes) -> Review:
    """The question. Raises BadReview."""
    try:
        found = _reviews.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BadReview(f"the body is no AdmissionReview: {error}") from None
    if found.kind != "AdmissionReview" or not found.api_version.startswith(_GROUP):
        raise BadReview(f"{found.api_version[:63]} {found.kind[:63]} is no AdmissionReview of {_GROUP}v1")
    asked, what = found.request, found.request.resource
    is_new = found.api_version == f"{_GROUP}v1" and asked.operation == "CREATE" and not asked.sub_resource
    new = what.resource if is_new and (what.group, what.version) == ("", "v1") else ""
    return Review(asked.uid, found.api_version, new, asked.namespace, asked.object)


def read_pod(review: Review) -> NewPod:
    """The pod that is asked about, in the namespace that the API server says. Raises BadObject."""
    shape = decoded(_pods.decode, review.raw)
    meta, spec = shape.metadata, shape.spec
    for what, many in (
        ("containers", spec.containers),
        ("init containers", spec.init_containers),
        ("labels", meta.labels),
        ("annotations", meta.annotations),
        ("owners", meta.owner_references),
    ):
        if many is not None and len(many) > _MOST_PARTS:
            raise BadObject(f"the pod has {len(many)} {what}; one with more than {_MOST_PARTS} is not looked at")
    row = msgspec.structs.replace(pod_row(shape), namespace=review.namespace, node_name=bound_node(spec))
    return NewPod(row, shape)


def answer(
    review: Review, outcome: Reason | None = None, patch: list[dict[str, Any]] | None = None, warning: str = ""
) -> bytes:
    """The answer, which always allows. The outcome stands in the API server's audit log."""
    said: dict[str, Any] = {"uid": review.uid, "allowed": True}
    if outcome is not None:
        said["auditAnnotations"] = {"outcome": outcome}
    if patch:
        said["patchType"] = "JSONPatch"
        said["patch"] = base64.b64encode(msgspec.json.encode(patch)).decode()
    if warning:
        said["warnings"] = [_shown(f"elastipod left the pod's resources as they are: {warning}")]
    return msgspec.json.encode({"apiVersion": review.api_version, "kind": "AdmissionReview", "response": said})


def patch_of(new: NewPod, sizing: Sizing, autoscaler: str, by_autoscaler: list[str]) -> list[dict[str, Any]]:
    """The JSON Patch that gives containers their sizes; each amount on its own, so that nothing else is touched.

    `by_autoscaler` are the containers whose size comes from the autoscaler; the others' is stated.
    """
    patch: list[dict[str, Any]] = []
    told: list[str] = []
    upstream: list[str] = []
    for place, number, shape, container in _containers(new):
        size = sizing.sizes.get(container.name)
        if size is None:
            continue
        old = size_of(container)
        changes = [*_changes("requests", old.requests, size.requests), *_changes("limits", old.limits, size.limits)]
        patch += _operations(f"/spec/{place}/{number}/resources", shape, changes)
        source = "" if container.name in by_autoscaler else ", as stated"
        told.append(f"{container.name}: {', '.join(f'{one.shown} {one.was} -> {one.text}' for one in changes)}{source}")
        if container.name in by_autoscaler:
            kind = "container" if place == "containers" else "init container"
            upstream.append(f"{kind} {number}: {', '.join(one.shown for one in changes)}")
    told += [note.value for note in sizing.notes]
    annotations = {SIZED_ANNOTATION: "; ".join(told)}
    if sizing.boosts:
        annotations[BOOST_ANNOTATION] = boost_text(sizing.boosts)
    if upstream:
        annotations["vpaUpdates"] = f"Pod resources updated by {autoscaler}: {'; '.join(upstream)}"
        annotations["vpaObservedContainers"] = ", ".join(one.name for one in new.shape.spec.containers)
    return patch + annotate(new.shape.metadata, annotations)


def annotate(meta: MetaShape, annotations: dict[str, str]) -> list[dict[str, Any]]:
    """The JSON Patch that adds these to an object's annotations."""
    first = [_add("/metadata/annotations", {})] if meta.annotations is None else []
    return first + [_add(f"/metadata/annotations/{key.replace('/', '~1')}", text) for key, text in annotations.items()]


class _Change(Struct, frozen=True, gc=False):
    part: str
    resource: str
    was: str
    text: str
    is_taken: bool = False

    @property
    def shown(self) -> str:
        return f"{self.resource} {self.part[:-1]}"


def _changes(part: str, old: Resources, new: Resources) -> Iterator[_Change]:
    for resource, before, after, show in (
        ("cpu", old.cpu_millicores, new.cpu_millicores, format_cpu),
        ("memory", old.memory_bytes, new.memory_bytes, format_memory),
    ):
        if after != before:
            shown = ["none" if amount is None else show(amount) for amount in (before, after)]
            yield _Change(part, resource, shown[0], shown[1], is_taken=after is None)


def _operations(path: str, shape: ContainerSpecShape, changes: list[_Change]) -> Iterator[dict[str, Any]]:
    if shape.resources is None:
        yield _add(path, {})
    for part in dict.fromkeys(one.part for one in changes):
        if shape.resources is None or getattr(shape.resources, part) is None:
            yield _add(f"{path}/{part}", {})
    for one in changes:
        place = f"{path}/{one.part}/{one.resource}"
        yield {"op": "remove", "path": place} if one.is_taken else _add(place, one.text)


def _containers(new: NewPod) -> Iterator[tuple[str, int, ContainerSpecShape, Container]]:
    """The containers by place and number; the row has them in the same order, init containers first."""
    spec = new.shape.spec
    first = len(spec.init_containers or ())
    for number, (shape, container) in enumerate(
        zip([*(spec.init_containers or ()), *spec.containers], new.pod.containers, strict=True)
    ):
        if container.kind is ContainerKind.APP:
            yield "containers", number - first, shape, container
        else:
            yield "initContainers", number, shape, container


def _add(path: str, value: Any) -> dict[str, Any]:
    return {"op": "add", "path": path, "value": value}


def _shown(text: str) -> str:
    """As the API server passes it on to people: short, and nothing that moves a cursor."""
    return "".join(one if one.isprintable() else "?" for one in text)[:_MOST_WARNING]
