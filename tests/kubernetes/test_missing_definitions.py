"""Definitions of custom kinds that are missing at the start, or go while a component runs, and come back.

Processes with the rights of their service accounts on a real API server.
"""

import json
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest

from tests.charts.duties import DEFINITIONS as PATH
from tests.charts.duties import advise, give_work, growing_pod, leap, serve_metrics
from tests.charts.releases import Right, Running, installed, right_of
from tests.charts.rendering import COMPONENTS, needs_helm
from tests.charts.test_definitions import DEFINITIONS
from tests.kubernetes.apiserver import ApiServer
from tests.kubernetes.calls import Calls
from tests.kubernetes.processes import wait_for
from tests.kubernetes.test_missing import status
from tests.localcluster.served import MERGE

Json = dict[str, Any]
pytestmark = [needs_helm, pytest.mark.apiserver, pytest.mark.timeout(400)]

_SECONDS: Final = 90.0
AUTOSCALERS: Final = "verticalpodautoscalers.autoscaling.k8s.io"
POLICIES: Final = "elasticpolicies.elastipod.io"
LACKS: Final = {
    "recommender": {AUTOSCALERS},
    "updater": {AUTOSCALERS, POLICIES},
    "admission": {AUTOSCALERS},
    "actuator": {POLICIES, "elasticnodes.elastipod.io"},
}
CHECKPOINTS: Final = "verticalpodautoscalercheckpoints"
RESIZE: Final = ("patch", "", "pods/resize")
DUTIES: Final[dict[str, set[Right]]] = {
    "recommender": {
        ("patch", "autoscaling.k8s.io", "verticalpodautoscalers/status"),
        ("patch", "autoscaling.k8s.io", CHECKPOINTS),
    },
    "updater": {RESIZE},
    "admission": {("watch", "autoscaling.k8s.io", "verticalpodautoscalers")},
    "actuator": {RESIZE, ("patch", "elastipod.io", "elasticnodes/status")},
}
"""What shows that a component does all that it is for."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    """One of their own: nobody else's definitions go."""
    with ApiServer(tmp_path_factory.mktemp("definitions")) as found:
        serve_metrics(found.calls)
        yield found


@contextmanager
def definitions_gone(server: ApiServer) -> Iterator[None]:
    """A while without them, and without all objects of their kinds."""
    calls = server.calls

    def there() -> set[str]:
        return {name for name in DEFINITIONS if calls.call("GET", f"{PATH}/{name}")[0] != 404}

    for name in DEFINITIONS:
        calls.delete(f"{PATH}/{name}")
    wait_for(there, 120, "they are gone", lambda found: not found)
    try:
        yield
    finally:
        for one in DEFINITIONS.values():
            calls.post(PATH, one)
        wait_for(lambda: not_served(calls), 30, "they are served", lambda found: not found)


def not_served(calls: Calls) -> list[str]:
    specs = [one["spec"] for one in DEFINITIONS.values()]
    paths = [f"/apis/{one['group']}/{one['versions'][0]['name']}/{one['names']['plural']}" for one in specs]
    return [path for path in paths if calls.call("GET", path)[0] != 200]


def wait_done(server: ApiServer, running: Running, rights: set[Right], since: int, times: int = 1) -> None:
    """Until it has asked each of that so many times with success, since so many requests."""

    def missing() -> set[Right]:
        asked = [right_of(one) for one in server.audited()[since:] if one.user == running.user and one.code < 300]
        return {one for one in rights if asked.count(one) < times}

    wait_for(missing, _SECONDS, f"{running.account} does its duty", lambda found: not found)


def wait_told(running: Running, kinds: set[str], *, is_ready: bool) -> None:
    """Until it says that these are not served; whether it is ready then. It is alive in any case."""
    told = {f"{kind} is not served" for kind in kinds}
    wait_for(running.lacks, _SECONDS, f"{running.account} lacks {kinds}", lambda found: found >= told)
    right = (200, "ok\n") if is_ready else (503, "a definition is missing")
    said = f"{running.account} says {right}"
    wait_for(
        lambda: running.says("/readyz"), 30, said, lambda found: found[0] == right[0] and found[1].startswith(right[1])
    )
    assert running.says("/healthz")[0] == 200
    assert running.is_running()


