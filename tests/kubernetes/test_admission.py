"""The admission webhook as a process of its own, asked by a real API server."""

import base64
import copy
import json
import os
import queue
import re
import signal
import socket
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from elastipod.clock import SystemClock
from tests.build import container_json, deployment_json, metadata_json, owner_json, pod_json, template_json
from tests.contract.real import CRDS
from tests.kubernetes.apiserver import ApiServer
from tests.kubernetes.certificates import Authority
from tests.kubernetes.processes import wait_for
from tests.localcluster.served import MERGE
from updater.admission.canary import CANARY

pytestmark = pytest.mark.apiserver

Json = dict[str, Any]

NAMESPACE = "sized"
PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
AUTOSCALERS = f"/apis/autoscaling.k8s.io/v1/namespaces/{NAMESPACE}/verticalpodautoscalers"
APPS = f"/apis/apps/v1/namespaces/{NAMESPACE}"
_START_SECONDS = 30.0
# A machine that is busy with something else fails no test.
_PATIENT = ("--interval-seconds=0.05", "--request-seconds=10")
_CANARY = (f"--canary-namespace={NAMESPACE}", "--canary-seconds=0.2")
_CONFIGURATIONS = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"


class Process:
    """`python -m updater.admission` beside an API server that asks it."""

    def __init__(self, api_server: ApiServer, folder: Path) -> None:
        self.authority = Authority(folder / "pki")
        self.folder = folder / "tls"
        self.folder.mkdir()
        self.show("first")
        self._process = subprocess.Popen(
            [sys.executable, "-m", "updater.admission", "--webhook-port=0", *_PATIENT, *_CANARY],
            stderr=subprocess.PIPE,
            text=True,
            env=os.environ
            | {"ELASTIPOD_KUBECONFIG": str(api_server.kubeconfig), "ELASTIPOD_CERTIFICATE_FOLDER": str(self.folder)},
        )
        self._lines: queue.Queue[Json] = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()
        self._metrics = f"{self.told('started')['address']}/metrics"
        self.url = f"https://127.0.0.1:{self.told('webhook listens')['port']}/mutate"

    def show(self, name: str) -> None:
        """Put a certificate of this name where the webhook looks."""
        pair = self.authority.issue(name, f"/CN={name}", ["IP:127.0.0.1"])
        for path, file in ((pair.certificate, "tls.crt"), (pair.key, "tls.key")):
            (self.folder / "new").write_bytes(path.read_bytes())
            (self.folder / "new").replace(self.folder / file)

    def told(self, event: str) -> Json:
        """The next log line that says so."""
        while True:
            line = self._lines.get(timeout=_START_SECONDS)
            if line["event"] == event:
                return line

    def effect(self) -> float:
        """Whether the webhook has effect, as its metric says."""
        with urllib.request.urlopen(self._metrics, timeout=_START_SECONDS) as answer:
            found = re.search(r"^elastipod_admission_effective (\S+)$", answer.read().decode(), re.MULTILINE)
        assert found is not None
        return float(found[1])

    def end(self) -> int:
        self._process.send_signal(signal.SIGTERM)
        return self._process.wait(_START_SECONDS)

    def _read(self) -> None:
        assert self._process.stderr is not None
        with self._process.stderr as lines:
            for line in lines:
                self._lines.put(json.loads(line))


@pytest.fixture(scope="module")
def owner(api_server: ApiServer) -> Json:
    """A Deployment's ReplicaSet with an autoscaler that recommends 250m."""
    calls = api_server.calls
    api_server.make_namespace(NAMESPACE)
    _serve_autoscalers(api_server)
    deployment = calls.post(f"{APPS}/deployments", deployment_json("web", NAMESPACE))
    made = calls.post(
        f"{APPS}/replicasets",
        {
            "metadata": metadata_json(
                "web-1", NAMESPACE, owner=owner_json("Deployment", "web", deployment["metadata"]["uid"])
            ),
            "spec": {"selector": {"matchLabels": {"app": "web"}}, "template": template_json({"app": "web"})},
        },
    )
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
    spec = {"targetRef": target, "recommenders": [{"name": "elastipod"}]}
    api = {"apiVersion": "autoscaling.k8s.io/v1", "kind": "VerticalPodAutoscaler"}
    calls.post(AUTOSCALERS, {**api, "metadata": metadata_json("web", NAMESPACE), "spec": spec})
    amounts = {"cpu": "250m", "memory": "200Mi"}
    bounds = {"target": amounts, "lowerBound": amounts, "upperBound": amounts}
    status = {"recommendation": {"containerRecommendations": [{"containerName": "app", **bounds}]}}
    calls.patch(f"{AUTOSCALERS}/web/status", {"status": status}, "application/merge-patch+json")
    return owner_json("ReplicaSet", "web-1", made["metadata"]["uid"])


@pytest.fixture(scope="module")
def process(api_server: ApiServer, owner: Json, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Process]:
    process = Process(api_server, tmp_path_factory.mktemp("admission"))
    try:
        with _asked(api_server, process, NAMESPACE):
            # The API server takes a moment to know whom to ask.
            look = partial(api_server.calls.post, PODS, _new(owner), dryRun="All")
            wait_for(look, 10, "the webhook is asked", lambda made: _cpu(made) == "250m")
            yield process
    finally:
        process.end()


