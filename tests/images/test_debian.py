"""Only the locked packages come in, and of them only what a program needs."""

import hashlib
import shutil
import subprocess
from pathlib import Path

import pytest

from images.debian import LOCK, DebianError, Package, fetch, is_needed, read_lock, unpack, write_lock
from images.recipes import BASE

has_dpkg = pytest.mark.skipif(shutil.which("dpkg-deb") is None, reason="dpkg-deb makes the package")


def make_package(folder: Path, files: dict[str, str]) -> Path:
    root = folder / "root"
    for name, text in {**files, "DEBIAN/control": "Package: some\nVersion: 1\nArchitecture: all\n"}.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    # What dpkg warns of are the fields that only an archive needs.
    command = ["dpkg-deb", "--build", "--root-owner-group", str(root), str(folder / "some.deb")]
    subprocess.run(command, check=True, capture_output=True)
    return folder / "some.deb"


def test_the_lock_holds_the_base_and_nothing_else() -> None:
    text = LOCK.read_text()
    packages = read_lock(text)
    assert tuple(package.name for package in packages) == BASE
    assert write_lock(packages) == text


@pytest.mark.parametrize(
    "line", ["zlib1g 1.2", "zlib1g 1.2 abc", f"zlib1g {'a' * 64}", f"zlib1g 1.2 {'A' * 64}", f"a b c {'a' * 64}"]
)
def test_a_line_of_the_lock_without_a_hash_is_refused_by_its_number(line: str) -> None:
    with pytest.raises(DebianError, match="line 2: must be name, version and SHA-256"):
        read_lock(f"# comment\n{line}\n")


def test_a_package_in_the_cache_is_taken_only_with_the_locked_content(tmp_path: Path) -> None:
    package = Package("some", "1:1", hashlib.sha256(b"content").hexdigest())
    (tmp_path / package.file_name).write_bytes(b"content")
    assert fetch([package], tmp_path) == [tmp_path / package.file_name]
    (tmp_path / package.file_name).write_bytes(b"other content")
    with pytest.raises(DebianError, match=r"some 1:1: the file's SHA-256 is .* but debian.lock says"):
        fetch([package], tmp_path)


@pytest.mark.parametrize(
    ("name", "needed"),
    [
        ("usr/lib/x86_64-linux-gnu/libssl.so.3", True),
        ("usr/lib64/ld-linux-x86-64.so.2", True),
        ("usr/lib/python3.11/ssl.py", True),
        ("usr/share/doc/libssl3/copyright", True),
        ("usr/share/doc/libssl3/changelog.gz", False),
        ("usr/lib/x86_64-linux-gnu/gconv/UTF-16.so", False),
        ("usr/bin/dash", False),
        ("usr/sbin/update-ca-certificates", False),
        ("usr/lib/python3.11/lib-dynload/readline.cpython-311-x86_64-linux-gnu.so", False),
    ],
)
def test_an_image_takes_libraries_and_licences_and_neither_documents_nor_a_shell(name: str, *, needed: bool) -> None:
    assert is_needed(name) is needed


def test_a_path_that_leads_out_of_the_image_is_refused() -> None:
    with pytest.raises(DebianError, match="leads out of the image"):
        is_needed("usr/lib/python3.11/../../../../etc/passwd")


@has_dpkg
def test_libraries_of_the_root_lie_below_usr(tmp_path: Path) -> None:
    package = make_package(
        tmp_path, {"lib/x86_64-linux-gnu/libz.so.1": "z", "bin/sh": "no", "usr/share/doc/some/copyright": "c"}
    )
    unpack(package, tmp_path / "tree")
    found = {str(path.relative_to(tmp_path / "tree")) for path in (tmp_path / "tree").rglob("*") if path.is_file()}
    assert found == {"usr/lib/x86_64-linux-gnu/libz.so.1", "usr/share/doc/some/copyright"}


@has_dpkg
def test_a_file_that_is_no_package_is_refused(tmp_path: Path) -> None:
    (tmp_path / "some.deb").write_bytes(b"no package")
    with pytest.raises(DebianError, match=r"some\.deb is no package that can be read"):
        unpack(tmp_path / "some.deb", tmp_path / "tree")
