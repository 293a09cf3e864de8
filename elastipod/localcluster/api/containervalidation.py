"""What a container may say, of a pod or in a template: names, environment, ports, probes, mounts.

Owns the rules of one container; those of amounts are amounts.py's. What containers must not have in common is
podvalidation.py's matter.
"""

import re
from collections.abc import Iterator
from typing import Any, Final

from elastipod.localcluster.api.amounts import claim_problems, resource_problems
from elastipod.localcluster.api.failures import (
    Problem,
    duplicate,
    forbidden_field,
    invalid_value,
    not_supported,
    required,
)
from elastipod.localcluster.api.naming import why_no_label, why_no_port_name
from elastipod.localcluster.api.podspec import is_sidecar
from elastipod.localcluster.api.volumes import container_rights_problems

Json = dict[str, Any]

_HANDLERS: Final = ("exec", "httpGet", "tcpSocket", "grpc")
_PROBES: Final = ("livenessProbe", "readinessProbe", "startupProbe")
_PROBE_NUMBERS: Final = (
    *("initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold"),
)
_SOURCES: Final = ("fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef", "fileKeyRef")
_ENV_NAME: Final = re.compile(r"[ -<>-~]+", re.ASCII)
_ENV_FIELD: Final = re.compile(
    r"metadata\.(name|namespace|uid)|metadata\.(labels|annotations)\['[^']+'\]|spec\.(nodeName|serviceAccountName)"
    r"|status\.(hostIP|hostIPs|podIP|podIPs)"
)
_TOLD: Final = tuple(
    f"{part}.{key}" for part in ("limits", "requests") for key in ("cpu", "ephemeral-storage", "memory")
)
_PORT_RANGE: Final = "must be between 1 and 65535, inclusive"
_NOT_FOR_INIT: Final = "may not be set for init containers without restartPolicy=Always"


def container_problems(container: Json, field: str, spec: Json, path: str) -> Iterator[Problem]:
    """Everything wrong with a container of `containers` or `initContainers`."""
    name, image = container.get("name"), container.get("image")
    if not name:
        yield required(f"{path}.name")
    elif why := why_no_label(name):
        yield invalid_value(f"{path}.name", name, why)
    if not image:
        yield required(f"{path}.image")
    elif image != image.strip():
        yield invalid_value(f"{path}.image", image, "must not have leading or trailing whitespace")
    yield from _choice(container, "imagePullPolicy", ("Always", "IfNotPresent", "Never"), path)
    yield from _choice(container, "terminationMessagePolicy", ("FallbackToLogsOnError", "File"), path)
    yield from _environment_problems(container, path)
    yield from _port_problems(container, path)
    yield from _mount_problems(container, spec, path)
    yield from _probe_problems(container, field, path)
    yield from _sleep_problems(container, spec, path)
    yield from _resize_policy_problems(container, field, spec, path)
    if container.get("restartPolicyRules") and not container.get("restartPolicy"):
        yield required(f"{path}.restartPolicy", "must specify restartPolicy when restart rules are used")
    yield from container_rights_problems(container.get("securityContext") or {}, f"{path}.securityContext")
    yield from resource_problems(container.get("resources") or {}, f"{path}.resources")
    for place, claim in enumerate((container.get("resources") or {}).get("claims") or ()):
        yield from claim_problems(claim, spec, f"{path}.resources.claims[{place}]")


def _choice(json: Json, field: str, choices: tuple[str, ...], path: str) -> Iterator[Problem]:
    if json.get(field) and json[field] not in choices:
        yield not_supported(f"{path}.{field}", json[field], choices)


def _environment_problems(container: Json, path: str) -> Iterator[Problem]:
    for place, one in enumerate(container.get("env") or ()):
        where, name = f"{path}.env[{place}]", one.get("name")
        if not name:
            yield required(f"{where}.name")
        elif not _ENV_NAME.fullmatch(name):
            detail = "a valid environment variable name must consist only of printable ASCII characters other than '='"
            yield invalid_value(f"{where}.name", name, detail)
        source = one.get("valueFrom")
        if source is None:
            continue
        stated = sum(source.get(key) is not None for key in _SOURCES)
        if one.get("value") and stated:
            yield invalid_value(f"{where}.valueFrom", "", "may not be specified when `value` is not empty")
        elif stated != 1:
            few = "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef` or `secretKeyRef`"
            yield invalid_value(
                f"{where}.valueFrom", "", few if not stated else "may not have more than one field specified at a time"
            )
        elif (field := (source.get("fieldRef") or {}).get("fieldPath")) is not None and not _ENV_FIELD.fullmatch(field):
            yield invalid_value(f"{where}.valueFrom.fieldRef.fieldPath", field, "is no field of a pod that can be told")
        elif (told := source.get("resourceFieldRef")) is not None:
            yield from _told_resource_problems(told, f"{where}.valueFrom.resourceFieldRef")


def _told_resource_problems(told: Json, path: str) -> Iterator[Problem]:
    resource = told.get("resource") or ""
    if not resource:
        yield required(f"{path}.resource")
    elif resource not in _TOLD and not re.match(r"(limits|requests)\.hugepages-", resource):
        yield not_supported(f"{path}.resource", resource, _TOLD)


