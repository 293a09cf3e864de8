"""The objects, their versions, and what changed.

Owns the one resource version that rises over all kinds, the ring of changes that watches replay, and the file that lets
a killed cluster come back with all its objects. Knows nothing of what objects mean. Stored objects are never changed.
"""

import contextlib
import sqlite3
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import msgspec

from elastipod.localcluster.api.kinds import Kind, kind_named

Json = dict[str, Any]
Key = tuple[str, str, str]
"""Kind id, namespace (empty for cluster-scoped kinds), name."""

MOST_BYTES: Final = 1_572_864
"""What etcd takes of one object."""
_FIRST_VERSION: Final = 1
_encode = msgspec.json.Encoder().encode


class TooLarge(ValueError):
    """An object beyond MOST_BYTES."""


class StoreFileError(ValueError):
    """A file that holds no cluster; the message says what to do."""


class Entry(msgspec.Struct, frozen=True, gc=False):
    """An object as stored: its JSON, the same encoded, and its version."""

    kind: Kind
    namespace: str
    name: str
    json: Json
    raw: bytes
    version: int

    @property
    def key(self) -> Key:
        return (self.kind.id, self.namespace, self.name)


@dataclass(frozen=True, slots=True)
class Change:
    """One write: ADDED, MODIFIED or DELETED, what stands (or stood) after it, and what stood before."""

    type: str
    entry: Entry
    old: Entry | None


class Store:
    """All objects of one cluster."""

    def __init__(self, path: Path | None = None, *, remembered_changes: int = 20_000) -> None:
        self._entries: dict[str, dict[tuple[str, str], Entry]] = {}
        self._owned: dict[str, dict[Key, None]] = {}
        self._ring: deque[Change] = deque(maxlen=remembered_changes)
        self._listeners: dict[tuple[str, str | None], dict[int, Callable[[Change], None]]] = {}
        self._next_listener = 0
        self.version = _FIRST_VERSION
        self._file = _ObjectFile(path) if path is not None else None
        if self._file is not None:
            self.version = self._read(self._file)
        self._forgotten_version = self.version
        """Changes up to here can not be replayed."""

    def _read(self, file: "_ObjectFile") -> int:
        """Take in what is on disk; the answer is the last version. Raises StoreFileError."""
        try:
            for kind_id, raw in file.objects():
                self._keep(_entry(kind_named(kind_id), msgspec.json.decode(raw), raw))
            return file.version()
        except (sqlite3.Error, msgspec.DecodeError, KeyError, TypeError, ValueError) as error:
            file.close()
            message = f"{file.path} holds no cluster that can be read ({error}): remove it to begin anew"
            raise StoreFileError(message) from None

    def close(self) -> None:
        """Let go of the file."""
        if self._file is not None:
            self._file.close()

    def get(self, kind: Kind, namespace: str, name: str) -> Entry | None:
        found = self._entries.get(kind.id)
        return found.get((namespace, name)) if found else None

    def kinds(self) -> list[Kind]:
        """The kinds of which there are objects, or were."""
        return [kind_named(one) for one in self._entries]

    def of_kind(self, kind: Kind, namespace: str | None = None) -> list[Entry]:
        """All objects of a kind, of one namespace where given, in no order."""
        found = self._entries.get(kind.id, {}).values()
        return list(found) if namespace is None else [one for one in found if one.namespace == namespace]

    def oldest(self, kind: Kind) -> Iterator[Entry]:
        """The objects of a kind in the order they came; some may be removed meanwhile."""
        while entry := next(iter(self._entries.get(kind.id, {}).values()), None):
            yield entry

    def in_namespace(self, namespace: str) -> list[Entry]:
        """Everything a namespace holds."""
        return [one for found in list(self._entries.values()) for one in found.values() if one.namespace == namespace]

    def owned_by(self, uid: str) -> list[Entry]:
        """What names this uid as an owner, in the order it came."""
        return [self._entries[kind_id][(namespace, name)] for kind_id, namespace, name in self._owned.get(uid, ())]

    def put(self, kind: Kind, json: Json) -> Entry:
        """Store an object, new or in place of an older one; the store's from now on. Raises TooLarge."""
        version = self._next_version(kind)
        json = _versioned(json, version)
        entry = _entry(kind, json, _encode(json))
        if len(entry.raw) > MOST_BYTES:
            raise TooLarge(f"{len(entry.raw)} bytes")
        old = self.get(kind, entry.namespace, entry.name)
        if self._file is not None and not kind.is_volatile:
            self._file.write(entry, version)
        self.version = version
        if old is not None:
            self._drop_owners(old)
        self._keep(entry)
        self._tell(Change("MODIFIED" if old else "ADDED", entry, old))
        return entry

    def remove(self, entry: Entry) -> Entry:
        """Take an object out; the answer carries the version of the removal."""
        version = self._next_version(entry.kind)
        json = _versioned(entry.json, version)
        last = _entry(entry.kind, json, _encode(json))
        if self._file is not None and not entry.kind.is_volatile:
            self._file.erase(entry, version)
        self.version = version
        self._drop_owners(entry)
        del self._entries[entry.kind.id][(entry.namespace, entry.name)]
        self._tell(Change("DELETED", last, entry))
        return last

    def _next_version(self, kind: Kind) -> int:
        """What is not kept does not count either, so that a version means the same after a restart."""
        return self.version if kind.is_volatile else self.version + 1

    def can_replay(self, version: int) -> bool:
        """Whether all changes after this version are remembered; a version that is still to come is another store's."""
        return self._forgotten_version <= version <= self.version

    def changes_after(self, version: int, kind: Kind) -> Iterator[Change]:
        """What happened to a kind after a version, oldest first."""
        found = []
        for change in reversed(self._ring):
            if change.entry.version <= version:
                break
            if change.entry.kind is kind:
                found.append(change)
        return reversed(found)

    def of_kind_at(self, kind: Kind, version: int) -> list[Entry]:
        """The objects of a kind as of a version that can be replayed, in no order."""
        found = dict(self._entries.get(kind.id, {}))
        for change in reversed(list(self.changes_after(version, kind))):
            key = (change.entry.namespace, change.entry.name)
            if change.old is None:
                found.pop(key, None)
            else:
                found[key] = change.old
        return list(found.values())

    def subscribe(self, kind: Kind, listener: Callable[[Change], None], only: str | None = None) -> Callable[[], None]:
        """Call the listener within each write of the kind; the answer ends that.

        `only` narrows to objects that have, or had, this value in the kind's `watched_by` field.
        """
        number = self._next_listener
        self._next_listener += 1
        group = self._listeners.setdefault((kind.id, only), {})
        group[number] = listener

        def end() -> None:
            group.pop(number, None)

        return end

    @property
    def listener_count(self) -> int:
        """How many are told of changes."""
        return sum(map(len, self._listeners.values()))

    def _tell(self, change: Change) -> None:
        if change.entry.kind.is_volatile:
            return
        if len(self._ring) == self._ring.maxlen:
            self._forgotten_version = self._ring[0].entry.version
        self._ring.append(change)
        kind = change.entry.kind
        groups: list[str | None] = [None]
        if kind.watched_by:
            groups += dict.fromkeys(_watched_value(one) for one in (change.entry, change.old) if one is not None)
        for group in groups:
            for listener in list(self._listeners.get((kind.id, group), {}).values()):
                listener(change)

    def _keep(self, entry: Entry) -> None:
        self._entries.setdefault(entry.kind.id, {})[(entry.namespace, entry.name)] = entry
        for owner in entry.json["metadata"].get("ownerReferences") or ():
            self._owned.setdefault(owner["uid"], {})[entry.key] = None

    def _drop_owners(self, entry: Entry) -> None:
        for owner in entry.json["metadata"].get("ownerReferences") or ():
            owned = self._owned.get(owner["uid"])
            if owned is not None:
                owned.pop(entry.key, None)
                if not owned:
                    del self._owned[owner["uid"]]


