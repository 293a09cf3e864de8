"""What a resize may change: `pods/resize`, as ValidatePodResize of Kubernetes 1.37 has it.

Owns what is kept of a request and every refusal with its field, type and wording, in the server's order.
"""

from collections.abc import Mapping
from itertools import zip_longest
from typing import Any

from elastipod.localcluster.api.failures import Problem, forbidden_field, invalid_value
from elastipod.localcluster.api.podspec import is_sidecar, nano, qos_class, set_pod_level_amounts, set_resource_defaults
from elastipod.localcluster.api.podvalidation import pod_spec_problems

Json = dict[str, Any]

_LISTS = ("containers", "initContainers")
_ONLY = "only cpu and memory resources are mutable"
_NOWHERE = "[]"


def kept_changes(old: Json, new: Json) -> Json:
    """The old pod with the new one's resources and resize policies; all else is dropped without a word.

    Where containers were added, removed, renamed or moved, the new lists stay for validation to refuse.
    """
    old_spec, new_spec = old["spec"], new.get("spec") or {}
    spec = dict(old_spec)
    if new_spec.get("resources") is not None:
        spec["resources"] = dict(new_spec["resources"])
    for field in _LISTS:
        before, after = old_spec.get(field) or [], new_spec.get(field) or []
        if [one["name"] for one in before] != [one.get("name") for one in after]:
            spec[field] = after
        elif field in old_spec:
            spec[field] = [_resized(one, wanted) for one, wanted in zip(before, after, strict=True)]
    set_resource_defaults(spec)
    set_pod_level_amounts(spec)
    stated = new.get("metadata") or {}
    versions = {key: stated[key] for key in ("uid", "resourceVersion") if stated.get(key)}
    return {**old, "metadata": {**old["metadata"], **versions}, "spec": spec}


def _resized(old: Json, new: Json) -> Json:
    """A container with the new resources and policies. Private, so that defaults can be filled in."""
    wanted = new.get("resources") or {}
    result = {**old, "resources": dict(wanted)}
    if new.get("resizePolicy"):
        result["resizePolicy"] = new["resizePolicy"]
    else:
        result.pop("resizePolicy", None)
    return result


def problems_of_resize(old: Json, new: Json) -> list[Problem]:
    """Everything that forbids the resize; `new` is what kept_changes left."""
    old_spec, new_spec = old["spec"], new["spec"]
    problems = pod_spec_problems(new_spec, "spec")
    if "kubernetes.io/config.mirror" in (old["metadata"].get("annotations") or {}):
        return [forbidden_field(_NOWHERE, "static pods cannot be resized")]
    if (old_spec.get("os") or {}).get("name") == "windows":
        return [forbidden_field(_NOWHERE, "windows pods cannot be resized")]
    status = old.get("status") or {}
    stored_qos = status.get("qosClass") or qos_class(old_spec)
    if stored_qos != qos_class(new_spec):
        detail = "Pod QOS Class may not change as a result of resizing"
        problems.append(invalid_value("spec", status.get("qosClass", ""), detail))
    if not _node_can_resize(status):
        problems.append(forbidden_field("spec", "Pod running on node without support for resize"))
    problems += _pod_level_problems(old_spec.get("resources"), new_spec.get("resources"))
    if status.get("nodeAllocatableResourceClaimStatuses"):
        problems.append(forbidden_field("spec", "pods with node allocatable resource claims cannot be resized"))
    moved = [problem for field in _LISTS for problem in _moved(field, old_spec, new_spec)]
    if moved:
        return problems + moved
    for field in reversed(_LISTS):
        for place, (before, after) in enumerate(zip_longest(old_spec.get(field) or (), new_spec.get(field) or ())):
            problems += _removed(before, after, f"spec.{field}[{place}].resources")
    changed = [
        _is_more_than_cpu_and_memory(before, after)
        for before, after in zip_longest(old_spec.get("containers") or (), new_spec.get("containers") or ())
    ]
    problems += [forbidden_field("spec", _ONLY) for more in changed if more]
    for place, before in enumerate(old_spec.get("initContainers") or ()):
        problems += _init_problems(before, new_spec["initContainers"][place], f"spec.initContainers[{place}]")
    return problems


def _node_can_resize(status: Mapping[str, Any]) -> bool:
    """As isPodResizeRequestSupported: the first running container's status says."""
    for one in status.get("containerStatuses") or ():
        if (one.get("state") or {}).get("running") is not None:
            return one.get("resources") is not None
    return True


def _pod_level_problems(old: Json | None, new: Json | None) -> list[Problem]:
    if not _any_amount(old) and not _any_amount(new):
        return [] if old == new else [forbidden_field("spec", _ONLY)]
    problems = [
        forbidden_field(f"spec.resources.{part}", f"pod-level resource {part} cannot be removed")
        for part in ("requests", "limits")
        if set((old or {}).get(part) or ()) - set((new or {}).get(part) or ())
    ]
    if _other_amounts(old) != _other_amounts(new):
        problems.append(forbidden_field("spec", "only cpu and memory resources are mutable at pod-level"))
    return problems


def _moved(field: str, old_spec: Json, new_spec: Json) -> list[Problem]:
    before, after = old_spec.get(field) or [], new_spec.get(field) or []
    if len(before) != len(after):
        return [forbidden_field(f"spec.{field}", f"{field} may not be added or removed on resize")]
    return [
        forbidden_field(f"spec.{field}[{place}].name", f"{field} may not be renamed or reordered on resize")
        for place, (one, other) in enumerate(zip(before, after, strict=True))
        if one["name"] != other.get("name")
    ]


def _removed(before: Json, after: Json, path: str) -> list[Problem]:
    old, new = before.get("resources") or {}, after.get("resources") or {}
    return [
        forbidden_field(f"{path}.{part}", f"resource {part} cannot be removed")
        for part in ("requests", "limits")
        if set(old.get(part) or ()) - set(new.get(part) or ())
    ]


def _init_problems(before: Json, after: Json, path: str) -> list[Problem]:
    problems = []
    if _is_more_than_cpu_and_memory(before, after):
        detail = "only cpu and memory resources for init or sidecar containers are mutable"
        problems.append(forbidden_field(path, detail))
    restarts = any(one.get("restartPolicy") == "RestartContainer" for one in after.get("resizePolicy") or ())
    if restarts and not is_sidecar(after) and before != after:
        detail = "non-sidecar init containers with a resize policy of RestartContainer cannot be resized"
        problems.append(forbidden_field(path, detail))
    return problems


def _is_more_than_cpu_and_memory(before: Json, after: Json) -> bool:
    return _other_amounts(before.get("resources")) != _other_amounts(after.get("resources")) or _policies(
        before
    ) != _policies(after)


def _policies(container: Json) -> set[tuple[str, str]]:
    """Stated policies; the default is what a missing one means."""
    stated = {
        (one.get("resourceName", ""), one.get("restartPolicy", "")) for one in container.get("resizePolicy") or ()
    }
    return {one for one in stated if one[1] != "NotRequired"}


def _other_amounts(resources: Json | None) -> dict[str, Any]:
    others: dict[str, Any] = {
        f"{part}.{key}": nano(text)
        for part in ("requests", "limits")
        for key, text in ((resources or {}).get(part) or {}).items()
        if key not in ("cpu", "memory")
    }
    if resources and resources.get("claims"):
        others["claims"] = resources["claims"]
    return others


def _any_amount(resources: Json | None) -> bool:
    return bool(resources and (resources.get("requests") or resources.get("limits")))
