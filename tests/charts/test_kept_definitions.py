"""Definitions on a real API server: what is missing comes with a release, what exists is left, none is deleted."""

import json
from collections.abc import Iterator
from typing import Any, Final

import pytest

from tests.charts.pages import CHART
from tests.charts.releases import wait_defined
from tests.charts.rendering import RELEASE, needs_helm
from tests.charts.test_definitions import DEFINITIONS, KIND
from tests.kubernetes.apiserver import ApiServer
from tests.kubernetes.processes import wait_for
from tests.localcluster.served import AUTOSCALERS
from tests.localcluster.test_validation import autoscaler

Json = dict[str, Any]
pytestmark = [needs_helm, pytest.mark.apiserver, pytest.mark.timeout(300)]

PATH: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
VPA: Final = [name for name in sorted(DEFINITIONS) if name.endswith(".autoscaling.k8s.io")]
OWN: Final = [name for name in sorted(DEFINITIONS) if name.endswith(".elastipod.io")]
FORCED: Final = ("apply", "--server-side", "--force-conflicts", "-f")


@pytest.fixture
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    """A test's own: definitions hold for a whole cluster, and one that was just made takes its time to go."""
    with ApiServer(tmp_path_factory.mktemp("definitions")) as found:
        yield found


def helm(server: ApiServer, verb: str, *argv: str, release: str = RELEASE) -> str:
    """In one namespace: no controller of this server would let one go."""
    chart = [str(CHART), "--set", "actuator.enabled=false"] if verb in ("install", "upgrade") else []
    return server.helm(verb, release, *chart, "--namespace", "elastipod", *argv)


def install(server: ApiServer, *argv: str) -> str:
    return helm(server, "install", "--create-namespace", *argv)


def defined(server: ApiServer) -> dict[str, Json]:
    """The definitions that there are, to the letter."""
    return {one["metadata"]["name"]: one for one in server.calls.get(PATH)["items"]}


def other(name: str) -> str:
    """A definition with another content."""
    found = json.loads(json.dumps(DEFINITIONS[name]))
    version = found["spec"]["versions"][0]
    version["additionalPrinterColumns"] = [{"name": "Theirs", "type": "string", "jsonPath": ".metadata.name"}]
    version["schema"]["openAPIV3Schema"]["description"] = "Another's."
    return json.dumps(found)


def settled(server: ApiServer) -> dict[str, Json]:
    """The definitions once the API server has nothing more to add to them."""
    wait_defined(server)
    return defined(server)


def test_definitions_of_others_are_left_to_the_letter_by_all_that_helm_does(server: ApiServer) -> None:
    another_chart = ("apply", "--server-side", "--field-manager=helm", "-f")
    ways = [("apply", "-f"), another_chart, ("create", "-f"), FORCED]
    for name, way in zip([*VPA, *OWN], ways, strict=True):
        server.kubectl(*way, "-", stdin=other(name))
    before = settled(server)
    install(server)
    helm(server, "upgrade", "--set", "recommender.replicas=3")
    helm(server, "rollback")
    helm(server, "uninstall")
    assert defined(server) == before


@pytest.mark.parametrize("server_side", ["true", "false"])
def test_what_a_release_defined_outlives_it_with_its_objects(server: ApiServer, server_side: str) -> None:
    install(server, f"--server-side={server_side}")
    before = settled(server)
    server.calls.post(AUTOSCALERS, KIND | autoscaler())
    said = helm(server, "upgrade", "--set", "recommender.replicas=3", f"--server-side={server_side}")
    assert "is defined otherwise" not in said
    helm(server, "rollback", "1")
    helm(server, "uninstall")
    assert defined(server) == before
    # The same and another release take them as they are.
    install(server)
    helm(server, "uninstall")
    helm(server, "install", release="second")
    helm(server, "uninstall", release="second")
    assert defined(server) == before
    assert server.calls.get(f"{AUTOSCALERS}/web")["spec"]


def test_a_definition_that_another_replaces_is_theirs_from_then_on(server: ApiServer) -> None:
    install(server)
    settled(server)
    for name in DEFINITIONS:
        # What Helm wrote to its metadata goes too.
        server.kubectl("replace", "-f", "-", stdin=other(name))
    before = settled(server)
    helm(server, "upgrade", "--set", "recommender.replicas=3")
    helm(server, "rollback", "1")
    helm(server, "uninstall")
    assert defined(server) == before


def test_a_definition_that_was_deleted_comes_back_with_an_upgrade(server: ApiServer) -> None:
    install(server)
    settled(server)
    for name in (VPA[0], OWN[0]):
        server.calls.delete(f"{PATH}/{name}")
    wait_for(lambda: {VPA[0], OWN[0]} & set(defined(server)), 90, "they are gone", lambda left: not left)
    helm(server, "upgrade")
    assert set(settled(server)) == set(DEFINITIONS)


def test_an_older_definition_of_ours_is_told_and_made_new_by_a_person(server: ApiServer) -> None:
    server.kubectl("apply", "--server-side", "--field-manager=helm", "-f", "-", stdin=other(OWN[0]))
    said = install(server)
    file = f"definitions/{OWN[0].partition('.')[0]}.yaml"
    assert f"kubectl {' '.join(FORCED)} charts/elastipod/{file}" in said
    server.kubectl(*FORCED, str(CHART / file))
    after = defined(server)
    assert after[OWN[0]]["spec"]["versions"] == DEFINITIONS[OWN[0]]["spec"]["versions"]
    assert "is defined otherwise" not in helm(server, "upgrade", "--set", "recommender.replicas=3")
    helm(server, "rollback", "1")
    assert defined(server) == after


def test_whoever_may_not_read_definitions_installs_where_they_are(server: ApiServer) -> None:
    server.kubectl("apply", "--server-side", "-f", str(CHART / "definitions"))
    settled(server)
    before = len(server.audited())
    install(server, "--set", "scope=namespace,updater.enabled=false,admission.enabled=false")
    asked = [one for one in server.audited()[before:] if one.resource == "customresourcedefinitions"]
    assert not asked
