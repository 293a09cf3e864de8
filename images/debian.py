"""Debian's packages: locked, fetched once, and what of them an image needs.

Owns `images/debian.lock` and the cache beside it. Uses the machine's own apt sources and asks for no root; a package
whose content is not what the lock says is never unpacked.
"""

import hashlib
import io
import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from images.recipes import BASE, FOLDER

LOCK: Final = FOLDER / "debian.lock"
CACHE: Final = Path.home() / ".cache/elastipod/debs"
RELEASE: Final = "bookworm"

_HEADER: Final = f"# Debian {RELEASE}, amd64: name, version, SHA-256. `make images-lock` writes this file anew.\n"


class DebianError(Exception):
    """The base can not be made of what this machine and Debian's mirror offer."""


@dataclass(frozen=True, slots=True)
class Package:
    """One Debian package, by its content."""

    name: str
    version: str
    sha256: str

    @property
    def file_name(self) -> str:
        return f"{self.name}_{self.version.replace(':', '%3a')}_{self.sha256[:16]}.deb"


def read_lock(text: str) -> list[Package]:
    """The packages of a lock file. Raises DebianError naming the line that is none."""
    packages = []
    for number, line in enumerate(text.splitlines(), start=1):
        fields = line.split()
        if line.startswith("#") or not fields:
            continue
        if len(fields) != 3 or len(fields[2]) != 64 or not set(fields[2]) <= set("0123456789abcdef"):
            raise DebianError(f"{LOCK.name}, line {number}: must be name, version and SHA-256, but is {line!r}")
        packages.append(Package(*fields))
    return packages


def write_lock(packages: Iterable[Package]) -> str:
    """A lock file's text."""
    return _HEADER + "".join(f"{package.name} {package.version} {package.sha256}\n" for package in packages)


def fetch(packages: Sequence[Package], cache: Path = CACHE) -> list[Path]:
    """The packages' files, from the cache or from Debian's mirror, each with the locked content."""
    cache.mkdir(parents=True, exist_ok=True)
    missing = [package for package in packages if not (cache / package.file_name).exists()]
    if missing:
        with tempfile.TemporaryDirectory(dir=cache) as folder:
            apt = _Apt(Path(folder))
            for package in missing:
                file = apt.download(package.name, package.version)
                _check(file, package)
                file.replace(cache / package.file_name)
    files = [cache / package.file_name for package in packages]
    for file, package in zip(files, packages, strict=True):
        _check(file, package)
    return files


def newest(names: Iterable[str] = BASE, cache: Path = CACHE) -> list[Package]:
    """What Debian offers now, with signatures checked by apt, kept in the cache."""
    cache.mkdir(parents=True, exist_ok=True)
    packages = []
    with tempfile.TemporaryDirectory(dir=cache) as folder:
        apt = _Apt(Path(folder))
        for name in names:
            file = apt.download(name)
            package = Package(name, field(file, "Version"), _sha256(file))
            file.replace(cache / package.file_name)
            packages.append(package)
    return packages


def unpack(file: Path, tree: Path) -> None:
    """Add to the tree what an image needs of a package, in a tree where /lib is /usr/lib."""
    command = ["dpkg-deb", "--fsys-tarfile", str(file)]
    done = subprocess.run(command, check=False, capture_output=True)
    if done.returncode:
        raise DebianError(f"{file} is no package that can be read: {done.stderr.decode(errors='replace').strip()}")
    with tarfile.open(fileobj=io.BytesIO(done.stdout)) as tar:
        for member in tar:
            name = _place(member.name)
            if not is_needed(name) or member.isdir():
                continue
            target = tree / name
            target.parent.mkdir(parents=True, exist_ok=True)
            if member.issym():
                target.symlink_to(member.linkname)
            elif (content := tar.extractfile(member)) is not None:
                target.write_bytes(content.read())
                target.chmod(0o755 if member.mode & 0o100 else 0o644)


