"""What an object may say: its shape, and the rules between its fields.

Owns names, labels, pods at creation and at a plain update, workloads, budgets and limits. VPA's and our own kinds have
their rules in customvalidation.py, resizes in resize.py.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from elastipod.localcluster.api import customvalidation
from elastipod.localcluster.api.failures import (
    Problem,
    bad_request,
    forbidden_field,
    invalid,
    invalid_value,
    not_supported,
    required,
)
from elastipod.localcluster.api.kinds import NAMESPACE, POD, Kind
from elastipod.localcluster.api.podspec import is_sidecar, nano
from elastipod.localcluster.api.quota import COUNTED
from elastipod.localcluster.api.schema import ANY, STRING, Findings, Shape, check
from elastipod.localcluster.api.schemas import BUILT_IN, CUSTOM, METADATA
from elastipod.localcluster.api.selectors import selector_of

Json = dict[str, Any]

_LABEL: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?", re.ASCII)
_SUBDOMAIN: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*", re.ASCII)
_QUALIFIED: Final = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]", re.ASCII)
_MOST_ANNOTATION_BYTES: Final = 256 * 1024
_LABEL_TEXT: Final = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with"
    " an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is"
    " '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)
_SUBDOMAIN_TEXT: Final = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and"
    " end with an alphanumeric character (e.g. 'example.com', regex used for validation is"
    r" '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
_POD_UPDATE: Final = (
    "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,"
    "`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)
_ENVELOPE: Final = {"apiVersion": STRING, "kind": STRING, "metadata": METADATA, "status": ANY}
_SHAPES: Final = {
    kind_id: Shape("object", {**_ENVELOPE, **shape.fields}, required=shape.required)
    for kind_id, shape in {**BUILT_IN, **CUSTOM}.items()
}
_METADATA_ONLY: Final = Shape("object-open", _ENVELOPE)
_IMMUTABLE: Final = {
    "deployments.apps": ("selector",),
    "replicasets.apps": ("selector",),
    "daemonsets.apps": ("selector",),
    "statefulsets.apps": ("selector", "serviceName", "podManagementPolicy", "volumeClaimTemplates"),
    "jobs.batch": ("selector", "completionMode", "template"),
}
_TEMPLATED: Final = frozenset((*_IMMUTABLE,))


def check_shape(kind: Kind, json: Json, *, strict: bool, unless_equal: Mapping[str, Any] | None = None) -> None:
    """Types and names of fields; parts equal to those given are known to be right.

    Raises ApiFailure: 400 for unknown fields (custom kinds always, others under fieldValidation=Strict), 422 for
    wrong types.
    """
    shape = _SHAPES.get(kind.id, _METADATA_ONLY)
    before = unless_equal or {}
    found = Findings()
    changed = {key: value for key, value in json.items() if key not in before or value != before[key]}
    if missing := [key for key in shape.required if key not in json]:
        found.problems += [required(key) for key in missing]
    check(Shape(shape.type, shape.fields), changed, "", found)
    if found.unknown and (kind.is_custom or strict):
        shown = ", ".join(f'unknown field "{path}"' for path in found.unknown[:20])
        raise bad_request(f"strict decoding error: {shown}")
    if found.problems:
        meta = json.get("metadata")
        name = meta.get("name") if isinstance(meta, dict) else ""
        raise invalid(kind.resource.kind, kind.resource.group, str(name or ""), found.problems[:50])


def problems_of_new(kind: Kind, json: Json) -> list[Problem]:
    """Everything wrong with a new object of the right shape."""
    problems = list(_metadata_problems(kind, json["metadata"]))
    if kind is POD:
        problems += _pod_spec_problems(json["spec"], "spec")
    else:
        problems += list(_spec_problems(kind, json))
    return problems


def problems_of_change(kind: Kind, old: Json, json: Json, subresource: str) -> list[Problem]:
    """Everything wrong with a changed object of the right shape."""
    if subresource == "status":
        return []
    problems = list(_metadata_problems(kind, json["metadata"]))
    if kind is POD:
        return problems + _plain_update_problems(old["spec"], json["spec"])
    problems += _spec_problems(kind, json)
    for field in _IMMUTABLE.get(kind.id, ()):
        if old["spec"].get(field) != json["spec"].get(field):
            problems.append(invalid_value(f"spec.{field}", json["spec"].get(field), "field is immutable"))
    return problems


def _metadata_problems(kind: Kind, meta: Json) -> Iterator[Problem]:
    name = meta["name"]
    if kind is NAMESPACE or kind.id == "services":
        if len(name) > 63 or not _LABEL.fullmatch(name):
            yield invalid_value(
                "metadata.name", name, "must be no more than 63 characters" if len(name) > 63 else _LABEL_TEXT
            )
    elif len(name) > 253 or not _SUBDOMAIN.fullmatch(name):
        yield invalid_value(
            "metadata.name", name, "must be no more than 253 characters" if len(name) > 253 else _SUBDOMAIN_TEXT
        )
    for key, value in (meta.get("labels") or {}).items():
        if not _is_qualified(key):
            yield invalid_value(
                "metadata.labels", key, "name part must consist of alphanumeric characters, '-', '_' or '.'"
            )
        if value and (len(value) > 63 or not _QUALIFIED.fullmatch(value)):
            detail = (
                "must be no more than 63 characters" if len(value) > 63 else "a valid label must be an empty string or"
            )
            rest = "" if len(value) > 63 else " consist of alphanumeric characters, '-', '_' or '.'"
            yield invalid_value("metadata.labels", value, detail + rest)
    total = 0
    for key, value in (meta.get("annotations") or {}).items():
        total += len(key) + len(value.encode("utf-8", "surrogatepass"))
        if not _is_qualified(key.lower()):
            detail = "name part must consist of alphanumeric characters, '-', '_' or '.'"
            yield invalid_value("metadata.annotations", key, detail)
    if total > _MOST_ANNOTATION_BYTES:
        detail = f"Too long: may not be more than {_MOST_ANNOTATION_BYTES} bytes"
        yield forbidden_field("metadata.annotations", detail)


def _is_qualified(key: str) -> bool:
    prefix, _, name = key.rpartition("/")
    if not 0 < len(name) <= 63 or not _QUALIFIED.fullmatch(name):
        return False
    return "/" not in key or (0 < len(prefix) <= 253 and _SUBDOMAIN.fullmatch(prefix) is not None)


def _pod_spec_problems(spec: Json, path: str) -> list[Problem]:
    """A pod spec at creation, of a pod or in a template."""
    problems: list[Problem] = []
    if not spec.get("containers"):
        problems.append(required(f"{path}.containers"))
    seen: set[str] = set()
    for field in ("initContainers", "containers"):
        for place, container in enumerate(spec.get(field) or ()):
            problems += _container_problems(container, f"{path}.{field}[{place}]", seen)
            problems += _restart_problems(container, field, spec, f"{path}.{field}[{place}]")
    problems += problems_of_pod_resources(spec, path)
    return problems


def _container_problems(container: Json, path: str, seen: set[str]) -> Iterator[Problem]:
    name = container["name"]
    if len(name) > 63 or not _LABEL.fullmatch(name):
        yield invalid_value(
            f"{path}.name", name, "must be no more than 63 characters" if len(name) > 63 else _LABEL_TEXT
        )
    elif name in seen:
        yield Problem(f"{path}.name", "FieldValueDuplicate", "", name)
    seen.add(name)
    if not container.get("image"):
        yield required(f"{path}.image")


def _restart_problems(container: Json, field: str, spec: Json, path: str) -> Iterator[Problem]:
    never = spec.get("restartPolicy") == "Never"
    for place, policy in enumerate(container.get("resizePolicy") or ()):
        if policy["restartPolicy"] != "RestartContainer":
            continue
        where = f"{path}.resizePolicy"
        if never and not is_sidecar(container):
            yield not_supported(where, "RestartContainer", ["NotRequired"])
        elif field == "initContainers" and not is_sidecar(container):
            detail = "must be NotRequired for init containers that are no sidecars"
            yield invalid_value(f"{where}[{place}].restartPolicy", "RestartContainer", detail)


def problems_of_pod_resources(spec: Json, path: str = "spec") -> list[Problem]:
    """Amounts of all containers: quantities, not negative, requests within limits."""
    problems: list[Problem] = []
    for field in ("initContainers", "containers"):
        for place, container in enumerate(spec.get(field) or ()):
            problems += _resource_problems(container.get("resources") or {}, f"{path}.{field}[{place}].resources")
    if spec.get("resources"):
        problems += _resource_problems(spec["resources"], f"{path}.resources")
    return problems


def _resource_problems(wanted: Json, path: str) -> Iterator[Problem]:
    limits = wanted.get("limits") or {}
    for part in ("limits", "requests"):
        for key, text in (wanted.get(part) or {}).items():
            amount = nano(text)
            if amount < 0:
                yield invalid_value(f"{path}.{part}[{key}]", text, "must be greater than or equal to 0")
            if (
                "/" not in key
                and key not in ("cpu", "memory", "ephemeral-storage")
                and not key.startswith("hugepages-")
            ):
                detail = "must be a standard resource for containers"
                yield invalid_value(f"{path}.{part}[{key}]", key, detail)
    for key, text in (wanted.get("requests") or {}).items():
        if key in limits and nano(text) > nano(limits[key]):
            yield invalid_value(f"{path}.requests", text, f"must be less than or equal to {key} limit of {limits[key]}")


def _plain_update_problems(old: Json, new: Json) -> list[Problem]:
    """A pod's spec through its main resource: images, a deadline, more tolerations; never its resources."""
    problems: list[Problem] = []
    munged = {**new}
    for field in ("containers", "initContainers"):
        before, after = old.get(field) or [], new.get(field) or []
        if len(before) != len(after):
            problems.append(forbidden_field(f"spec.{field}", "pod updates may not add or remove containers"))
            continue
        if field in munged:
            munged[field] = [{**one, "image": past.get("image")} for one, past in zip(after, before, strict=True)]
    if problems:
        return problems
    for field in ("activeDeadlineSeconds", "schedulingGates", "terminationGracePeriodSeconds"):
        _put_back(munged, old, field)
    past = old.get("tolerations") or []
    if (new.get("tolerations") or [])[: len(past)] == past:
        _put_back(munged, old, "tolerations")
    return [] if munged == old else [forbidden_field("spec", _POD_UPDATE)]