@contextmanager
def _asked(api_server: ApiServer, process: Process, namespace: str) -> Iterator[None]:
    """While the API server asks it about pods of a namespace: never in the way, and again after another webhook."""
    authority = base64.b64encode(process.authority.certificate.read_bytes()).decode()
    shared = {
        "clientConfig": {"url": process.url, "caBundle": authority},
        "failurePolicy": "Ignore",
        "sideEffects": "None",
        "reinvocationPolicy": "IfNeeded",
        "timeoutSeconds": 10,
        "admissionReviewVersions": ["v1"],
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
    }
    pods = {"name": "pods.elastipod.io", "rules": _creating("pods")}
    asks = {"objectSelector": {"matchExpressions": [{"key": CANARY, "operator": "Exists"}]}}
    canary = {"name": "canary.elastipod.io", "rules": _creating("configmaps"), **asks}
    webhooks = [{**shared, **pods}, {**shared, **canary}]
    api_server.calls.post(_CONFIGURATIONS, {"metadata": {"name": f"elastipod-{namespace}"}, "webhooks": webhooks})
    try:
        yield
    finally:
        api_server.calls.call("DELETE", f"{_CONFIGURATIONS}/elastipod-{namespace}")


def _creating(resource: str) -> list[Json]:
    return [{"apiGroups": [""], "apiVersions": ["v1"], "resources": [resource], "operations": ["CREATE"]}]


def _serve_autoscalers(api_server: ApiServer) -> None:
    # As helm has them: another definition would be in the way of a release on the same server.
    api_server.kubectl("apply", "--server-side", "--force-conflicts", "-f", str(CRDS))
    api_server.kubectl("wait", "--for=condition=Established", "--timeout=30s", "-f", str(CRDS))


def _new(owner: Json, **pod: Any) -> Json:
    made = pod_json("", NAMESPACE, owner=owner, **pod)
    del made["metadata"]["name"]
    made["metadata"]["generateName"] = "web-1-"
    return made


def _cpu(pod: Json) -> str:
    found: str = pod["spec"]["containers"][0]["resources"]["requests"]["cpu"]
    return found


def test_a_new_pod_comes_back_sized_and_says_by_whom(api_server: ApiServer, process: Process, owner: Json) -> None:
    containers = [container_json(cpu="100m", cpu_limit="200m")]
    made = api_server.calls.post(PODS, _new(owner, containers=containers))
    assert made["spec"]["containers"][0]["resources"] == {
        "requests": {"cpu": "250m", "memory": "200Mi"},
        "limits": {"cpu": "500m"},
    }
    assert made["metadata"]["annotations"]["vpaUpdates"].startswith("Pod resources updated by web: container 0")
    assert made["metadata"]["annotations"]["vpaObservedContainers"] == "app"


def test_a_dry_run_comes_back_sized_too(api_server: ApiServer, process: Process, owner: Json) -> None:
    assert _cpu(api_server.calls.post(PODS, _new(owner), dryRun="All")) == "250m"


def test_a_pod_of_nobody_is_made_as_it_is(api_server: ApiServer, process: Process, owner: Json) -> None:
    made = api_server.calls.post(PODS, pod_json("bare", NAMESPACE))
    assert _cpu(made) == "100m"
    assert "elastipod.io/sized" not in made["metadata"].get("annotations", {})


def test_certificates_change_and_every_pod_is_sized(api_server: ApiServer, process: Process, owner: Json) -> None:
    for number in range(10):
        process.show(f"pair-{number}")
        process.told("certificate taken")
        assert _cpu(api_server.calls.post(PODS, _new(owner), dryRun="All")) == "250m"


def _foreign_root(webhook: Json, folder: Path, silent: str) -> None:
    authority = Authority(folder / "foreign").certificate.read_bytes()
    webhook["clientConfig"]["caBundle"] = base64.b64encode(authority).decode()


def _no_one_there(webhook: Json, folder: Path, silent: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        webhook["clientConfig"]["url"] = f"https://127.0.0.1:{taken.getsockname()[1]}/mutate"


def _no_answer(webhook: Json, folder: Path, silent: str) -> None:
    webhook["clientConfig"]["url"] = silent
    webhook["timeoutSeconds"] = 1


def _changed_by_another(webhook: Json, folder: Path, silent: str) -> None:
    webhook["namespaceSelector"] = {"matchLabels": {"kubernetes.io/metadata.name": "elsewhere"}}


@pytest.mark.parametrize("spoil", [_foreign_root, _no_one_there, _no_answer, _changed_by_another])
def test_a_webhook_that_is_asked_in_vain_is_told_and_told_again_once_it_is_mended(
    api_server: ApiServer, process: Process, tmp_path: Path, spoil: Callable[[Json, Path, str], None]
) -> None:
    path = f"{_CONFIGURATIONS}/elastipod-{NAMESPACE}"
    wait_for(process.effect, 10, "it has effect", lambda found: found == 1)
    webhooks = api_server.calls.get(path)["webhooks"]
    spoilt = copy.deepcopy(webhooks)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        for one in spoilt:
            spoil(one, tmp_path, f"https://127.0.0.1:{silent.getsockname()[1]}/mutate")
        try:
            api_server.calls.patch(path, {"webhooks": spoilt}, MERGE)
            wait_for(process.effect, 10, "it is told to have none", lambda found: found == 0)
        finally:
            api_server.calls.patch(path, {"webhooks": webhooks}, MERGE)
    wait_for(process.effect, 10, "it has effect again", lambda found: found == 1)


def test_without_the_webhook_pods_are_made_as_they_are_at_once(api_server: ApiServer, tmp_path: Path) -> None:
    api_server.make_namespace("unsized")
    process = Process(api_server, tmp_path)
    assert process.end() == 0
    with _asked(api_server, process, "unsized"):
        began = SystemClock().monotonic()
        assert _cpu(api_server.calls.post("/api/v1/namespaces/unsized/pods", pod_json("web-0", "unsized"))) == "100m"
        assert SystemClock().monotonic() - began < 2.0
