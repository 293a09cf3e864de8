import errno
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from actuator.journal import Journal, read_journal

RECORDS: dict[str, dict[str, Any]] = {
    "lease/a": {"group": "kubepods/poda/c", "version": 2},
    "size/b": {"memory": 5},
    "lease/c": {"group": "kubepods/podc/c", "version": 2},
}


def written(folder: Path, boot: str = "b1") -> bytes:
    journal = Journal(folder, boot)
    for key, record in RECORDS.items():
        journal.put({key: record})
    journal.close()
    return journal.path.read_bytes()


def test_a_restart_finds_what_was_recorded(tmp_path: Path) -> None:
    written(tmp_path)
    assert Journal(tmp_path, "b1").records == RECORDS


def test_a_lease_of_another_boot_is_void_and_an_intent_is_not(tmp_path: Path) -> None:
    written(tmp_path)
    assert Journal(tmp_path, "b2").records == {"size/b": RECORDS["size/b"]}


def test_the_last_record_of_a_key_counts_and_none_ends_it(tmp_path: Path) -> None:
    journal = Journal(tmp_path, "b1")
    journal.put({"a": {"n": 1}})
    journal.put({"a": {"n": 2}, "b": {"n": 3}})
    journal.put({"b": None})
    assert Journal(tmp_path, "b1").records == {"a": {"n": 2}}


def test_cut_at_every_byte_nothing_that_was_whole_is_lost_and_the_rest_is_set_aside(tmp_path: Path) -> None:
    raw = written(tmp_path / "whole")
    for length in range(len(raw)):
        folder = tmp_path / str(length)
        folder.mkdir()
        (folder / "journal").write_bytes(raw[:length])
        journal = Journal(folder, "b1")
        whole = raw[:length].count(b"\n")
        assert list(journal.records) == list(RECORDS)[:whole]
        is_cut = length > 0 and raw[length - 1 : length] != b"\n"
        assert bool(journal.set_aside) == is_cut
        journal.put({"new": {"n": 1}})
        journal.close()
        assert "new" in Journal(folder, "b1").records


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=200)
@given(st.binary(max_size=300), st.integers(0, 200), st.integers(0, 255))
def test_no_damage_is_guessed_at(tmp_path: Path, junk: bytes, position: int, byte: int) -> None:
    raw = bytearray(written(tmp_path / "w"))
    raw[position % len(raw)] ^= byte
    path = tmp_path / "j"
    path.write_bytes(bytes(raw) + junk)
    found, _ = read_journal(path)
    for key, (boot, record) in found.items():
        assert (boot, record) == ("b1", RECORDS[key])


def test_a_full_disk_records_nothing_and_keeps_what_was(tmp_path: Path) -> None:
    fails = False

    def sync(fd: int) -> None:
        if fails:
            raise OSError(errno.ENOSPC, "No space left on device")
        os.fsync(fd)

    journal = Journal(tmp_path, "b1", sync=sync)
    journal.put({"a": {"n": 1}})
    fails = True
    with pytest.raises(OSError, match="No space"):
        journal.put({"b": {"n": 2}})
    assert journal.records == {"a": {"n": 1}}
    assert Journal(tmp_path, "b1").records == {"a": {"n": 1}}


def test_a_long_life_does_not_grow_the_file(tmp_path: Path) -> None:
    journal = Journal(tmp_path, "b1", sync=lambda _: None)
    for number in range(5000):
        journal.put({"a": {"n": number}})
    assert journal.path.stat().st_size < 40_000
    assert Journal(tmp_path, "b1").records == {"a": {"n": 4999}}
