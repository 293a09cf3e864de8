"""The same content is the same image."""

import hashlib
import json
import os
import tarfile
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from images.archive import EPOCH, Layer, image_config, write_archive, write_layer


def tree(folder: Path, names: list[str], at: float = 0) -> Path:
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
        os.utime(path, (at, at))
    return folder


def members(layer: Layer) -> list[tarfile.TarInfo]:
    with tarfile.open(layer.path) as tar:
        return tar.getmembers()


NAMES = ["usr/lib/b.py", "usr/lib/a/c.py", "usr/lib/a.py", "etc/passwd"]


def test_a_layer_does_not_tell_when_by_whom_and_in_what_order_it_was_made(tmp_path: Path) -> None:
    first = tree(tmp_path / "first", NAMES)
    second = tree(tmp_path / "second", NAMES[::-1], at=86_400)
    (second / "etc/passwd").chmod(0o600)
    (second / "usr").chmod(0o700)
    made = [write_layer(folder, tmp_path / f"{folder.name}.tar") for folder in (first, second)]
    assert made[0].path.read_bytes() == made[1].path.read_bytes()
    assert made[0].sha256 == made[1].sha256
    assert {(member.uid, member.gid, member.mtime) for member in members(made[0])} == {(0, 0, EPOCH)}


@given(st.lists(st.text("abc", min_size=1, max_size=3), min_size=1, max_size=8, unique=True))
def test_a_folder_comes_before_what_lies_in_it(tmp_path_factory: object, names: list[str]) -> None:
    folder = tmp_path_factory.mktemp("layer")  # type: ignore[attr-defined]
    layer = write_layer(tree(folder / "tree", [f"{name}/{name}/file" for name in names]), folder / "layer.tar")
    seen = {""}
    for member in members(layer):
        assert member.name.rpartition("/")[0] in seen
        seen.add(member.name)
    assert len(seen) == 1 + 3 * len(names)


def test_a_layer_gives_no_right_but_to_read_and_to_run(tmp_path: Path) -> None:
    folder = tree(tmp_path / "tree", ["bin/run", "etc/file"])
    (folder / "bin/run").chmod(0o6777)
    (folder / "etc/file").chmod(0o666)
    (folder / "tmp").mkdir()
    (folder / "tmp").chmod(0o1777)
    (folder / "bin/python").symlink_to("run")
    found = {member.name: member for member in members(write_layer(folder, tmp_path / "layer.tar"))}
    assert {name: member.mode for name, member in found.items() if not member.issym()} == {
        "bin": 0o755,
        "bin/run": 0o755,
        "etc": 0o755,
        "etc/file": 0o644,
        "tmp": 0o1777,
    }
    assert found["bin/python"].linkname == "run"


def test_an_archive_names_its_image_and_holds_each_layer_by_its_digest(tmp_path: Path) -> None:
    base = write_layer(tree(tmp_path / "base", ["a"]), tmp_path / "base.tar")
    own = write_layer(tree(tmp_path / "own", ["b"]), tmp_path / "own.tar")
    config = image_config(
        [base, own], user="1:1", environment={"B": "2", "A": "1"}, entrypoint=["x"], command=["y"], labels={"l": "v"}
    )
    identity = write_archive(tmp_path / "image.tar", "some/image:1", config, [base, own])
    with tarfile.open(tmp_path / "image.tar") as tar:
        content = {member.name: read.read() for member in tar if (read := tar.extractfile(member))}
    (manifest,) = json.loads(content["manifest.json"])
    assert manifest["RepoTags"] == ["some/image:1"]
    assert hashlib.sha256(content[manifest["Config"]]).hexdigest() == identity
    told = json.loads(content[manifest["Config"]])
    assert [hashlib.sha256(content[name]).hexdigest() for name in manifest["Layers"]] == [
        digest.removeprefix("sha256:") for digest in told["rootfs"]["diff_ids"]
    ]
    assert told["config"] == {
        "User": "1:1",
        "Env": ["A=1", "B=2"],
        "Entrypoint": ["x"],
        "Cmd": ["y"],
        "WorkingDir": "/",
        "Labels": {"l": "v"},
    }
