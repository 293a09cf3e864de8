"""What may be reported of a pod: its conditions, addresses, QoS class and containers' states.

Owns the rules of ValidatePodStatusUpdate. The types of what is reported are schemas.py's matter.
"""

import ipaddress
from collections.abc import Iterator
from typing import Any

from elastipod.localcluster.api.failures import Problem, forbidden_field, invalid_value
from elastipod.localcluster.api.naming import why_no_qualified_name, why_no_subdomain

Json = dict[str, Any]


def status_problems(old: Json, json: Json) -> Iterator[Problem]:
    """Everything wrong with a reported status."""
    before, status = old.get("status") or {}, json.get("status") or {}
    for place, one in enumerate(status.get("conditions") or ()):
        if why := why_no_qualified_name(one.get("type") or ""):
            yield invalid_value(f"status.conditions[{place}].Type", one.get("type") or "", why)
        yield from _generation_problems(one, f"status.conditions[{place}].observedGeneration")
    yield from _generation_problems(status, "status.observedGeneration")
    node = status.get("nominatedNodeName")
    if node and (why := why_no_subdomain(node)):
        yield invalid_value("status.nominatedNodeName", node, why)
    yield from _address_problems(status)
    stated, qos = status.get("qosClass"), before.get("qosClass")
    if stated and qos and stated != qos:
        yield invalid_value("status.qosClass", stated, "field is immutable")
    yield from _state_problems(old["spec"].get("restartPolicy"), before, status)


def _generation_problems(holder: Json, path: str) -> Iterator[Problem]:
    if (holder.get("observedGeneration") or 0) < 0:
        yield invalid_value(path, holder["observedGeneration"], "must be a non-negative integer")


def _address_problems(status: Json) -> Iterator[Problem]:
    for field in ("podIPs", "hostIPs"):
        addresses = [one.get("ip") or "" for one in status.get(field) or ()]
        for place, address in enumerate(addresses):
            if why := _why_no_address(address):
                yield invalid_value(f"status.{field}[{place}]", address, why)
        if len(addresses) > len({":" in one for one in addresses}):
            yield invalid_value(f"status.{field}", addresses, "may specify no more than one IP for each IP family")
        if field == "hostIPs" and addresses and addresses[0] != status.get("hostIP", ""):
            yield invalid_value("status.hostIPs[0].ip", addresses[0], "must be equal to `hostIP`")


def _why_no_address(text: str) -> str:
    try:
        found = ipaddress.ip_address(text)
    except ValueError:
        return "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"
    if isinstance(found, ipaddress.IPv6Address) and (found.ipv4_mapped is not None or found.scope_id):
        return "must not be an IPv4-mapped IPv6 address, and of no scope"
    return ""


def _state_problems(restart_policy: str | None, before: Json, status: Json) -> Iterator[Problem]:
    """A container that ended for good does not run again."""
    if restart_policy == "Always":
        return
    states = {one.get("name"): one.get("state") or {} for one in before.get("containerStatuses") or ()}
    for place, one in enumerate(status.get("containerStatuses") or ()):
        ended = states.get(one.get("name"), {}).get("terminated")
        if ended is None or (one.get("state") or {}).get("terminated") is not None:
            continue
        if restart_policy == "Never" or not ended.get("exitCode"):
            detail = "may not be transitioned to non-terminated state"
            yield forbidden_field(f"status.containerStatuses[{place}].state", detail)