def wait_whole(running: Running) -> None:
    wait_for(
        lambda: running.says("/readyz"), _SECONDS, f"{running.account} is ready", lambda found: found == (200, "ok\n")
    )


def give_more(server: ApiServer, running: Running, folder: Path) -> None:
    """Work in a namespace of its own, of each kind."""
    namespace = f"{running.work}-{uuid.uuid4().hex[:6]}"
    server.make_namespace(namespace)
    give_work(server.calls, namespace, running.namespace)
    leap(growing_pod(server.calls, namespace, running.namespace, folder / "cgroup"))


def state_size(server: ApiServer, running: Running) -> None:
    """On the Deployment: its running pods are to follow, whether or not there are autoscalers."""
    stated = json.dumps({"app": {"requests": {"memory": "640Mi"}}})
    path = f"/apis/apps/v1/namespaces/{running.work}/deployments/web"
    server.calls.patch(path, {"metadata": {"annotations": {"elastipod.io/resources": stated}}}, MERGE)


@pytest.mark.parametrize("component", COMPONENTS)
def test_without_definitions_a_component_says_so_goes_on_with_the_rest_and_does_all_once_they_are_there(
    server: ApiServer, tmp_path: Path, component: str
) -> None:
    is_asked = component == "admission"
    with installed(server, tmp_path, component, {}) as running:
        with definitions_gone(server):
            since = len(server.audited())
            running.start()
            wait_told(running, LACKS[component], is_ready=is_asked)
            state_size(server, running)
            wait_done(server, running, DUTIES[component] & {RESIZE}, since)
            if component in ("recommender", "updater"):
                told = wait_for(lambda: status(server, running.address()), 30, "status tells of it")
                assert set(told.split("; ")) >= {f"{kind} is not served" for kind in LACKS[component]}
            since = len(server.audited())
        wait_whole(running)
        give_more(server, running, tmp_path)
        wait_done(server, running, DUTIES[component], since)
        with definitions_gone(server):
            wait_told(running, LACKS[component], is_ready=is_asked)
            since = len(server.audited())
        wait_whole(running)
        give_more(server, running, tmp_path)
        wait_done(server, running, DUTIES[component], since)
        assert running.is_running()


def test_history_that_a_backup_brings_back_after_the_definitions_were_deleted_is_kept(
    server: ApiServer, tmp_path: Path
) -> None:
    calls = server.calls
    looks = {("list", "autoscaling.k8s.io", CHECKPOINTS)}
    with installed(server, tmp_path, "recommender", {}) as running:
        saved = f"/apis/autoscaling.k8s.io/v1/namespaces/{running.work}/{CHECKPOINTS}"

        def names() -> set[str]:
            return {one["metadata"]["name"] for one in calls.get(saved)["items"]}

        running.start()
        wait_for(names, _SECONDS, "its history is saved, and nobody's is gone", lambda found: found == {"web-app"})
        [backup] = calls.get(saved)["items"]
        with definitions_gone(server):
            wait_told(running, LACKS["recommender"], is_ready=False)
        wait_whole(running)
        annotations = backup["metadata"]["annotations"]
        backup["metadata"] = {"name": "web-app", "namespace": running.work, "annotations": annotations}
        since = len(server.audited())
        calls.post(saved, backup)
        wait_done(server, running, looks, since, times=3)
        since = len(server.audited())
        advise(calls, running.work)
        wait_done(server, running, looks, since, times=3)
        assert names() == {"web-app"}
        deleted = [one for one in server.audited(running.user) if (one.verb, one.name) == ("delete", "web-app")]
        assert not deleted
