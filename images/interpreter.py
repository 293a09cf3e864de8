"""The image's own Python, run on this machine to finish and to check what lies in the image.

Owns how it is started outside its image: by its own loader, with its own libraries. It needs no root and no chroot.
"""

import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Final

_LIBRARIES: Final = "usr/lib/x86_64-linux-gnu"


class Interpreter:
    """The Python of an unpacked base layer."""

    def __init__(self, base: Path) -> None:
        self._base = base.resolve()
        libraries = self._base / _LIBRARIES
        self._loader = [
            str(libraries / "ld-linux-x86-64.so.2"),
            "--inhibit-cache",
            "--library-path",
            str(libraries),
        ]

    def compile(self, tree: Path) -> None:
        """Compile every module of a layer, the same bytes each time; they are never compared with their source."""
        self._run(
            ["-m", "compileall", "-q", "--invalidation-mode", "unchecked-hash", "-s", str(tree), "-p", "/", str(tree)]
        )

    def missing_libraries(self, trees: Sequence[Path]) -> list[str]:
        """What compiled modules and libraries of the layers need and the base does not hold."""
        missing = set()
        for tree in trees:
            own = tree.resolve()
            for module in sorted(own.rglob("*.so*")):
                done = subprocess.run(
                    [*self._loader, "--list", str(module)], check=False, capture_output=True, text=True
                )
                for line in done.stdout.splitlines():
                    name, arrow, found = line.strip().partition(" => ")
                    if arrow and not found.startswith((str(self._base), str(own))):
                        missing.add(f"{module.relative_to(own)} needs {name}")
        return sorted(missing)

    def _run(self, arguments: Sequence[str]) -> None:
        # A fixed seed: the order of a set's members is part of what is compiled.
        environment = {"PYTHONHOME": str(self._base / "usr"), "PYTHONHASHSEED": "0", "PYTHONDONTWRITEBYTECODE": "1"}
        command = [*self._loader, str(self._base / "usr/bin/python3.11"), "-S", *arguments]
        subprocess.run(command, check=True, env=environment)