def is_needed(name: str) -> bool:
    """Whether an image has use for that file of a package: programs, libraries, licences, no documents and no shell."""
    if ".." in name.split("/"):
        raise DebianError(f"a package holds {name!r}, which leads out of the image")
    return name.endswith("/copyright") or (name.startswith(_NEEDED) and not name.startswith(_LEFT_OUT))


_LIBRARIES: Final = "usr/lib/x86_64-linux-gnu"
_NEEDED: Final = (
    f"{_LIBRARIES}/lib",
    f"{_LIBRARIES}/ld-linux",
    "usr/lib64/ld-linux",
    "usr/lib/python3.11/",
    "usr/lib/os-release",
    "usr/bin/python3.11",
    "usr/share/ca-certificates/",
    "usr/share/common-licenses/",
    "etc/debian_version",
    "etc/os-release",
)
_DYNAMIC: Final = "usr/lib/python3.11/lib-dynload"
_LEFT_OUT: Final = (
    "usr/lib/python3.11/sitecustomize.py",  # looks for Debian's crash reporter
    "usr/lib/python3.11/pydoc_data/",
    # Modules whose libraries the base does not hold.
    *(f"{_DYNAMIC}/{name}." for name in ("_crypt", "_curses", "_curses_panel", "_dbm", "_sqlite3", "nis", "readline")),
    # What only a debugger or an older program asks of the C library.
    *(f"{_LIBRARIES}/lib{name}" for name in ("BrokenLocale", "c_malloc_debug", "memusage", "nss_hesiod", "pcprofile")),
    f"{_LIBRARIES}/libthread_db",
)


def _place(name: str) -> str:
    name = name.removeprefix("./")
    return f"usr/{name}" if name.startswith(("lib/", "lib64/", "bin/", "sbin/")) else name


def field(file: Path, name: str) -> str:
    """A field of the package's own description; all of it where the name is empty."""
    command = ["dpkg-deb", "--field", str(file), *([name] if name else [])]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def _check(file: Path, package: Package) -> None:
    found = _sha256(file)
    if found != package.sha256:
        raise DebianError(
            f"{package.name} {package.version}: the file's SHA-256 is {found}, but {LOCK.name} says {package.sha256}; "
            f"remove {file} if it is damaged, or run `make images-lock` if Debian's mirror is to be trusted anew"
        )


def _sha256(file: Path) -> str:
    with file.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


class _Apt:
    """The machine's apt with lists of its own, so that it needs no root and changes nothing."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        for name in ("lists/partial", "archives/partial"):
            (folder / name).mkdir(parents=True)
        if shutil.which("apt-get") is None:
            raise DebianError(
                "there is no apt-get, and the base is made of Debian's packages: "
                f"build on Debian {RELEASE}, or use images/Containerfile"
            )
        # Other sources of this machine may be out of reach; what is missing in the end is told by `download`.
        self._run("update", "-qq")

    def download(self, name: str, version: str = "") -> Path:
        """The package's file; its newest version where none is named. Raises DebianError."""
        done = self._run("download", "-qq", f"{name}={version}" if version else name)
        found = list(self._folder.glob(f"{name}_*.deb"))
        if done.returncode or len(found) != 1:
            raise DebianError(
                f"{name} {version} could not be fetched ({done.stderr.strip() or 'no reason given'}); "
                f"this machine's apt sources must be those of Debian {RELEASE}, and if they have moved on to a newer "
                f"version, run `make images-lock` and commit images/{LOCK.name}"
            )
        return found[0]

    def _run(self, *arguments: str) -> "subprocess.CompletedProcess[str]":
        options = {
            "Dir::State::Lists": self._folder / "lists",
            "Dir::Cache": self._folder,
            "APT::Architecture": "amd64",
            "APT::Sandbox::User": "",  # the folder is ours alone
            "Acquire::Retries": 3,
            "Acquire::Languages": "none",
        }
        flags = [part for name, value in options.items() for part in ("-o", f"{name}={value}")]
        return subprocess.run(
            ["apt-get", *flags, *arguments], cwd=self._folder, check=False, capture_output=True, text=True
        )
