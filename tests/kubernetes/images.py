"""Images for pods, made here as docker archives: a static busybox and its links, named as what it is to be.

The project's own images come as archives from its build, and are imported the same way.
"""

import hashlib
import io
import json
import shutil
import subprocess
import tarfile
from pathlib import Path
from typing import Any, Final

BUSYBOX: Final = "registry.local/busybox:1"
PAUSE: Final = "registry.local/pause:1"
_FOREVER: Final = ["/bin/sh", "-c", "trap exit TERM; while :; do sleep 3600 & wait; done"]


def why_no_images() -> str:
    """Nothing where images can be made, else what is in the way."""
    return "" if shutil.which("busybox") else "busybox is not installed (on Debian: busybox-static)"


def make_images(folder: Path) -> list[Path]:
    """Archives of the pod sandbox and of a shell with its tools."""
    layer = _layer()
    return [_archive(folder / "pause.tar", PAUSE, layer), _archive(folder / "busybox.tar", BUSYBOX, layer)]


def _layer() -> bytes:
    busybox = Path(shutil.which("busybox") or "")
    applets = subprocess.run([str(busybox), "--list"], check=True, capture_output=True, text=True).stdout.split()
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as tar:
        for name in ("bin", "etc", "tmp", "proc", "sys", "dev", "run"):
            _add(tar, name, type=tarfile.DIRTYPE, mode=0o1777 if name == "tmp" else 0o755)
        _add(tar, "bin/busybox", busybox.read_bytes(), mode=0o755)
        for applet in applets:
            if applet != "busybox":
                _add(tar, f"bin/{applet}", type=tarfile.SYMTYPE, linkname="busybox")
        _add(tar, "etc/passwd", b"root:x:0:0:root:/:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/sh\n")
    return made.getvalue()


def _archive(path: Path, name: str, layer: bytes) -> Path:
    config = json.dumps(
        {
            "architecture": "amd64",
            "os": "linux",
            "config": {"Cmd": _FOREVER, "Env": ["PATH=/bin"]},
            "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(layer).hexdigest()}"]},
        }
    ).encode()
    manifest = [{"Config": "config.json", "RepoTags": [name], "Layers": ["layer.tar"]}]
    with tarfile.open(path, mode="w") as tar:
        _add(tar, "config.json", config)
        _add(tar, "layer.tar", layer)
        _add(tar, "manifest.json", json.dumps(manifest).encode())
    return path


def _add(tar: tarfile.TarFile, name: str, content: bytes = b"", **more: Any) -> None:
    entry = tarfile.TarInfo(name)
    entry.size = len(content)
    for key, value in more.items():
        setattr(entry, key, value)
    tar.addfile(entry, io.BytesIO(content))
