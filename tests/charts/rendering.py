"""The chart as real helm renders it.

Owns the calls of helm, and how manifests are found among what it says. Starts no cluster.
"""

import functools
import json
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from tests.charts.pages import CHART
from tests.kubernetes import binaries

Json = dict[str, Any]

RELEASE: Final = "elastipod"
NAMESPACE: Final = "elastipod"
COMPONENTS: Final = ("recommender", "updater", "admission", "actuator")

needs_helm: Final = pytest.mark.skipif(bool(binaries.why_missing("helm")), reason=binaries.why_missing("helm"))


_SHOWN: Final = """
apiVersion: v1
kind: ConfigMap
metadata: {name: notes}
data: {notes: {{ include "notes" . | toJson }}}
"""


class Refused(Exception):
    """Helm said no; the message is what it said."""


class Manifests(list[Json]):
    """What was rendered."""

    def of(self, kind: str, name: str = "") -> list[Json]:
        """Those of a kind, with that end to their name."""
        return [one for one in self if one["kind"] == kind and one["metadata"]["name"].endswith(name)]

    def one(self, kind: str, name: str = "") -> Json:
        """The only one of them."""
        (found,) = self.of(kind, name)
        return found

    def pods(self) -> dict[str, Json]:
        """The pod templates by component, and the pod of `helm test`."""
        templates = {
            one["metadata"]["labels"]["app.kubernetes.io/component"]: one["spec"]["template"]
            for one in [*self.of("Deployment"), *self.of("DaemonSet")]
        }
        return templates | {one["metadata"]["labels"]["app.kubernetes.io/component"]: one for one in self.of("Pod")}


def helm(*argv: str, values: Json | None = None) -> str:
    """What helm says. Raises Refused."""
    given = ["--values", "-"] if values is not None else []
    done = subprocess.run(
        [str(binaries.find("helm")), *argv, *given],
        check=False,
        input=json.dumps(values),
        capture_output=True,
        text=True,
        timeout=60,
        env={"HOME": _home()},
    )
    if done.returncode:
        raise Refused(done.stderr + done.stdout)
    return done.stdout


def render(values: Json | None = None, *argv: str) -> Manifests:
    """The manifests, and the hooks' among them."""
    text = helm("template", RELEASE, str(CHART), "--namespace", NAMESPACE, *argv, values=values or {})
    return Manifests(one for one in yaml.load_all(text, _Loader) if one)


def notes(*argv: str) -> str:
    """What helm tells after an installation. Helm shows that of another Kubernetes only where it is a manifest's."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(shutil.copytree(CHART, Path(folder) / CHART.name))
        text = (copy / "templates" / "NOTES.txt").rename(copy / "notes").read_text("utf-8")
        (copy / "templates" / "notes.yaml").write_text(f'{{{{ define "notes" }}}}{text}{{{{ end }}}}{_SHOWN}')
        rendered = helm("template", RELEASE, str(copy), "--namespace", NAMESPACE, *argv)
    return str(Manifests(one for one in yaml.load_all(rendered, _Loader) if one).one("ConfigMap")["data"]["notes"])


def containers(pod: Json) -> list[Json]:
    """All of a pod's containers."""
    return [*pod["spec"].get("initContainers", []), *pod["spec"]["containers"]]


def rules(manifests: Manifests) -> dict[str, list[Json]]:
    """What each service account may do, by its name, from every role that is bound to it."""
    roles = {
        (one["kind"], one["metadata"].get("namespace"), one["metadata"]["name"]): one["rules"]
        for one in [*manifests.of("ClusterRole"), *manifests.of("Role")]
    }
    found: dict[str, list[Json]] = {}
    for binding in [*manifests.of("ClusterRoleBinding"), *manifests.of("RoleBinding")]:
        reference = binding["roleRef"]
        namespace = binding["metadata"].get("namespace") if reference["kind"] == "Role" else None
        for subject in binding["subjects"]:
            found.setdefault(subject["name"], []).extend(roles[reference["kind"], namespace, reference["name"]])
    return found


class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """Refuses a key that stands twice, as the API server does."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> Json:
        keys = [key.value for key, _ in node.value]
        assert len(keys) == len(set(keys)), f"a key stands twice in {keys}: {node.start_mark}"
        found: Json = super().construct_mapping(node, deep)
        return found


@functools.cache
def _home() -> str:
    folder = tempfile.TemporaryDirectory(prefix="elastipod-helm-")
    _kept.append(folder)
    return str(Path(folder.name))


_kept: Final[list["tempfile.TemporaryDirectory[str]"]] = []
