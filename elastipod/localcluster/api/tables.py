"""The Table form of answers, which `kubectl get` prints.

Owns the form. Which columns a kind has is columns.py's matter.
"""

from collections.abc import Sequence
from typing import Any

from elastipod.localcluster.api.cells import Column, Since
from elastipod.localcluster.api.columns import AGE, COLUMNS, name_of
from elastipod.localcluster.api.kinds import Kind
from elastipod.localcluster.api.store import Entry

Json = dict[str, Any]


def is_wanted(accept: str) -> bool:
    """Whether the caller's first choice is a table."""
    return "as=Table" in accept.split(",", 1)[0]


def table(kind: Kind, entries: Sequence[Entry], now: float, include: str) -> Json:
    """A Table object; ages are as of `now`."""
    columns: tuple[Column, ...] = COLUMNS.get(kind.id, (AGE,))
    if kind.id != "events":
        columns = (Column("Name", name_of), *columns)
    return {
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": {"resourceVersion": str(entries[-1].version) if entries else ""},
        "columnDefinitions": [
            {
                "name": one.name,
                "type": one.type,
                "format": "name" if one.name == "Name" else "",
                "description": one.name,
                "priority": int(one.wide),
            }
            for one in columns
        ],
        "rows": [
            {"cells": [_cell(one, entry.json, now) for one in columns], "object": _included(entry, include)}
            for entry in entries
        ],
    }


def _cell(column: Column, json: Json, now: float) -> Any:
    found = column.cell(json)
    if isinstance(found, Since):
        return found.shown(now)
    return found


def _included(entry: Entry, include: str) -> Json:
    if include == "Object":
        return entry.json
    if include == "None":
        return {}
    return {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": entry.json["metadata"]}
