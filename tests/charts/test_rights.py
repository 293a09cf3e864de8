"""Each component, started as its pod would be, with the rights of its service account on a real API server."""

import base64
import json
import os
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from tests.actuator.trees import v2_tree
from tests.charts.pages import CHART
from tests.charts.rendering import COMPONENTS, RELEASE, Manifests, containers, needs_helm, render, rules
from tests.charts.test_rendering import BY_NAMESPACE
from tests.charts.tokens import token
from tests.cli.cluster import write_kubeconfig
from tests.kubernetes.apiserver import ApiServer, Audited
from tests.kubernetes.fakenodes import add_node
from tests.kubernetes.processes import wait_for
from tests.localcluster.served import AUTOSCALERS
from tests.localcluster.test_validation import autoscaler

Json = dict[str, Any]
pytestmark = [needs_helm, pytest.mark.apiserver]

READS: Final = {"list", "watch"}
NOT_SERVED: Final = {"metrics.k8s.io"}


class Running:
    """A component as a process on this machine: the program and its environment are the chart's."""

    def __init__(self, server: ApiServer, folder: Path, namespace: str, values: Json, component: str) -> None:
        self.manifests: Manifests = render(values, "--namespace", namespace)
        self.account = f"elastipod-{component}"
        where = f"{namespace}-node" if component == "actuator" else namespace
        self.user = f"system:serviceaccount:{where}:{self.account}"
        plane = server.control_plane
        kubeconfig = write_kubeconfig(
            folder / "kubeconfig",
            plane.outside,
            token=token(server, where, self.account, node=namespace),
            certificate=plane.authority.certificate.read_text("ascii"),
        )
        for secret in self.manifests.of("Secret"):
            for name in ("tls.crt", "tls.key"):
                (folder / name).write_bytes(base64.b64decode(secret["data"][name]))
        here = {
            "ELASTIPOD_CERTIFICATE_FOLDER": str(folder),
            "ELASTIPOD_CGROUP_ROOT": str(v2_tree(folder / "cgroup")),
            "ELASTIPOD_LISTEN_PORT": "0",
            "ELASTIPOD_NODE_NAME": namespace,
            "ELASTIPOD_STATE_FOLDER": str(folder / "state"),
            "ELASTIPOD_WEBHOOK_PORT": "0",
        }
        container = containers(self.manifests.pods()[component])[-1]
        given = {one["name"]: one.get("value", "127.0.0.1") for one in container["env"]}
        given |= {name: text for name, text in here.items() if name in given}
        with (folder / "log").open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, *container["command"][1:]],
                env={"PATH": os.environ["PATH"], "KUBECONFIG": str(kubeconfig)} | given,
                stdout=log,
                stderr=log,
            )

    def granted(self) -> set[tuple[str, str]]:
        """The verbs and kinds of its roles, as far as this server has them."""
        return {
            (verb, resource)
            for rule in rules(self.manifests)[self.account]
            for verb in rule["verbs"]
            for resource in rule["resources"]
            if not NOT_SERVED & set(rule["apiGroups"])
        }

    def stop(self) -> int:
        self._process.terminate()
        return self._process.wait(20)


CASES: Final[dict[str, tuple[str, Json]]] = {
    **{component: (component, {}) for component in COMPONENTS},
    "actuator in direct mode": ("actuator", {"actuator": {"settings": {"direct": True}}}),
    "recommender by namespace": ("recommender", BY_NAMESPACE),
    "updater by namespace": ("updater", BY_NAMESPACE),
}


@pytest.fixture(params=CASES)
def running(api_server: ApiServer, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Running]:
    component, values = CASES[request.param]
    namespace = f"rights-{uuid.uuid4().hex[:6]}"
    if values.get("scope") == "namespace":
        values = values | {"namespaces": [namespace]}
    add_node(api_server.calls, namespace)
    where = ("--namespace", namespace, "--create-namespace")
    api_server.helm("install", RELEASE, str(CHART), *where, "--values", "-", stdin=json.dumps(values))
    kind = {"apiVersion": "autoscaling.k8s.io/v1", "kind": "VerticalPodAutoscaler"}
    api_server.calls.post(AUTOSCALERS.replace("default", namespace), kind | autoscaler())
    found = Running(api_server, tmp_path, namespace, values, component)
    yield found
    found.stop()
    api_server.helm("uninstall", RELEASE, "--namespace", namespace)


def test_a_component_reads_all_that_it_may_read_and_is_refused_nothing(api_server: ApiServer, running: Running) -> None:
    granted = running.granted()
    wanted = {(verb, resource) for verb, resource in granted if verb in READS}

    def used() -> set[tuple[str, str]]:
        return {(one.verb, kind_of(one)) for one in api_server.audited(running.user)}

    wait_for(used, 60, f"all of {wanted} is used", lambda found: wanted <= found)
    assert not [one for one in api_server.audited(running.user) if one.code == 403]
    # metrics.k8s.io has pods too.
    assert used() - {("list", "pods")} <= granted
    assert running.stop() == 0


def kind_of(request: Audited) -> str:
    return f"{request.resource}/{request.subresource}" if request.subresource else request.resource
