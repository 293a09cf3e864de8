"""A component with the rights of its service account on a real API server, started as its pod would be.

Owns the release, its process, and taking rights from it. What it has to do is duties.py's matter.
"""

import base64
import http.client
import itertools
import json
import os
import subprocess
import sys
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from operator import eq
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from tests.actuator.trees import v2_tree
from tests.charts.duties import SETTINGS, give_work, growing_pod, leap, measured_on, take_work
from tests.charts.pages import CHART
from tests.charts.rendering import RELEASE, Manifests, containers, render, rules
from tests.charts.tokens import token
from tests.cli.cluster import write_kubeconfig
from tests.kubernetes.apiserver import ApiServer, Audited
from tests.kubernetes.fakenodes import add_node
from tests.kubernetes.processes import wait_for
from tests.localcluster.served import MERGE

Json = dict[str, Any]

Right = tuple[str, str, str]
"""A verb, the group of a kind, and the kind with its subresource."""


class Running:
    """A component as a process on this machine: the program and its environment are the chart's."""

    def __init__(self, server: ApiServer, folder: Path, namespace: str, values: Json, component: str) -> None:
        """Of a release that is installed; it starts with `start`."""
        self.namespace = namespace
        self.work = work_of(namespace)
        self._server, self._folder = server, folder
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
            "ELASTIPOD_CGROUP_ROOT": str(folder / "cgroup"),
            "ELASTIPOD_LISTEN_PORT": "0",
            "ELASTIPOD_NODE_NAME": namespace,
            "ELASTIPOD_STATE_FOLDER": str(folder / "state"),
            "ELASTIPOD_WEBHOOK_PORT": "0",
        }
        container = containers(self.manifests.pods()[component])[-1]
        given = {one["name"]: one.get("value", "127.0.0.1") for one in container["env"]}
        given |= {name: text for name, text in here.items() if name in given}
        self._command = [sys.executable, *container["command"][1:]]
        self._environment = {"PATH": os.environ["PATH"], "KUBECONFIG": str(kubeconfig)} | given
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with (self._folder / "log").open("wb") as log:
            self._process = subprocess.Popen(self._command, env=self._environment, stdout=log, stderr=log)

    def granted(self) -> set[Right]:
        """What its roles say."""
        return {right for rule in rules(self.manifests)[self.account] for right, _ in _single(rule)}

    def used(self) -> set[Right]:
        """What it asked for so far."""
        return {right_of(one) for one in self._server.audited(self.user)}

    def withhold(self, *missing: Right) -> None:
        """Take these rights away, and give back all others; done when the API server goes by it."""
        for path, space, held in self._roles():
            single = [(right, one) for rule in held for right, one in _single(rule)]
            self._server.calls.patch(path, {"rules": [one for right, one in single if right not in missing]}, MERGE)
            for right, one in single:
                is_allowed = partial(self._may, right, space, one.get("resourceNames", [""])[0])
                wait_for(is_allowed, 30, f"{right} in force", partial(eq, right not in missing))

    def _may(self, right: Right, namespace: str, name: str) -> bool:
        verb, group, kind = right
        resource, _, subresource = kind.partition("/")
        asked = {"verb": verb, "group": group, "resource": resource, "subresource": subresource}
        asked |= {"namespace": namespace, "name": name}
        review = {"spec": {"user": self.user, "resourceAttributes": asked}}
        told = self._server.calls.post("/apis/authorization.k8s.io/v1/subjectaccessreviews", review)
        return bool(told["status"]["allowed"])

    def lacks(self) -> set[str]:
        """What it says, on its port, that it lacks."""
        # Whether it is ready is the first line.
        return set(self.says("/readyz")[1].splitlines()[1:])

    def says(self, path: str) -> tuple[int, str]:
        """What its port answers."""
        parts = urlsplit(self.address())
        assert self.is_running(), (self._folder / "log").read_text()[-4000:]
        connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=10)
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()

    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def stop(self) -> int:
        """How it ended."""
        assert self._process is not None
        self._process.terminate()
        return self._process.wait(20)

    def address(self) -> str:
        """Where its port is, once it has started."""

        def look() -> str:
            lines = [json.loads(one) for one in (self._folder / "log").read_text().splitlines() if one[-1:] == "}"]
            return next((str(one["address"]) for one in lines if one["event"] == "started"), "")

        return wait_for(look, 60, f"the {self.account} has started")

    def _roles(self) -> Iterator[tuple[str, str, list[Json]]]:
        """Path, namespace (none of a cluster's) and rules."""
        root = "/apis/rbac.authorization.k8s.io/v1"
        for binding in [*self.manifests.of("ClusterRoleBinding"), *self.manifests.of("RoleBinding")]:
            if self.account in [one["name"] for one in binding["subjects"]]:
                kind, name = binding["roleRef"]["kind"], binding["roleRef"]["name"]
                space = binding["metadata"].get("namespace") if kind == "Role" else None
                [role] = [one for one in self.manifests.of(kind, name) if one["metadata"].get("namespace") == space]
                where = f"namespaces/{space}/roles" if space else "clusterroles"
                yield f"{root}/{where}/{name}", space or "", role["rules"]


@contextmanager
def installed(server: ApiServer, folder: Path, component: str, given: Json) -> Iterator[Running]:
    """A release with its settings in seconds and work to do; stopped and taken away at the end."""
    namespace = f"rights-{uuid.uuid4().hex[:6]}"
    work = work_of(namespace)
    own = given.get(component, {})
    values = given | {component: own | {"settings": SETTINGS.get(component, {}) | own.get("settings", {})}}
    if values.get("scope") == "namespace":
        values |= {"namespaces": [work]}
    add_node(server.calls, namespace, cpu="64", memory="64Gi")
    server.make_namespace(work)
    where = ("--namespace", namespace, "--create-namespace")
    server.helm("install", RELEASE, str(CHART), *where, "--values", "-", stdin=json.dumps(values))
    wait_defined(server)
    give_work(server.calls, work, node=namespace)
    leap(growing_pod(server.calls, work, namespace, v2_tree(folder / "cgroup")))
    found = Running(server, folder, namespace, values, component)
    try:
        with measured_on(server.calls):
            yield found
    finally:
        if found.is_running():
            found.stop()
        take_work(server.calls, work)
        server.helm("uninstall", RELEASE, "--namespace", namespace)


def wait_defined(server: ApiServer) -> None:
    """Until objects of the kinds that came with a release are taken."""
    server.kubectl("wait", "--for=condition=Established", "--timeout=30s", "-f", str(CHART / "definitions"))


def work_of(namespace: str) -> str:
    """A release's own namespace is protected, so its work lies in another."""
    return f"{namespace}-work"


def right_of(request: Audited) -> Right:
    """What one must be allowed to do to ask this."""
    kind = f"{request.resource}/{request.subresource}" if request.subresource else request.resource
    return request.verb, request.group, kind


def _single(rule: Json) -> Iterator[tuple[Right, Json]]:
    """A rule as rules of one right each."""
    for verb, group, kind in itertools.product(rule["verbs"], rule["apiGroups"], rule["resources"]):
        yield (verb, group, kind), rule | {"verbs": [verb], "apiGroups": [group], "resources": [kind]}
