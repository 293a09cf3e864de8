"""Python's packages in an image: the locked wheels, and our own.

Owns what pip does for an image and what of it is left out. Every wheel's hash is checked by pip against the lock.
"""

import hashlib
import json
import shutil
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from images.recipes import PYTHON, ROOT

# What Debian 12's glibc (2.36) runs, so that a newer machine's pip takes no wheel that the image can not load.
_PLATFORMS: Final = (
    *(f"manylinux_2_{minor}_x86_64" for minor in (28, 27, 24, 17, 12, 5)),
    "manylinux2014_x86_64",
    "manylinux2010_x86_64",
    "manylinux1_x86_64",
)

# A program needs no sources of compiled modules, no stubs, no tests, and no record of how it was installed.
_LEFT_OUT_SUFFIXES: Final = frozenset({".a", ".c", ".cpp", ".f", ".f90", ".h", ".pxd", ".pxi", ".pyi", ".pyx"})
_LEFT_OUT_FOLDERS: Final = frozenset({"tests", "__pycache__"})
_LEFT_OUT_RECORDS: Final = frozenset({"INSTALLER", "RECORD", "REQUESTED", "direct_url.json"})


class WheelError(Exception):
    """Pip could not install what the lock says."""


@dataclass(frozen=True, slots=True)
class Wheel:
    """One installed wheel."""

    name: str
    version: str
    license: str
    sha256: str


def install_locked(requirements: Path, site: Path) -> list[Wheel]:
    """Install a lock file's wheels, compiled ones for the image's Python and C library, and tell which they were."""
    platforms = [part for platform in _PLATFORMS for part in ("--platform", platform)]
    target = ["--python-version", PYTHON, "--implementation", "cp", "--only-binary", ":all:", *platforms]
    installed = _install(site, "--require-hashes", *target, "--requirement", str(requirements))
    _prune(site)
    wheels = (_wheel(entry, entry["download_info"]["archive_info"]["hashes"]["sha256"]) for entry in installed)
    return sorted(wheels, key=lambda wheel: wheel.name)


def build_own(folder: Path) -> Path:
    """This project's wheel."""
    _pip("wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", str(folder), str(ROOT))
    (wheel,) = folder.glob("*.whl")
    return wheel


def install_own(own: Path, site: Path, left_out: Iterable[str]) -> Wheel:
    """Install of this project's wheel what the image runs."""
    (installed,) = _install(site, "--no-deps", "--no-index", str(own))
    for name in left_out:
        shutil.rmtree(site / name)
    _prune(site)
    return _wheel(installed, hashlib.sha256(own.read_bytes()).hexdigest())


def _install(site: Path, *arguments: str) -> list[dict[str, Any]]:
    """What pip reports of each wheel that it installed."""
    site.parent.mkdir(parents=True, exist_ok=True)
    report = site.with_name("report.json")
    _pip("install", "--no-compile", "--target", str(site), "--report", str(report), *arguments)
    installed: list[dict[str, Any]] = json.loads(report.read_bytes())["install"]
    report.unlink()
    return installed


def _wheel(installed: dict[str, Any], sha256: str) -> Wheel:
    about = installed["metadata"]
    return Wheel(
        name=about["name"].lower().replace("_", "-").replace(".", "-"),
        version=about["version"],
        license=about.get("license_expression", ""),
        sha256=sha256,
    )


def _prune(site: Path) -> None:
    # Commands of packages name the interpreter of the machine that installed them.
    shutil.rmtree(site / "bin", ignore_errors=True)
    for path in sorted(site.rglob("*"), reverse=True):
        if path.is_dir():
            if path.name in _LEFT_OUT_FOLDERS:
                shutil.rmtree(path)
        elif path.suffix in _LEFT_OUT_SUFFIXES or (
            path.name in _LEFT_OUT_RECORDS and path.parent.suffix == ".dist-info"
        ):
            path.unlink()


def _pip(*arguments: str) -> None:
    command = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", "--no-input", *arguments]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    if done.returncode:
        raise WheelError(f"pip {arguments[0]}: {done.stderr.strip()}")
