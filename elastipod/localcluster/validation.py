"""stub."""

from typing import Any
from elastipod.localcluster.failures import Problem
from elastipod.localcluster.kinds import Kind

Json = dict[str, Any]


def check_shape(kind: Kind, json: Json, *, strict: bool) -> None: ...


def problems_of_new(kind: Kind, json: Json) -> list[Problem]:
    return []


def problems_of_change(kind: Kind, old: Json, json: Json, subresource: str) -> list[Problem]:
    return []


def problems_of_pod_resources(spec: Json) -> list[Problem]:
    return []
