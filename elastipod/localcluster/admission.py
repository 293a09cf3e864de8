"""stub."""

from typing import Any
from elastipod.localcluster.kinds import Kind
from elastipod.localcluster.store import Entry, Store

Json = dict[str, Any]


class Admission:
    def __init__(self, store: Store, *, checks_node_capacity: bool = True) -> None:
        self._store = store

    def mutate_new(self, kind: Kind, json: Json) -> None: ...

    def check_new(self, kind: Kind, json: Json) -> None: ...

    def mutate_resize(self, old: Json, json: Json) -> None: ...

    def check_change(self, old: Entry, json: Json, subresource: str) -> None: ...

    def count(self, entry: Entry) -> None: ...
