"""What a pod may say, alone or as a template, and what of it may change.

Owns the rules between a pod's containers and of the pod itself. Those of one container are containervalidation.py's,
those of a resize resize.py's.
"""

from collections.abc import Iterator
from typing import Any, Final

from elastipod.localcluster.api.amounts import claim_problems, pod_level_problems
from elastipod.localcluster.api.containervalidation import container_problems
from elastipod.localcluster.api.failures import (
    Problem,
    duplicate,
    forbidden_field,
    invalid_value,
    not_supported,
    required,
)
from elastipod.localcluster.api.naming import (
    label_problems,
    why_no_label,
    why_no_qualified_name,
    why_no_subdomain,
)
from elastipod.localcluster.api.placement import placement_problems
from elastipod.localcluster.api.podspec import pod_amounts
from elastipod.localcluster.api.volumes import rights_problems, volume_problems

Json = dict[str, Any]

_POD_UPDATE: Final = (
    "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,"
    "`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)
_DNS_POLICIES: Final = ("ClusterFirst", "ClusterFirstWithHostNet", "Default", "None")


def pod_spec_problems(spec: Json, path: str) -> list[Problem]:
    """Everything wrong with a pod spec at creation, of a pod or in a template."""
    problems: list[Problem] = [*_own_problems(spec, path)]
    if not spec.get("containers"):
        problems.append(required(f"{path}.containers"))
    names: set[str] = set()
    host_ports: set[tuple[Any, ...]] = set()
    for field in ("containers", "initContainers"):
        for place, container in enumerate(spec.get(field) or ()):
            where = f"{path}.{field}[{place}]"
            problems += container_problems(container, field, spec, where)
            name = container.get("name")
            if name in names:
                problems.append(duplicate(f"{where}.name", name))
            names.add(name or "")
            problems += _host_port_problems(container, host_ports, where)
    names.discard("")
    return problems + problems_of_pod_level(spec, path)


def problems_of_pod_level(spec: Json, path: str) -> list[Problem]:
    """Everything wrong with a pod's own amounts."""
    if not spec.get("resources"):
        return []
    of_containers = {key: value for key, value in spec.items() if key not in ("resources", "overhead")}
    return [*pod_level_problems(spec, path, {"requests": pod_amounts(of_containers, "requests")})]


def _own_problems(spec: Json, path: str) -> Iterator[Problem]:
    if spec.get("dnsPolicy") not in (None, *_DNS_POLICIES):
        yield not_supported(f"{path}.dnsPolicy", spec["dnsPolicy"], _DNS_POLICIES)
    if spec.get("dnsPolicy") == "None" and not spec.get("dnsConfig"):
        yield required(f"{path}.dnsConfig", "must provide `dnsConfig` when `dnsPolicy` is None")
    for field, check in (("hostname", why_no_label), ("subdomain", why_no_label), ("nodeName", why_no_subdomain)):
        if spec.get(field) and (why := check(spec[field])):
            yield invalid_value(f"{path}.{field}", spec[field], why)
    if spec.get("os") and spec["os"].get("name") not in ("linux", "windows"):
        yield not_supported(f"{path}.os", spec["os"].get("name", ""), ("linux", "windows"))
    if spec.get("hostPID") and spec.get("shareProcessNamespace"):
        detail = "ShareProcessNamespace and HostPID cannot both be enabled"
        yield invalid_value(f"{path}.shareProcessNamespace", True, detail)
    yield from label_problems(spec.get("nodeSelector"), f"{path}.nodeSelector")
    yield from _gate_problems(spec, path)
    yield from placement_problems(spec, path)
    yield from volume_problems(spec, path)
    yield from rights_problems(spec, path)
    for place, claim in enumerate((spec.get("resources") or {}).get("claims") or ()):
        yield forbidden_field(f"{path}.resources.claims", "claims may not be set for Resources at pod-level")
        yield from claim_problems(claim, spec, f"{path}.resources.claims[{place}]")


def _gate_problems(spec: Json, path: str) -> Iterator[Problem]:
    for place, gate in enumerate(spec.get("readinessGates") or ()):
        if why := why_no_qualified_name(gate.get("conditionType") or ""):
            yield invalid_value(f"{path}.readinessGates[{place}].conditionType", gate.get("conditionType", ""), why)
    gates: list[str] = []
    for place, gate in enumerate(spec.get("schedulingGates") or ()):
        if gate.get("name") in gates:
            yield duplicate(f"{path}.schedulingGates[{place}]", gate["name"])
        gates.append(gate.get("name", ""))
        if why := why_no_qualified_name(gate.get("name", "")):
            yield invalid_value(f"{path}.schedulingGates[{place}]", gate.get("name", ""), why)
    if spec.get("schedulingGates") and spec.get("nodeName"):
        yield forbidden_field(f"{path}.nodeName", "cannot be set until all schedulingGates have been cleared")


def _host_port_problems(container: Json, taken: set[tuple[Any, ...]], path: str) -> Iterator[Problem]:
    for place, port in enumerate(container.get("ports") or ()):
        if port.get("hostPort"):
            found = (port.get("protocol") or "TCP", port.get("hostIP") or "", port["hostPort"])
            if found in taken:
                yield duplicate(f"{path}.ports[{place}].hostPort", port["hostPort"])
            taken.add(found)


def plain_update_problems(old: Json, new: Json) -> list[Problem]:
    """A pod's spec through its main resource: images, a deadline, more tolerations; never its resources."""
    problems = pod_spec_problems(new, "spec") if new != old else []
    munged = {**new}
    for field in ("containers", "initContainers"):
        before, after = old.get(field) or [], new.get(field) or []
        if len(before) != len(after):
            problems.append(forbidden_field(f"spec.{field}", "pod updates may not add or remove containers"))
            continue
        if field in munged:
            munged[field] = [{**one, "image": past.get("image")} for one, past in zip(after, before, strict=True)]
    problems += _deadline_problems(old.get("activeDeadlineSeconds"), new.get("activeDeadlineSeconds"))
    problems += _toleration_changes(old, new)
    problems += _gate_changes(old, new)
    if problems:
        return problems
    for field in ("activeDeadlineSeconds", "schedulingGates", "tolerations"):
        _put_back(munged, old, field)
    if old.get("schedulingGates"):
        _put_back(munged, old, "nodeSelector")
    return [] if munged == old else [forbidden_field("spec", _POD_UPDATE)]


def _deadline_problems(before: int | None, now: int | None) -> Iterator[Problem]:
    path = "spec.activeDeadlineSeconds"
    if before is not None and now is None:
        yield invalid_value(path, None, "must not update from a positive integer to nil value")
    elif before is not None and now is not None and before < now:
        yield invalid_value(path, now, "must be less than or equal to previous value")


def _toleration_changes(old: Json, new: Json) -> Iterator[Problem]:
    """More may be tolerated, and for another time."""
    before, now = (
        [
            {key: value for key, value in one.items() if key != "tolerationSeconds"}
            for one in spec.get("tolerations") or ()
        ]
        for spec in (old, new)
    )
    if any(one not in now for one in before):
        detail = "existing toleration can not be modified except its tolerationSeconds"
        yield forbidden_field("spec.tolerations", detail)


def _gate_changes(old: Json, new: Json) -> Iterator[Problem]:
    """Gates only open; and while one is shut, more may be asked of a node."""
    before = [one.get("name") for one in old.get("schedulingGates") or ()]
    for place, one in enumerate(new.get("schedulingGates") or ()):
        if one.get("name") not in before:
            detail = f"only deletion is allowed, but found new scheduling gate '{one.get('name')}'"
            yield forbidden_field(f"spec.schedulingGates[{place}].name", detail)
    selector, wanted = old.get("nodeSelector") or {}, new.get("nodeSelector") or {}
    if before and any(wanted.get(key) != value for key, value in selector.items()):
        detail = "only additions to spec.nodeSelector are allowed (no mutations or deletions)"
        yield invalid_value("spec.nodeSelector", wanted, detail)


def _put_back(munged: Json, old: Json, field: str) -> None:
    munged.pop(field, None)
    if field in old:
        munged[field] = old[field]
