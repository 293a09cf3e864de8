"""`python -m images`: build the images; `python -m images lock`: take what Debian offers now."""

import argparse
import sys
from pathlib import Path

from images import debian
from images.build import BuildError, build
from images.recipes import IMAGES, ROOT
from images.wheels import WheelError


def main() -> int:
    """Do it; 1 with the reason where it can not be done."""
    parser = argparse.ArgumentParser(prog="python -m images")
    parser.add_argument("task", nargs="?", choices=("build", "lock"), default="build")
    parser.add_argument("--output", type=Path, default=ROOT / "build/images")
    arguments = parser.parse_args()
    try:
        if arguments.task == "lock":
            debian.LOCK.write_text(debian.write_lock(debian.newest()), "utf-8")
            return 0
        for image in build(IMAGES, arguments.output):
            print(
                f"{image.reference:28} {image.bytes_long / 1e6:6.1f} MB  sha256:{image.identity[:12]}  {image.archive}"
            )
    except (debian.DebianError, WheelError, BuildError) as error:
        print(f"images: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
