"""What a pod may say of its volumes and of the rights it runs with.

Owns the rules of the sorts that are used here; those of other sorts of volume are looked at by nobody.
"""

import re
from collections.abc import Iterator
from typing import Any, Final

from elastipod.localcluster.api.failures import (
    Problem,
    duplicate,
    forbidden_field,
    invalid_value,
    not_supported,
    required,
)
from elastipod.localcluster.api.naming import why_no_label
from elastipod.localcluster.api.podspec import nano

Json = dict[str, Any]

_HOST_PATHS: Final = (
    *("", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket"),
)
_MOST_ID: Final = 2**31
_SYSCTL: Final = re.compile(r"([a-z0-9]([-_a-z0-9]*[a-z0-9])?[./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?", re.ASCII)
_NAMED: Final = {"secret": "secretName", "persistentVolumeClaim": "claimName", "configMap": "name"}


def volume_problems(spec: Json, path: str) -> Iterator[Problem]:
    """Everything wrong with a pod's volumes."""
    names: set[str] = set()
    for place, volume in enumerate(spec.get("volumes") or ()):
        where, name = f"{path}.volumes[{place}]", volume.get("name")
        if not name:
            yield required(f"{where}.name")
        elif why := why_no_label(name):
            yield invalid_value(f"{where}.name", name, why)
        elif name in names:
            yield duplicate(f"{where}.name", name)
        names.add(name or "")
        stated = [key for key, value in volume.items() if key != "name" and value is not None]
        for more in stated[1:]:
            yield forbidden_field(f"{where}.{more}", "may not specify more than 1 volume type")
        if stated:
            yield from _source_problems(stated[0], volume[stated[0]], f"{where}.{stated[0]}")


def _source_problems(kind: str, source: Any, path: str) -> Iterator[Problem]:
    if kind in _NAMED and not source.get(_NAMED[kind]):
        yield required(f"{path}.{_NAMED[kind]}")
    if kind == "emptyDir" and nano(source.get("sizeLimit") or 0) < 0:
        yield forbidden_field(f"{path}.sizeLimit", "SizeLimit field must be a valid resource quantity")
    if kind == "hostPath":
        if not source.get("path"):
            yield required(f"{path}.path")
        elif ".." in source["path"].split("/"):
            yield invalid_value(f"{path}.path", source["path"], "must not contain '..'")
        if (source.get("type") or "") not in _HOST_PATHS:
            yield not_supported(f"{path}.type", source["type"], _HOST_PATHS)


def rights_problems(spec: Json, path: str) -> Iterator[Problem]:
    """Everything wrong with the rights that a pod runs with."""
    rights, where = spec.get("securityContext") or {}, f"{path}.securityContext"
    if (spec.get("os") or {}).get("name") == "windows":
        for field in ("runAsUser", "runAsGroup", "fsGroup", "sysctls"):
            if rights.get(field) is not None:
                yield forbidden_field(f"{where}.{field}", "cannot be set for a windows pod")
    yield from _id_problems(rights, ("runAsUser", "runAsGroup", "fsGroup"), where)
    seen: set[str] = set()
    for place, one in enumerate(rights.get("sysctls") or ()):
        name = one.get("name") or ""
        if not name:
            yield required(f"{where}.sysctls[{place}].name")
        elif not _SYSCTL.fullmatch(name) or len(name) > 253:
            detail = "must have at most 253 characters and match the grammar of a sysctl"
            yield invalid_value(f"{where}.sysctls[{place}].name", name, detail)
        elif name in seen:
            yield duplicate(f"{where}.sysctls[{place}].name", name)
        seen.add(name)
    if spec.get("hostUsers") is False:
        for field, told in (("hostNetwork", "hostNetwork"), ("hostPID", "HostPID"), ("hostIPC", "HostIPC")):
            if spec.get(field):
                yield forbidden_field(f"{path}.{told}", "when `hostUsers` is false")


def container_rights_problems(rights: Json, path: str) -> Iterator[Problem]:
    """Everything wrong with the rights that a container runs with."""
    if rights.get("privileged") and rights.get("allowPrivilegeEscalation") is False:
        yield invalid_value(path, rights, "cannot set `allowPrivilegeEscalation` to false and `privileged` to true")
    yield from _id_problems(rights, ("runAsUser", "runAsGroup"), path)


def _id_problems(rights: Json, fields: tuple[str, ...], path: str) -> Iterator[Problem]:
    for field in fields:
        number = rights.get(field)
        if number is not None and not 0 <= number < _MOST_ID:
            yield invalid_value(f"{path}.{field}", number, "must be between 0 and 2147483647, inclusive")