def _port_problems(container: Json, path: str) -> Iterator[Problem]:
    names: set[str] = set()
    for place, port in enumerate(container.get("ports") or ()):
        where, name = f"{path}.ports[{place}]", port.get("name")
        if name and (why := why_no_port_name(name)):
            yield invalid_value(f"{where}.name", name, why)
        elif name in names:
            yield duplicate(f"{where}.name", name)
        elif name:
            names.add(name)
        number, on_host = port.get("containerPort") or 0, port.get("hostPort") or 0
        if not number:
            yield required(f"{where}.containerPort")
        elif not 0 < number < 65536:
            yield invalid_value(f"{where}.containerPort", number, _PORT_RANGE)
        if on_host and not 0 < on_host < 65536:
            yield invalid_value(f"{where}.hostPort", on_host, _PORT_RANGE)
        yield from _choice(port, "protocol", ("SCTP", "TCP", "UDP"), where)


def _mount_problems(container: Json, spec: Json, path: str) -> Iterator[Problem]:
    volumes = {one.get("name") for one in spec.get("volumes") or ()}
    paths: set[str] = set()
    for place, mount in enumerate(container.get("volumeMounts") or ()):
        where, name, to = f"{path}.volumeMounts[{place}]", mount.get("name"), mount.get("mountPath")
        if not name:
            yield required(f"{where}.name")
        elif name not in volumes:
            yield Problem(f"{where}.name", "FieldValueNotFound", "", name)
        if not to:
            yield required(f"{where}.mountPath")
        elif to in paths:
            yield invalid_value(f"{where}.mountPath", to, "must be unique")
        paths.add(to or "")


def _probe_problems(container: Json, field: str, path: str) -> Iterator[Problem]:
    is_plain_init = field == "initContainers" and not is_sidecar(container)
    for name in (*_PROBES, "lifecycle"):
        probe, where = container.get(name), f"{path}.{name}"
        if probe is None:
            continue
        if is_plain_init:
            yield forbidden_field(where, _NOT_FOR_INIT)
        elif name == "lifecycle":
            for hook in ("postStart", "preStop"):
                if probe.get(hook) is not None:
                    yield from _handler_problems(probe[hook], (*_HANDLERS[:3], "sleep"), f"{where}.{hook}")
        else:
            yield from _handler_problems(probe, _HANDLERS, where)
            for number in _PROBE_NUMBERS:
                if (probe.get(number) or 0) < 0:
                    yield invalid_value(f"{where}.{number}", probe[number], "must be greater than or equal to 0")
            grace = probe.get("terminationGracePeriodSeconds")
            if grace is not None and (name == "readinessProbe" or grace <= 0):
                why = "must not be set for readinessProbes" if name == "readinessProbe" else "must be greater than 0"
                yield invalid_value(f"{where}.terminationGracePeriodSeconds", grace, why)
            if name != "readinessProbe" and (probe.get("successThreshold") or 0) > 1:
                yield invalid_value(f"{where}.successThreshold", probe["successThreshold"], "must be 1")


def _sleep_problems(container: Json, spec: Json, path: str) -> Iterator[Problem]:
    grace = spec.get("terminationGracePeriodSeconds") or 0
    for hook in ("postStart", "preStop"):
        sleep = ((container.get("lifecycle") or {}).get(hook) or {}).get("sleep")
        if sleep is not None and not 0 <= (sleep.get("seconds") or 0) <= grace:
            detail = f"must be non-negative and less than terminationGracePeriodSeconds ({grace})"
            yield invalid_value(f"{path}.lifecycle.{hook}.sleep", sleep.get("seconds"), detail)


def _handler_problems(handler: Json, kinds: tuple[str, ...], path: str) -> Iterator[Problem]:
    stated = [one for one in kinds if handler.get(one) is not None]
    if not stated:
        yield required(path, "must specify a handler type")
        return
    for more in stated[1:]:
        yield forbidden_field(f"{path}.{more}", "may not specify more than 1 handler type")
    kind, does = stated[0], handler[stated[0]]
    if kind == "exec" and not does.get("command"):
        yield required(f"{path}.exec.command")
    if kind in ("httpGet", "tcpSocket"):
        port = does.get("port", 0)
        why = why_no_port_name(port) if isinstance(port, str) else "" if 0 < port < 65536 else _PORT_RANGE
        if why:
            yield invalid_value(f"{path}.{kind}.port", port, why)
    if kind == "grpc" and not 0 < (does.get("port") or 0) < 65536:
        yield invalid_value(f"{path}.grpc.port", does.get("port") or 0, _PORT_RANGE)
    if kind == "httpGet":
        yield from _choice(does, "scheme", ("HTTP", "HTTPS"), f"{path}.httpGet")


def _resize_policy_problems(container: Json, field: str, spec: Json, path: str) -> Iterator[Problem]:
    seen: set[str] = set()
    for place, policy in enumerate(container.get("resizePolicy") or ()):
        resource, restart = policy.get("resourceName", ""), policy.get("restartPolicy", "")
        if resource in seen:
            yield duplicate(f"{path}.resizePolicy[{place}]", resource)
        seen.add(resource)
        if not resource or not restart:
            yield required(f"{path}.resizePolicy")
        if resource not in ("", "cpu", "memory"):
            yield not_supported(f"{path}.resizePolicy", resource, ("cpu", "memory"))
        if restart not in ("", "NotRequired", "RestartContainer"):
            yield not_supported(f"{path}.resizePolicy", restart, ("NotRequired", "RestartContainer"))
        elif restart == "RestartContainer" and spec.get("restartPolicy") == "Never" and not is_sidecar(container):
            yield invalid_value(
                f"{path}.resizePolicy", restart, "must be 'NotRequired' when `restartPolicy` is 'Never'"
            )
        elif restart == "RestartContainer" and field == "initContainers" and not is_sidecar(container):
            detail = "must be NotRequired for init containers that are no sidecars"
            yield invalid_value(f"{path}.resizePolicy[{place}].restartPolicy", restart, detail)
