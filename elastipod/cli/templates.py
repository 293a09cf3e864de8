"""Which containers stand in workloads' templates.

Owns reading that of a cluster. What is put into pods only when they are made, as by a service mesh, stands in none, and
no patch of a template can size it.
"""

import asyncio
from collections.abc import Callable
from typing import Final

import msgspec
from msgspec import Struct

from elastipod.kube.connection import Connection
from elastipod.kube.errors import KubeError
from elastipod.kube.listing import list_rows
from elastipod.kube.resources import CRON_JOBS, DAEMON_SETS, DEPLOYMENTS, STATEFUL_SETS, ResourceType
from elastipod.pods import Workload

_KINDS: Final = (DEPLOYMENTS, STATEFUL_SETS, DAEMON_SETS, CRON_JOBS)

Templates = dict[Workload, frozenset[str]]
"""The names of the containers of each; a workload that is not in it is not known."""


class _Named(Struct):
    name: str
    namespace: str = ""


class _PodSpec(Struct, rename="camel"):
    containers: list[_Named]
    init_containers: list[_Named] = []


class _Template(Struct):
    spec: _PodSpec


class _Templated(Struct):
    template: _Template


class _Job(Struct):
    spec: _Templated


class _Spec(Struct, rename="camel"):
    template: _Template | None = None
    job_template: _Job | None = None


class _Object(Struct):
    metadata: _Named
    spec: _Spec


async def read_templates(connection: Connection, namespace: str | None) -> tuple[Templates, list[str]]:
    """Those of one namespace, or of all; and a note where a kind can not be read, of which none is known then."""
    lists = await asyncio.gather(*(_read(connection, kind, namespace) for kind in _KINDS))
    unread = {kind.kind: rows for kind, rows in zip(_KINDS, lists, strict=True) if isinstance(rows, KubeError)}
    notes = [
        f"Which containers stand in the template of a {' or '.join(unread)} is not known ({why}): a patch of such a "
        "workload may be refused, or change less than it says."
        for why in list(unread.values())[:1]
    ]
    return {workload: names for rows in lists if not isinstance(rows, KubeError) for workload, names in rows}, notes


async def _read(
    connection: Connection, resource: ResourceType, namespace: str | None
) -> list[tuple[Workload, frozenset[str]]] | KubeError:
    try:
        return await list_rows(connection, resource, _decoder(resource.kind), namespace=namespace)
    except KubeError as error:
        return error


def _decoder(kind: str) -> Callable[[bytes | msgspec.Raw], tuple[Workload, frozenset[str]]]:
    read = msgspec.json.Decoder(_Object).decode

    def decode(content: bytes | msgspec.Raw) -> tuple[Workload, frozenset[str]]:
        found = read(content)
        template = found.spec.job_template.spec.template if found.spec.job_template else found.spec.template
        those = [*template.spec.containers, *template.spec.init_containers] if template else []
        return Workload(found.metadata.namespace, kind, found.metadata.name), frozenset(one.name for one in those)

    return decode
