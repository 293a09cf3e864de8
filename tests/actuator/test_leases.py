"""Before anything can be held, a lease is on disk; and what a full disk refused is written once it can be."""

import errno
import os
from dataclasses import replace
from pathlib import Path

import pytest

from actuator.guard import leases as seen_by_guard
from actuator.journal import Journal, Record
from actuator.leases import Leases
from actuator.memory import Target
from actuator.settings import ActuatorSettings
from elastipod.clock import ManualClock

MIB = 1024 * 1024
ONE = Target("u/c/1", "u", "c", "1", "pods/u", "pods/u/1", 64 * MIB, 256 * MIB, 64 * MIB, 5.0)
OTHER = replace(ONE, key="u/c/2", group="pods/u/2")


class Disk:
    """One that can be full."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.is_full = folder, False
        self.released: list[Record] = []

    def sync(self, fd: int) -> None:
        if self.is_full:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def leases(self) -> Leases:
        journal = Journal(self.folder, "b1", sync=self.sync)
        return Leases(journal, ActuatorSettings(), ManualClock(), holds=False, release=self.released.append)

    def groups(self) -> list[str]:
        return [lease.group for lease in seen_by_guard(str(self.folder), "b1")]


def test_a_lease_comes_with_its_container_and_goes_with_it(tmp_path: Path) -> None:
    disk = Disk(tmp_path)
    leases = disk.leases()
    leases.renew({ONE.key: ONE, OTHER.key: OTHER}, [], [])
    assert disk.groups() == [ONE.group, OTHER.group]
    leases.renew({}, [ONE.key], [ONE.key, OTHER.key])
    assert disk.groups() == [OTHER.group]


def test_what_was_raised_and_not_yet_in_the_spec_is_known_after_a_restart(tmp_path: Path) -> None:
    disk = Disk(tmp_path)
    leases = disk.leases()
    leases.renew({ONE.key: ONE}, [], [])
    leases.note(ONE, ours=128 * MIB, pending=128 * MIB, rescued=True)
    again = disk.leases()
    assert again.memos == leases.memos
    assert again.pending() == [(ONE.key, 128 * MIB)]
    again.renew({ONE.key: replace(ONE, spec_bytes=128 * MIB)}, [], [])
    assert again.pending() == []


def test_what_an_earlier_run_held_is_released_where_it_is_protected_no_longer(tmp_path: Path) -> None:
    disk = Disk(tmp_path)
    disk.leases().renew({ONE.key: ONE, OTHER.key: OTHER}, [], [])
    disk.leases().renew({OTHER.key: OTHER}, [], [])
    assert [record["group"] for record in disk.released] == [ONE.group]
    assert disk.groups() == [OTHER.group]


def test_what_a_full_disk_refused_is_told_and_written_once_it_can_be(tmp_path: Path) -> None:
    disk = Disk(tmp_path)
    leases = disk.leases()
    leases.renew({ONE.key: ONE, OTHER.key: OTHER}, [], [])
    disk.is_full = True
    with pytest.raises(OSError, match="No space"):
        leases.note(ONE, pending=128 * MIB)
    with pytest.raises(OSError, match="No space"):
        leases.renew({}, [OTHER.key], [ONE.key, OTHER.key])
    assert "can not be written: No space" in leases.problem
    disk.is_full = False
    leases.renew({}, [], [ONE.key])
    assert leases.problem == ""
    assert disk.groups() == [ONE.group]
    assert disk.leases().pending() == [(ONE.key, 128 * MIB)]