def _put_back(munged: Json, old: Json, field: str) -> None:
    munged.pop(field, None)
    if field in old:
        munged[field] = old[field]


def _spec_problems(kind: Kind, json: Json) -> Iterator[Problem]:
    spec = json.get("spec") or {}
    if kind.is_custom:
        yield from customvalidation.problems_of(kind, json)
    elif kind.id in _TEMPLATED:
        yield from _template_problems(kind, spec)
    elif kind.id == "poddisruptionbudgets.policy":
        if spec.get("minAvailable") is not None and spec.get("maxUnavailable") is not None:
            yield invalid_value("spec", "", "minAvailable and maxUnavailable cannot be both set")
    elif kind.id == "limitranges":
        for place, item in enumerate(spec["limits"]):
            yield from _range_problems(item, f"spec.limits[{place}]")
    elif kind.id == "resourcequotas":
        yield from _quota_problems(spec)
    elif kind.id == "priorityclasses.scheduling.k8s.io":
        name, value = json["metadata"]["name"], json["value"]
        if value > 1_000_000_000 and not name.startswith("system-"):
            detail = "maximum allowed value of a user defined priority is 1000000000"
            yield forbidden_field("value", detail)


def _quota_problems(spec: Json) -> Iterator[Problem]:
    for key, text in (spec.get("hard") or {}).items():
        if nano(text) < 0:
            yield invalid_value(f"spec.hard[{key}]", text, "must be greater than or equal to 0")
        if key not in COUNTED:
            counted = ", ".join(COUNTED)
            yield forbidden_field(f"spec.hard[{key}]", f"is not counted by the local cluster: {counted} are")
    if spec.get("scopes") or spec.get("scopeSelector"):
        yield forbidden_field("spec.scopes", "scopes are not served by the local cluster")