def at_version(entry: Entry, version: int) -> Entry:
    """An object as it was, told under another version."""
    json = _versioned(entry.json, version)
    return _entry(entry.kind, json, _encode(json))


def _versioned(json: Json, version: int) -> Json:
    return {**json, "metadata": {**json["metadata"], "resourceVersion": str(version)}}


def _watched_value(entry: Entry) -> str:
    found: Any = entry.json
    for part in entry.kind.watched_by:
        found = found.get(part, "")
    return str(found)


def _entry(kind: Kind, json: Json, raw: bytes) -> Entry:
    meta = json["metadata"]
    return Entry(kind, meta.get("namespace", ""), meta["name"], json, raw, int(meta["resourceVersion"]))


class _ObjectFile:
    """The objects on disk: one SQLite file, one transaction a write."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._database = sqlite3.connect(path, isolation_level=None)
        try:
            self._prepare()
        except sqlite3.Error as error:
            self._database.close()
            message = f"{path} is no cluster file that can be used ({error}): remove it to begin anew"
            raise StoreFileError(message) from None

    def _prepare(self) -> None:
        self._database.execute("PRAGMA journal_mode=WAL")
        # A killed process loses nothing; only a machine that loses power may lose the last writes.
        self._database.execute("PRAGMA synchronous=NORMAL")
        self._database.execute(
            "CREATE TABLE IF NOT EXISTS objects"
            " (kind TEXT, namespace TEXT, name TEXT, raw BLOB, PRIMARY KEY (kind, namespace, name)) WITHOUT ROWID"
        )
        self._database.execute("CREATE TABLE IF NOT EXISTS latest (one INTEGER PRIMARY KEY, version INTEGER)")

    def version(self) -> int:
        row = self._database.execute("SELECT version FROM latest").fetchone()
        return int(row[0]) if row else _FIRST_VERSION

    def objects(self) -> list[tuple[str, bytes]]:
        return self._database.execute("SELECT kind, raw FROM objects ORDER BY kind, namespace, name").fetchall()

    def write(self, entry: Entry, version: int) -> None:
        with self._transaction(version):
            self._database.execute("REPLACE INTO objects VALUES (?, ?, ?, ?)", (*entry.key, entry.raw))

    def erase(self, entry: Entry, version: int) -> None:
        with self._transaction(version):
            self._database.execute("DELETE FROM objects WHERE kind = ? AND namespace = ? AND name = ?", entry.key)

    @contextlib.contextmanager
    def _transaction(self, version: int) -> Iterator[None]:
        self._database.execute("BEGIN IMMEDIATE")
        try:
            yield
            self._database.execute("REPLACE INTO latest VALUES (1, ?)", (version,))
        except BaseException:
            self._database.execute("ROLLBACK")
            raise
        self._database.execute("COMMIT")

    def close(self) -> None:
        self._database.close()
