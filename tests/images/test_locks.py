"""An image has what the tests ran with, and all that its programs import."""

import re
import subprocess
import sys
import tomllib
from importlib.metadata import packages_distributions

import pytest

from images.recipes import ELASTIPOD, IMAGES, NODE, ROOT, Image

LOCKS = [*(image.requirements.name for image in IMAGES), "build.txt"]


def locked(name: str) -> dict[str, frozenset[str]]:
    """Each `name==version` of a lock file and its hashes."""
    text = (ROOT / "requirements" / name).read_text().replace("\\\n", " ")
    entries = re.findall(r"^([a-z0-9-]+==[^\s;]+)([^\n]*)$", text, re.MULTILINE)
    return {entry: frozenset(re.findall(r"--hash=sha256:([0-9a-f]{64})", rest)) for entry, rest in entries}


def names(lock: str) -> set[str]:
    return {entry.partition("==")[0] for entry in locked(lock)}


@pytest.mark.parametrize("lock", LOCKS)
def test_an_image_has_the_versions_and_hashes_that_are_tested(lock: str) -> None:
    tested = locked("dev.txt")
    assert locked(lock)
    for entry, hashes in locked(lock).items():
        assert hashes
        assert hashes <= tested[entry], entry


def test_the_node_has_what_a_node_needs_and_no_more() -> None:
    assert names("node.txt") == {"httptools", "msgspec", "prometheus-client", "pyyaml"}


def test_what_builds_our_wheel_is_locked() -> None:
    needed = tomllib.loads((ROOT / "pyproject.toml").read_text())["build-system"]["requires"]
    assert {re.split("[><=]", name)[0] for name in needed} <= names("build.txt")


@pytest.mark.parametrize("image", IMAGES, ids=lambda image: image.name)
def test_an_image_has_all_that_its_programs_import(image: Image) -> None:
    def is_there(distribution: str) -> bool:
        name = re.sub("[._]", "-", distribution).lower()
        return name == "elastipod" or name in names(image.requirements.name)

    absent = [name for name, found in packages_distributions().items() if not any(map(is_there, found))]
    absent += [name.replace("/", ".") for name in image.left_out]
    # A module that is None can not be imported.
    code = f"import sys; sys.modules.update(dict.fromkeys({absent}))\nimport {', '.join(image.programs)}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_only_the_node_runs_as_root() -> None:
    assert (ELASTIPOD.user, NODE.user) == ("65532:65532", "0:0")
