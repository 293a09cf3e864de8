"""From locks to archives, a layer at a time.

Owns the order of the work and the files that are no package's: users, names, certificates, bills of materials.
"""

import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from elastipod import __version__
from images import debian
from images.archive import Layer, image_config, write_archive, write_layer
from images.debian import Package
from images.interpreter import Interpreter
from images.recipes import ENTRYPOINT, ENVIRONMENT, SBOM, SITE, Image
from images.sbom import sbom
from images.wheels import build_own, install_locked, install_own

_LINKS: Final = {
    "bin": "usr/bin",
    "lib": "usr/lib",
    "lib64": "usr/lib64",
    "usr/bin/python": "python3.11",
    "usr/bin/python3": "python3.11",
    "usr/lib/ssl/cert.pem": "/etc/ssl/certs/ca-certificates.crt",
    "var/run": "/run",
}
_FILES: Final = {
    "etc/passwd": "root:x:0:0:root:/:/bin/false\nelastipod:x:65532:65532:elastipod:/:/bin/false\n",
    "etc/group": "root:x:0:\nelastipod:x:65532:\n",
    "etc/nsswitch.conf": "passwd: files\ngroup: files\nhosts: files dns\n",
}
_FOLDERS: Final = ("dev", "etc", "proc", "run", "sys", "tmp", "var/lib")


class BuildError(Exception):
    """An image that would not run."""


@dataclass(frozen=True, slots=True)
class Base:
    """The layer that all images share."""

    layer: Layer
    tree: Path
    packages: list[Package]
    python: Interpreter


@dataclass(frozen=True, slots=True)
class Built:
    """An image on disk."""

    archive: Path
    reference: str
    identity: str
    bytes_long: int


def build(images: Sequence[Image], output: Path) -> list[Built]:
    """Build the images into the folder, each with its bill of materials beside it."""
    output.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=output) as folder:
        base, own = _build_base(Path(folder)), build_own(Path(folder))
        return [_build_image(image, base, own, Path(folder) / image.name, output) for image in images]


def _build_base(work: Path) -> Base:
    packages = debian.read_lock(debian.LOCK.read_text("utf-8"))
    tree = work / "base"
    for file, package in zip(debian.fetch(packages), packages, strict=True):
        debian.unpack(file, tree)
        # Scanners look here for what is installed where there is no package manager.
        _write(tree / f"var/lib/dpkg/status.d/{package.name}", debian.field(file, "") + "\n")
    for name in _FOLDERS:
        (tree / name).mkdir(parents=True, exist_ok=True)
    (tree / "tmp").chmod(0o1777)
    for name, target in _LINKS.items():
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).symlink_to(target)
    for name, text in _FILES.items():
        _write(tree / name, text)
    _trust(tree)
    python = Interpreter(tree)
    _finish(python, tree)
    return Base(write_layer(tree, work / "base.tar"), tree, packages, python)


def _build_image(image: Image, base: Base, wheel: Path, work: Path, output: Path) -> Built:
    libraries, own = work / "libraries", work / "own"
    wheels = [
        *install_locked(image.requirements, libraries / SITE),
        install_own(wheel, own / SITE, image.left_out),
    ]
    for tree in (libraries, own):
        _finish(base.python, tree)
    for module in image.programs:
        if error := base.python.import_error(module, [libraries / SITE, own / SITE]):
            raise BuildError(f"{image.name}: {module} can not be imported: {error}")
    bill = sbom(image.name, __version__, base.packages, wheels)
    _write(own / SBOM, bill.decode())
    layers = [base.layer, *(write_layer(tree, work / f"{tree.name}.tar") for tree in (libraries, own))]
    reference = image.reference(__version__)
    config = image_config(
        layers,
        user=image.user,
        environment=ENVIRONMENT,
        entrypoint=ENTRYPOINT,
        command=image.command,
        labels={
            "org.opencontainers.image.title": image.title,
            "org.opencontainers.image.version": __version__,
            "org.opencontainers.image.licenses": "Apache-2.0",
            "io.elastipod.sbom": f"/{SBOM}",
        },
    )
    bytes_long = sum(layer.bytes_long for layer in layers)
    if bytes_long > image.most_megabytes * 1_000_000:
        raise BuildError(f"{image.name} has {bytes_long} bytes, more than the {image.most_megabytes} MB it may have")
    archive = output / f"{image.name}.tar"
    identity = write_archive(archive, reference, config, layers)
    (output / f"{image.name}.cdx.json").write_bytes(bill)
    shutil.rmtree(work)
    return Built(archive, reference, identity, bytes_long)


def _trust(tree: Path) -> None:
    """One file of all authorities, as update-ca-certificates would make it."""
    authorities = sorted((tree / "usr/share/ca-certificates").rglob("*.crt"))
    _write(tree / "etc/ssl/certs/ca-certificates.crt", "".join(file.read_text("ascii") for file in authorities))
    shutil.rmtree(tree / "usr/share/ca-certificates")


def _finish(python: Interpreter, tree: Path) -> None:
    if missing := python.missing_libraries(tree):
        raise BuildError("a library is in none of the base's packages: " + "; ".join(missing))
    if error := python.compile(tree):
        raise BuildError(f"{tree.name}: a module can not be compiled: {error}")


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")
