"""An actuator may touch its own node only, the updater no protected namespace, and the webhook keeps nothing: the API
server sees to it.
"""

import uuid
from collections.abc import Iterator
from typing import Any, Final

import pytest

from tests.build import pod_json
from tests.charts.pages import CHART
from tests.charts.rendering import RELEASE, needs_helm
from tests.charts.tokens import token
from tests.kubernetes.apiserver import ApiServer
from tests.kubernetes.calls import Calls
from tests.kubernetes.fakenodes import add_node, run_pod
from tests.kubernetes.processes import wait_for
from tests.localcluster.served import MERGE, STRATEGIC

Json = dict[str, Any]
pytestmark = [needs_helm, pytest.mark.apiserver]

TRIES: Final = 100
ELASTIC_NODES: Final = "/apis/elastipod.io/v1alpha1/elasticnodes"


class Site:
    """A release, two nodes, and pods on both."""

    def __init__(self, server: ApiServer) -> None:
        self.server, self.name = server, f"own-{uuid.uuid4().hex[:6]}"
        self.release, self.pods = f"{self.name}-release", f"{self.name}-pods"
        self.own, self.foreign = f"{self.name}-1", f"{self.name}-2"

    def install(self) -> None:
        argv = ("--namespace", self.release, "--create-namespace", "--set", f"protectedNamespaces={{{self.name}-safe}}")
        self.server.helm("install", RELEASE, str(CHART), *argv)
        for namespace in (self.pods, f"{self.name}-safe"):
            self.server.make_namespace(namespace)
        for node in (self.own, self.foreign):
            add_node(self.server.calls, node, cpu="64", memory="64Gi")

    def uninstall(self) -> None:
        self.server.helm("uninstall", RELEASE, "--namespace", self.release)

    def run(self, name: str, node: str, namespace: str = "") -> None:
        pod = pod_json(name, namespace or self.pods, cpu="1m", memory="64Mi", memory_limit="64Mi")
        run_pod(self.server.calls, pod, node)

    def calls_of(self, component: str, node: str = "") -> Calls:
        """Calls with a token of a component's service account: of a pod on that node, or of no pod."""
        namespace = f"{self.release}-node" if component == "actuator" else self.release
        plane = self.server.control_plane
        found = token(self.server, namespace, f"elastipod-{component}", node)
        return Calls(plane.outside, plane.authority.certificate, found)

    def resize(self, calls: Calls, name: str, memory: str = "80Mi", namespace: str = "") -> tuple[int, str]:
        """The code and what was said."""
        patch = {"spec": {"containers": [{"name": "app", "resources": {"limits": {"memory": memory}}}]}}
        path = f"/api/v1/namespaces/{namespace or self.pods}/pods/{name}/resize"
        code, said = calls.call("PATCH", path, patch, STRATEGIC)
        return code, said.get("message", "")


@pytest.fixture(scope="module")
def site(api_server: ApiServer) -> Iterator[Site]:
    found = Site(api_server)
    found.install()
    yield found
    found.uninstall()


@pytest.fixture(scope="module")
def actuator(site: Site) -> Iterator[Calls]:
    """With the token of a pod on its own node, once the policy is in force."""
    calls = site.calls_of("actuator", site.own)
    site.run("probe", site.foreign)
    wait_for(lambda: site.resize(calls, "probe", "66Mi")[0], 30, "the policy is in force", lambda code: code == 403)
    yield calls
    calls.close()


def test_each_of_a_hundred_raises_on_its_own_node_is_taken(site: Site, actuator: Calls) -> None:
    for number in range(TRIES):
        site.run(f"own-{number}", site.own)
        assert site.resize(actuator, f"own-{number}") == (200, "")


def test_each_of_a_hundred_raises_on_another_node_is_refused(site: Site, actuator: Calls) -> None:
    for number in range(TRIES):
        site.run(f"foreign-{number}", site.foreign)
        code, said = site.resize(actuator, f"foreign-{number}")
        assert code == 403
        assert f"an actuator acts on its own node, {site.own}, only" in said


def test_each_of_a_hundred_raises_with_a_token_of_no_pod_is_refused(site: Site, actuator: Calls) -> None:
    claimless = site.calls_of("actuator")
    for number in range(TRIES):
        site.run(f"claimless-{number}", (site.own, site.foreign)[number % 2])
        code, said = site.resize(claimless, f"claimless-{number}")
        assert code == 403
        assert "this token names no node" in said
    claimless.close()


def test_a_raise_to_more_than_four_times_the_limit_is_refused(site: Site, actuator: Calls) -> None:
    site.run("leaping", site.own)
    code, said = site.resize(actuator, "leaping", "257Mi")
    assert code == 403
    assert "at most 4 times" in said
    assert site.resize(actuator, "leaping", "256Mi") == (200, "")


def test_pods_of_protected_namespaces_are_out_of_reach(site: Site, actuator: Calls) -> None:
    updater = site.calls_of("updater", site.own)
    site.run("safe", site.own, f"{site.name}-safe")
    site.run("open", site.own)
    for calls in (actuator, updater):
        code, said = site.resize(calls, "safe", namespace=f"{site.name}-safe")
        assert code == 403
        assert f"namespace {site.name}-safe is protected" in said
    assert site.resize(updater, "open") == (200, "")
    updater.close()


def test_an_actuator_reports_of_its_own_node_only(site: Site, actuator: Calls) -> None:
    kind = {"apiVersion": "elastipod.io/v1alpha1", "kind": "ElasticNode", "spec": {}}
    actuator.post(ELASTIC_NODES, kind | {"metadata": {"name": site.own}})
    status: Json = {"status": {"message": "well"}}
    assert actuator.patch(f"{ELASTIC_NODES}/{site.own}/status", status, MERGE)["status"] == status["status"]
    said = actuator.refused("POST", ELASTIC_NODES, kind | {"metadata": {"name": site.foreign}})
    assert "own node" in said["message"]
    site.server.calls.post(ELASTIC_NODES, kind | {"metadata": {"name": site.foreign}})
    said = actuator.refused("PATCH", f"{ELASTIC_NODES}/{site.foreign}/status", status, MERGE)
    assert "own node" in said["message"]
    spec: Json = {"spec": {"wanted": []}}
    assert actuator.refused("PATCH", f"{ELASTIC_NODES}/{site.own}", spec, MERGE)["reason"] == "Forbidden"


def test_what_the_webhook_creates_is_a_config_map_of_its_own_namespace_and_never_kept(site: Site) -> None:
    webhook = site.calls_of("admission")
    body = {"metadata": {"generateName": "elastipod-canary-"}}
    own, foreign = (f"/api/v1/namespaces/{one}/configmaps" for one in (site.release, site.pods))

    def keep() -> Json:
        return webhook.call("POST", own, body)[1]

    said = wait_for(keep, 30, "the policy is in force", lambda found: found.get("code") == 403)
    assert "the webhook creates ConfigMaps as dry runs only" in said["message"]
    webhook.post(own, body, dryRun="All")
    assert "cannot create resource" in webhook.refused("POST", foreign, body, dryRun="All")["message"]
    webhook.close()
