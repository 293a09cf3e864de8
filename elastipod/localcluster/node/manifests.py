"""A pod as its node reads it: the slim row, and what to run.

Owns commands, environment and how long to wait. Sizes and conditions are the row's.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from elastipod.kube.decoding import BadObject
from elastipod.kube.podrows import decode_pod
from elastipod.pods import Pod
from elastipod.quantities import format_cpu, format_memory

Json = dict[str, Any]

USAGE_MODEL: Final = "elastipod.io/simulated-usage"
_PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_REFERENCE: Final = re.compile(r"\$(?:\$|\(([A-Za-z_][A-Za-z0-9_.-]*)\))")


@dataclass(frozen=True, slots=True)
class Command:
    """What a container runs."""

    argv: tuple[str, ...]
    image: str = ""
    environment: Mapping[str, str] = field(default_factory=dict)
    working_folder: str = ""
    problem: str = ""
    """Why it can not be run."""


@dataclass(frozen=True, slots=True)
class Manifest:
    """One pod: the row that decisions are made on, its commands, and its status as the API has it."""

    row: Pod
    commands: Mapping[str, Command]
    grace_seconds: float
    """From the deletion where there is one."""
    conditions: tuple[Json, ...]
    status: Json


def decode_manifest(raw: bytes | msgspec.Raw) -> Manifest:
    """A pod. Raises BadObject."""
    row = decode_pod(raw)
    try:
        json: Json = msgspec.json.decode(raw)
        spec, meta, status = json["spec"], json["metadata"], json.get("status") or {}
        grace = meta.get("deletionGracePeriodSeconds", spec.get("terminationGracePeriodSeconds"))
        containers = [*(spec.get("initContainers") or ()), *spec["containers"]]
        commands = {one["name"]: _command(one, row) for one in containers}
        conditions = tuple(one for one in status.get("conditions") or () if isinstance(one, dict))
        return Manifest(row, commands, float(30 if grace is None else grace), conditions, status)
    except (msgspec.DecodeError, KeyError, TypeError, AttributeError, ValueError) as error:
        raise BadObject(f"a pod that can not be run: {type(error).__name__}: {error}") from None


def _command(container: Json, row: Pod) -> Command:
    environment = {"PATH": _PATH, "HOSTNAME": row.name}
    problem = ""
    for variable in container.get("env") or ():
        name, source = str(variable["name"]), variable.get("valueFrom")
        if source is None:
            environment[name] = _expanded(str(variable.get("value") or ""), environment)
            continue
        value = _from_source(source, row, container["name"])
        if value is None:
            problem = f"env {name}: valueFrom {', '.join(sorted(source))} is not served by the local cluster"
        environment[name] = value or ""
    if container.get("envFrom"):
        problem = "envFrom is not served by the local cluster"
    words = [*(container.get("command") or ()), *(container.get("args") or ())]
    argv = tuple(_expanded(str(word), environment) for word in words)
    if not container.get("command"):
        problem = problem or "images are not run here: the container needs a command"
    return Command(
        argv, str(container.get("image") or ""), environment, str(container.get("workingDir") or ""), problem
    )


def _from_source(source: Json, row: Pod, container: str) -> str | None:
    path = (source.get("fieldRef") or {}).get("fieldPath")
    if path is not None:
        known = {
            "metadata.name": row.name,
            "metadata.namespace": row.namespace,
            "metadata.uid": row.uid,
            "spec.nodeName": row.node_name,
        }
        return known.get(path)
    resource = (source.get("resourceFieldRef") or {}).get("resource")
    found = row.container(container)
    if resource is None or found is None:
        return None
    side, _, name = str(resource).partition(".")
    amounts = found.limits if side == "limits" else found.requests
    if name == "cpu":
        return format_cpu(-(-amounts.cpu // 1000) * 1000)
    return format_memory(amounts.memory) if name == "memory" else None


def _expanded(text: str, environment: Mapping[str, str]) -> str:
    """`$(NAME)` for what is known; `$$` is a dollar sign."""

    def value(match: re.Match[str]) -> str:
        return "$" if match.group() == "$$" else environment.get(match.group(1), match.group())

    return _REFERENCE.sub(value, text)
