"""What names, labels, their selectors and annotations may be, in the words of apimachinery's validation.

Owns the grammar of names; which field holds which sort of name is each validation's matter.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from elastipod.localcluster.api.failures import Problem, forbidden_field, invalid_value, required, too_long
from elastipod.localcluster.api.kinds import NAMESPACE, Kind

Json = dict[str, Any]

_LABEL: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?", re.ASCII)
_SUBDOMAIN: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*", re.ASCII)
_QUALIFIED: Final = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]", re.ASCII)
_PORT: Final = re.compile(r"(?=.*[a-z])[a-z0-9]+(-[a-z0-9]+)*", re.ASCII)
_MOST_ANNOTATION_BYTES: Final = 256 * 1024
_STANDARD_FINALIZERS: Final = ("kubernetes", "orphan", "foregroundDeletion")
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
_QUALIFIED_TEXT: Final = "name part must consist of alphanumeric characters, '-', '_' or '.'"


def why_no_label(name: str) -> str:
    """What is wrong with a DNS label; nothing where it is one."""
    if len(name) > 63:
        return "must be no more than 63 characters"
    return "" if _LABEL.fullmatch(name) else _LABEL_TEXT


def why_no_subdomain(name: str) -> str:
    """What is wrong with a DNS subdomain; nothing where it is one."""
    if len(name) > 253:
        return "must be no more than 253 characters"
    return "" if _SUBDOMAIN.fullmatch(name) else _SUBDOMAIN_TEXT


def why_no_qualified_name(key: str) -> str:
    """What is wrong with the key of a label; nothing where it is one."""
    prefix, slash, name = key.rpartition("/")
    if not 0 < len(name) <= 63 or not _QUALIFIED.fullmatch(name) or "/" in prefix:
        return _QUALIFIED_TEXT
    return f"prefix part {why_no_subdomain(prefix)}" if slash and why_no_subdomain(prefix) else ""


def why_no_label_value(value: str) -> str:
    """What is wrong with the value of a label; nothing where it is one."""
    if len(value) > 63:
        return "must be no more than 63 characters"
    if not value or _QUALIFIED.fullmatch(value):
        return ""
    return "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.'"


def why_no_port_name(name: str) -> str:
    """What is wrong with the name of a port; nothing where it is one."""
    if len(name) > 15:
        return "must be no more than 15 characters"
    return "" if _PORT.fullmatch(name) else "must be lower case letters, digits and single '-', with a letter at least"


def label_problems(labels: Mapping[str, Any] | None, path: str) -> Iterator[Problem]:
    """Everything wrong with a map of labels."""
    for key, value in (labels or {}).items():
        if why := why_no_qualified_name(key):
            yield invalid_value(path, key, why)
        if why := why_no_label_value(value):
            yield invalid_value(path, value, why)


def selector_problems(selector: Mapping[str, Any] | None, path: str) -> Iterator[Problem]:
    """Everything wrong with a LabelSelector."""
    found = selector or {}
    yield from label_problems(found.get("matchLabels"), f"{path}.matchLabels")
    for place, one in enumerate(found.get("matchExpressions") or ()):
        where, operator, values = f"{path}.matchExpressions[{place}]", one.get("operator"), one.get("values")
        if operator in ("In", "NotIn") and not values:
            yield required(f"{where}.values", "must be specified when `operator` is 'In' or 'NotIn'")
        elif operator in ("Exists", "DoesNotExist") and values:
            detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
            yield forbidden_field(f"{where}.values", detail)
        elif operator not in ("In", "NotIn", "Exists", "DoesNotExist"):
            yield invalid_value(f"{where}.operator", operator or "", "not a valid selector operator")
        if why := why_no_qualified_name(one.get("key") or ""):
            yield invalid_value(f"{where}.key", one.get("key") or "", why)
        for which, value in enumerate(values or ()):
            if why := why_no_label_value(value):
                yield invalid_value(f"{where}.values[{which}]", value, why)


def metadata_problems(kind: Kind, meta: Json) -> Iterator[Problem]:
    """Everything wrong with an object's metadata."""
    check = why_no_label if kind is NAMESPACE or kind.id == "services" else why_no_subdomain
    prefix = meta.get("generateName", "")
    if prefix and (why := check(prefix.rstrip("-.") or prefix)):
        yield invalid_value("metadata.generateName", prefix, why)
    name = meta.get("name", "")
    if not name:
        yield required("metadata.name", "name or generateName is required")
    elif why := check(name):
        yield invalid_value("metadata.name", name, why)
    yield from label_problems(meta.get("labels"), "metadata.labels")
    yield from _annotation_problems(meta.get("annotations") or {})
    yield from _owner_problems(meta.get("ownerReferences") or ())
    for finalizer in meta.get("finalizers") or ():
        if why := why_no_qualified_name(finalizer):
            yield invalid_value("metadata.finalizers", finalizer, why)
        elif "/" not in finalizer and finalizer not in _STANDARD_FINALIZERS:
            yield invalid_value(
                "metadata.finalizers[0]",
                finalizer,
                "name is neither a standard finalizer name nor is it fully qualified",
            )


def _annotation_problems(annotations: Mapping[str, Any]) -> Iterator[Problem]:
    total = 0
    for key, value in annotations.items():
        total += len(key) + len(value.encode("utf-8", "surrogatepass"))
        if why := why_no_qualified_name(key.lower()):
            yield invalid_value("metadata.annotations", key, why)
    if total > _MOST_ANNOTATION_BYTES:
        yield too_long("metadata.annotations", _MOST_ANNOTATION_BYTES)


def _owner_problems(owners: Any) -> Iterator[Problem]:
    for place, owner in enumerate(owners):
        for field in ("apiVersion", "kind", "name", "uid"):
            if not owner.get(field):
                where = f"metadata.ownerReferences[{place}].{field}"
                is_uid = field == "uid"
                yield (
                    required(where, "must not be empty")
                    if is_uid
                    else invalid_value(where, "", f"{field} must not be empty")
                )
    controllers = [one.get("name", "") for one in owners if one.get("controller")]
    if len(controllers) > 1:
        detail = f"Only one reference can have Controller set to true. It is in those for {' and '.join(controllers)}"
        yield invalid_value("metadata.ownerReferences", controllers, detail)
