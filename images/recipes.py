"""What each image holds and how it starts.

Owns the differences between the images. How their layers are made is the other modules' matter.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

FOLDER: Final = Path(__file__).parent
ROOT: Final = FOLDER.parent

PYTHON: Final = "3.11"
SITE: Final = f"usr/local/lib/python{PYTHON}/dist-packages"
"""Where Debian's Python looks for what is not Debian's."""

SBOM: Final = "usr/share/doc/elastipod/sbom.cdx.json"

BASE: Final = (
    "base-files",
    "ca-certificates",
    "gcc-12-base",
    "libbz2-1.0",
    "libc6",
    "libexpat1",
    "libffi8",
    "libgcc-s1",
    "liblzma5",
    "libpython3.11-minimal",
    "libpython3.11-stdlib",
    "libssl3",
    "libstdc++6",
    "libuuid1",
    "python3.11-minimal",
    "zlib1g",
)
"""The Debian packages of the base layer, which all images share."""

ENVIRONMENT: Final = {
    "PATH": "/usr/bin",
    "PYTHONDONTWRITEBYTECODE": "1",  # the root file system is read-only, and everything is compiled
    "PYTHONSAFEPATH": "1",  # no module comes from the working folder
    "PYTHONUNBUFFERED": "1",
}
ENTRYPOINT: Final = ("python", "-m")


@dataclass(frozen=True, slots=True)
class Image:
    """One image: `python -m` a part, as a user."""

    name: str
    title: str
    requirements: Path
    left_out: tuple[str, ...]
    """What of our own wheel its programs do not need, relative to SITE."""
    programs: tuple[str, ...]
    """The modules that run in it; each is imported once the image is built."""
    user: str
    most_megabytes: int
    command: tuple[str, ...] = ()

    def reference(self, version: str) -> str:
        """The name it goes by; the registry is the user's own."""
        return f"elastipod/{self.name}:{version}"


ELASTIPOD: Final = Image(
    name="elastipod",
    title="elastipod's recommender, updater and admission",
    requirements=ROOT / "requirements/elastipod.txt",
    left_out=("actuator", "elastipod/cli"),
    programs=("recommender.__main__", "updater.__main__", "updater.admission.__main__"),
    user="65532:65532",
    most_megabytes=500,
)

NODE: Final = Image(
    name="elastipod-node",
    title="elastipod's actuator and its guard",
    requirements=ROOT / "requirements/node.txt",
    left_out=("recommender", "updater", "elastipod/cli"),
    programs=("actuator.__main__", "actuator.guard"),
    # The kernel lets only the owner of the cgroup files write them, and that is root. No capability is needed.
    user="0:0",
    most_megabytes=80,
    command=("actuator",),
)

IMAGES: Final = (ELASTIPOD, NODE)
