"""The programs of a real cluster: built from the Go modules under `tools/`, kept in the user's cache folder by version.

`make kubernetes` builds what is missing. Versions stand in the modules' go.mod files alone. A folder named by
KUBEBUILDER_ASSETS is looked into first. Owns finding and building; what is done with a program is for others.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final

TOOLS: Final = Path(__file__).with_name("tools")
KUBERNETES: Final = "k8s.io/kubernetes"


class Missing(Exception):
    """A program is not there; the message says which, and what to do."""


@dataclass(frozen=True, slots=True)
class Module:
    """One folder under `tools/`: the Go module whose version counts, and the package of each program."""

    name: str
    path: str
    programs: dict[str, str]

    @property
    def folder(self) -> Path:
        return TOOLS / self.name

    @property
    def version(self) -> str:
        """As go.mod has it."""
        text = (self.folder / "go.mod").read_text("ascii")
        found = re.search(rf"^\s*(?:require )?{re.escape(self.path)} (v\S+)", text, re.MULTILINE)
        assert found is not None, f"{self.folder}/go.mod does not require {self.path}"
        return found[1]

    @property
    def kept(self) -> Path:
        return cache() / f"{self.name}-{self.version}"


MODULES: Final = (
    Module(
        "kubernetes",
        KUBERNETES,
        {"etcd": "go.etcd.io/etcd/server/v3"}
        | {
            name: f"{KUBERNETES}/cmd/{name}"
            for name in ("kube-apiserver", "kubelet", "kube-controller-manager", "kube-scheduler")
        },
    ),
    Module("helm", "helm.sh/helm/v4", {"helm": "helm.sh/helm/v4/cmd/helm"}),
    Module(
        "metrics-server",
        "sigs.k8s.io/metrics-server",
        {"metrics-server": "sigs.k8s.io/metrics-server/cmd/metrics-server"},
    ),
    Module(
        "vpa",
        "k8s.io/autoscaler/vertical-pod-autoscaler",
        {
            name: f"k8s.io/autoscaler/vertical-pod-autoscaler/pkg/{name}"
            for name in ("recommender", "updater", "admission-controller")
        },
    ),
)
ON_DEMAND: Final = ("vpa",)
"""Only for benchmarks beside the peers, by `make kubernetes ARGS=vpa`."""


def cache() -> Path:
    """Where what was built is kept."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "elastipod"


def find(name: str) -> Path:
    """The program of that name. Raises Missing."""
    given = os.environ.get("KUBEBUILDER_ASSETS")
    if given and (Path(given) / name).is_file():
        return Path(given) / name
    for module in MODULES:
        if name in module.programs and (module.kept / name).is_file():
            return module.kept / name
    raise Missing(f"{name} is not built: make kubernetes")


def kubectl() -> Path:
    """The one of KUBEBUILDER_ASSETS, of this Python's environment, or of the machine. Raises Missing."""
    folders = (os.environ.get("KUBEBUILDER_ASSETS", ""), str(Path(sys.executable).parent), os.environ.get("PATH", ""))
    for folder in folders:
        if found := shutil.which("kubectl", path=folder):
            return Path(found)
    raise Missing("kubectl is not installed: make setup")


def why_missing(*names: str) -> str:
    """Nothing where all of these are there, else what is missing."""
    for name in names:
        try:
            find(name)
        except Missing as error:
            return str(error)
    return ""


def build(module: Module) -> None:
    """Make what is missing of a module. Raises CalledProcessError."""
    missing = [name for name in module.programs if not (module.kept / name).is_file()]
    module.kept.mkdir(parents=True, exist_ok=True)
    for name in missing:
        print(f"building {name} of {module.path} {module.version} (minutes, once) ...", flush=True)
        unfinished = module.kept / f".{name}.{os.getpid()}"
        try:
            argv = ["go", "build", "-trimpath", "-ldflags", _linked(module), "-o", str(unfinished)]
            subprocess.run([*argv, module.programs[name]], cwd=module.folder, check=True)
            unfinished.rename(module.kept / name)
        finally:
            unfinished.unlink(missing_ok=True)
    print(f"{module.name} {module.version}: {', '.join(module.programs)} in {module.kept}", flush=True)


def _linked(module: Module) -> str:
    if module.path != KUBERNETES:
        return "-s -w"
    # Without these a server says that it is version 0.0.0.
    major, minor, _ = module.version.removeprefix("v").split(".", 2)
    numbers = {"gitVersion": module.version, "gitMajor": major, "gitMinor": minor}
    return "-s -w " + " ".join(f"-X k8s.io/component-base/version.{name}={value}" for name, value in numbers.items())


def main() -> int:
    """Build the modules that are named, or all but those on demand."""
    parser = argparse.ArgumentParser(prog="make kubernetes", description="Build the programs of a real cluster.")
    parser.add_argument("modules", nargs="*", metavar="MODULE", help=", ".join(module.name for module in MODULES))
    names = parser.parse_args().modules or [module.name for module in MODULES if module.name not in ON_DEMAND]
    if unknown := set(names) - {module.name for module in MODULES}:
        parser.error(f"no module {', '.join(sorted(unknown))}")
    chosen = [module for module in MODULES if module.name in names]
    if not shutil.which("go"):
        missing = [name for module in chosen for name in module.programs if not (module.kept / name).is_file()]
        if missing:
            print(f"Go is not installed, so these are not built: {', '.join(missing)}.")
            print("Tests that need them will be skipped and say so. Install Go 1.26 (go.dev/dl) for them.")
        return 0
    failed = 0
    for module in chosen:
        try:
            build(module)
        except subprocess.CalledProcessError as error:
            failed = 1
            print(f"{module.name}: go ended with {error.returncode}; its tests will be skipped", file=sys.stderr)
    return failed


if __name__ == "__main__":
    sys.exit(main())
