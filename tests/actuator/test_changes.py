"""Writes to files are told by whose they are."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from actuator.changes import Changes


@contextmanager
def changes(folder: Path, *names: str) -> Iterator[Changes]:
    made, opened = Changes(), []
    for name in names:
        (folder / name).write_text("max\n")
        opened.append(os.open(folder / name, os.O_RDWR))
        made.add(name, opened[-1])
    try:
        yield made
    finally:
        made.close()
        for fd in opened:
            os.close(fd)


def test_each_file_that_was_written_to_is_told_once(tmp_path: Path) -> None:
    with changes(tmp_path, "a", "b", "c") as found:
        assert found.take() == []
        for text in ("1", "2"):
            (tmp_path / "b").write_text(text)
        (tmp_path / "a").write_text("3")
        assert found.take() == ["b", "a"]
        assert found.take() == []


def test_more_writes_than_one_read_takes_are_all_told(tmp_path: Path) -> None:
    names = [f"file-{number}" for number in range(600)]
    with changes(tmp_path, *names) as found:
        for name in names:
            (tmp_path / name).write_text("1")
        assert found.take() == names


def test_what_is_dropped_or_gone_is_told_no_more(tmp_path: Path) -> None:
    with changes(tmp_path, "a", "b") as found:
        found.drop("a")
        found.drop("never")
        (tmp_path / "a").write_text("1")
        (tmp_path / "b").unlink()
        assert found.take() == []
        found.drop("b")
