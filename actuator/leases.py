"""What is written of each protected container before anything can be held, and remembered of it over restarts.

Owns the leases in the journal, which the guard reads too, and the memos in them. Who is protected is table.py's
matter.
"""

from collections.abc import Callable, Collection, Mapping

from actuator.journal import Journal, Record
from actuator.memory import Target
from actuator.settings import ActuatorSettings
from actuator.table import Memo
from elastipod.clock import Clock

_PREFIX = "lease/"


class Leases:
    """The leases of one node. `journal` None remembers nothing over a restart."""

    def __init__(
        self,
        journal: Journal | None,
        settings: ActuatorSettings,
        clock: Clock,
        *,
        holds: bool,
        release: Callable[[Record], None],
    ) -> None:
        self.memos: dict[str, Memo] = _memos(journal)
        self.problem = ""
        """Why leases can not be written; empty where they can."""
        self._journal, self._settings, self._clock = journal, settings, clock
        self._version, self._release = 2 if holds else 1, release
        self._owed: dict[str, Record | None] = {}
        """What a disk that failed has still to take."""

    def renew(self, fresh: Mapping[str, Target], ended: Collection[str], protected: Collection[str]) -> None:
        """Leases of those that are new or another, and no more of those that ended. Raises OSError.

        A container whose lease can not be written is not held: nobody could let it go after us.
        """
        for key, target in fresh.items():
            old = self.memos.get(key, Memo())
            is_new = old.base_bytes != target.base_bytes
            pending = old.pending_bytes if old.pending_bytes > target.spec_bytes else 0
            ours = target.spec_bytes if is_new else max(old.ours_bytes, target.spec_bytes)
            self.memos[key] = Memo(target.base_bytes, ours, pending, target.rescues)
        records: dict[str, Record | None] = {key: self._record(target) for key, target in fresh.items()}
        for key in [key for key in self.memos if key in ended or (key not in fresh and key not in protected)]:
            self.memos.pop(key)
            record = self._journal.records.get(_PREFIX + key) if self._journal is not None else None
            if key not in ended and record is not None:
                # An earlier run's, of a container that is protected no longer.
                self._release(record)
            records[key] = None
        self._put(records)

    def note(self, target: Target, *, ours: int = 0, pending: int | None = None, rescued: bool = False) -> None:
        """What became of a container under lease. Raises OSError."""
        memo = self.memos.get(target.key)
        if memo is None:
            return
        rescues = memo.rescues
        if rescued:
            rules, now = self._settings.rules, self._clock.monotonic()
            if not rescues or now - rescues[-1] > rules.rescue_seconds:
                rescues = (*rescues, now)[-rules.most_rescues :]
        still_pending = memo.pending_bytes if pending is None else pending
        self.memos[target.key] = Memo(memo.base_bytes, max(memo.ours_bytes, ours), still_pending, rescues)
        self._put({target.key: self._record(target)})

    def pending(self) -> list[tuple[str, int]]:
        """Limits that were asked for and that the spec has not shown yet."""
        return [(key, memo.pending_bytes) for key, memo in self.memos.items() if memo.pending_bytes]

    def _put(self, records: Mapping[str, Record | None]) -> None:
        if self._journal is None:
            return
        self._owed.update(records)
        if not self._owed:
            return
        try:
            self._journal.put({_PREFIX + key: record for key, record in self._owed.items()})
        except OSError as error:
            self.problem = f"the journal {self._journal.path} can not be written: {error.strerror or error}"
            raise
        self._owed.clear()
        self.problem = ""

    def _record(self, target: Target) -> Record:
        memo = self.memos[target.key]
        return {
            "version": self._version,
            "parent": self._settings.cgroup_parent,
            "group": target.group,
            "ceiling": target.ceiling_bytes,
            "base": memo.base_bytes,
            "ours": memo.ours_bytes,
            "pending": memo.pending_bytes,
            "rescues": list(memo.rescues),
        }


def _memos(journal: Journal | None) -> dict[str, Memo]:
    """What earlier runs left, as far as it makes sense."""
    found: dict[str, Memo] = {}
    for key, record in (journal.records if journal is not None else {}).items():
        numbers = [record.get(name) for name in ("base", "ours", "pending")]
        rescues = record.get("rescues")
        if key.startswith(_PREFIX) and isinstance(rescues, list) and all(isinstance(one, int) for one in numbers):
            base, ours, pending = (max(int(one or 0), 0) for one in numbers)
            times = tuple(float(one) for one in rescues if isinstance(one, int | float))
            found[key.removeprefix(_PREFIX)] = Memo(base, ours, pending, times)
    return found
