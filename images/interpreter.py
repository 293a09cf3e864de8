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

    def compile(self, tree: Path) -> str:
        """Compile every module of a layer, the same bytes each time, never to be compared with their source.

        Returns what could not be compiled; empty where all could.
        """
        how = ["-m", "compileall", "-q", "--invalidation-mode", "unchecked-hash"]
        return self._run([*how, "-s", str(tree), "-p", "/", str(tree)])

    def missing_libraries(self, tree: Path) -> list[str]:
        """What compiled modules and libraries of a layer need, and neither it nor the base holds."""
        tree = tree.resolve()
        missing = set()
        for module in sorted(tree.rglob("*.so*")):
            command = [*self._loader, "--list", str(module)]
            done = subprocess.run(command, check=False, capture_output=True, text=True)
            for line in done.stdout.splitlines():
                name, arrow, found = line.strip().partition(" => ")
                if arrow and not found.startswith((str(self._base), str(tree))):
                    missing.add(f"{module.relative_to(tree)} needs {name}")
        return sorted(missing)

    def import_error(self, module: str, sites: Sequence[Path]) -> str:
        """Why a module can not be imported with nothing but the base and those folders; empty if it can."""
        return self._run(["-c", f"import {module}"], [str(site.resolve()) for site in sites])

    def _run(self, arguments: Sequence[str], sites: Sequence[str] = ()) -> str:
        environment = {
            "PYTHONHOME": str(self._base / "usr"),
            "PYTHONPATH": ":".join(sites),
            "PYTHONSAFEPATH": "1",
            "PYTHONDONTWRITEBYTECODE": "1",
            "PYTHONHASHSEED": "0",  # the order of a set's members is part of what is compiled
        }
        command = [*self._loader, str(self._base / "usr/bin/python3.11"), "-S", *arguments]
        done = subprocess.run(command, check=False, env=environment, capture_output=True, text=True)
        return done.stderr.strip() if done.returncode else ""
