"""A layer and an image as bytes that are the same each time.

Owns the formats: tar, image configuration, docker archive. What lies in a layer is decided elsewhere.
"""

import hashlib
import io
import json
import tarfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

EPOCH: Final = 1_580_601_600
"""The time of every file, as hatchling's wheels have it: 2020-02-02."""

CREATED: Final = "2020-02-02T00:00:00Z"


@dataclass(frozen=True, slots=True)
class Layer:
    """A layer's tar and the digest it goes by."""

    path: Path
    sha256: str
    bytes_long: int


def write_layer(tree: Path, target: Path) -> Layer:
    """Pack a folder: sorted names, one time, owned by root, no more rights than it takes."""
    with tarfile.open(target, "w", format=tarfile.GNU_FORMAT) as tar:
        for path in sorted(tree.rglob("*"), key=lambda found: found.relative_to(tree).parts):
            entry = tarfile.TarInfo(str(path.relative_to(tree)))
            entry.mtime = EPOCH
            mode = path.lstat().st_mode
            if path.is_symlink():
                entry.type, entry.linkname, entry.mode = tarfile.SYMTYPE, str(path.readlink()), 0o777
                tar.addfile(entry)
            elif path.is_dir():
                entry.type, entry.mode = tarfile.DIRTYPE, 0o1777 if mode & 0o1000 else 0o755
                tar.addfile(entry)
            else:
                entry.size, entry.mode = path.stat().st_size, 0o755 if mode & 0o100 else 0o644
                with path.open("rb") as content:
                    tar.addfile(entry, content)
    with target.open("rb") as packed:
        return Layer(target, hashlib.file_digest(packed, "sha256").hexdigest(), target.stat().st_size)


def image_config(
    layers: Sequence[Layer],
    *,
    user: str,
    environment: Mapping[str, str],
    entrypoint: Sequence[str],
    command: Sequence[str],
    labels: Mapping[str, str],
) -> dict[str, Any]:
    """How a container of the image starts, in the OCI's words."""
    return {
        "architecture": "amd64",
        "os": "linux",
        "created": CREATED,
        "config": {
            "User": user,
            "Env": [f"{name}={value}" for name, value in sorted(environment.items())],
            "Entrypoint": list(entrypoint),
            "Cmd": list(command),
            "WorkingDir": "/",
            "Labels": dict(labels),
        },
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{layer.sha256}" for layer in layers]},
        "history": [{"created": CREATED, "created_by": layer.path.stem} for layer in layers],
    }


def write_archive(target: Path, reference: str, config: Mapping[str, Any], layers: Sequence[Layer]) -> str:
    """Write the docker archive (`ctr images import`, `docker load`, `skopeo copy`) and return the image's id."""
    packed = to_json(config)
    identity = hashlib.sha256(packed).hexdigest()
    manifest = [
        {
            "Config": f"{identity}.json",
            "RepoTags": [reference],
            "Layers": [f"{layer.sha256}.tar" for layer in layers],
        }
    ]
    with tarfile.open(target, "w", format=tarfile.GNU_FORMAT) as tar:
        for name, content in ((f"{identity}.json", packed), ("manifest.json", to_json(manifest))):
            tar.addfile(_entry(name, len(content)), io.BytesIO(content))
        for layer in _once(layers):
            with layer.path.open("rb") as packed_layer:
                tar.addfile(_entry(f"{layer.sha256}.tar", layer.bytes_long), packed_layer)
    return identity


def to_json(value: Any) -> bytes:
    """The same bytes for the same value."""
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


def _entry(name: str, size: int) -> tarfile.TarInfo:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mtime, entry.mode = size, EPOCH, 0o644
    return entry


def _once(layers: Iterable[Layer]) -> Iterable[Layer]:
    return {layer.sha256: layer for layer in layers}.values()