def _template_problems(kind: Kind, spec: Json) -> Iterator[Problem]:
    template = spec.get("template")
    if template is None:
        return
    yield from _pod_spec_problems(template.get("spec") or {}, "spec.template.spec")
    policy = (template.get("spec") or {}).get("restartPolicy")
    if kind.id == "jobs.batch":
        if policy not in ("OnFailure", "Never"):
            yield required("spec.template.spec.restartPolicy", 'valid values: "OnFailure", "Never"')
    elif policy != "Always":
        yield not_supported("spec.template.spec.restartPolicy", policy, ["Always"])
    selector = selector_of(spec.get("selector"))
    labels = (template.get("metadata") or {}).get("labels") or {}
    if selector is not None and not selector.requirements and kind.id != "jobs.batch":
        yield invalid_value("spec.selector", spec["selector"], "empty selector is invalid")
    elif selector is not None and not selector.matches(labels):
        yield invalid_value("spec.template.metadata.labels", labels, "`selector` does not match template `labels`")


def _range_problems(item: Json, path: str) -> Iterator[Problem]:
    if item["type"] == "Pod":
        for field in ("default", "defaultRequest"):
            if item.get(field):
                yield forbidden_field(f"{path}.{field}", "may not be specified when `type` is 'Pod'")
    ordered = ("min", "defaultRequest", "default", "max")
    for place, lower in enumerate(ordered):
        for upper in ordered[place + 1 :]:
            for key, text in (item.get(lower) or {}).items():
                most = (item.get(upper) or {}).get(key)
                if most is not None and nano(text) > nano(most):
                    detail = f"{lower} value {text} is greater than {upper} value {most}"
                    yield invalid_value(f"{path}.{lower}[{key}]", text, detail)
