"""What is missing in a cluster, a right or a kind, is told by name; what can go on goes on; and all is well once it is
back. Processes with the rights of their service accounts on a real API server.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from tests.charts.duties import DEFINITIONS, METRICS, advise, give_work, growing_pod, leap, serve_metrics, take_work
from tests.charts.pages import CHART
from tests.charts.releases import Right, Running, installed, right_of
from tests.charts.rendering import COMPONENTS, needs_helm
from tests.kubernetes.apiserver import ApiServer, Audited
from tests.kubernetes.calls import Calls
from tests.kubernetes.processes import wait_for

Json = dict[str, Any]
pytestmark = [needs_helm, pytest.mark.apiserver, pytest.mark.timeout(300)]

_READS: Final = ("list", "watch")
_SECONDS: Final = 90.0
DIRECT: Final[Json] = {"actuator": {"settings": {"direct": True}}}


@pytest.fixture(scope="module")
def measured(api_server: ApiServer) -> Iterator[ApiServer]:
    serve_metrics(api_server.calls)
    yield api_server
    api_server.calls.delete(f"{DEFINITIONS}/{METRICS}")


def named(*rights: Right) -> set[str]:
    """How a person is told of them."""
    found = set()
    for verb, group, kind in rights:
        plural, slash, subresource = kind.partition("/")
        found.add(f"may not {verb} {plural}{'.' if group else ''}{group}{slash}{subresource}")
    return found


def status(server: ApiServer) -> dict[str, str]:
    """What `elastipod status` tells of the parts that lack something."""
    done = subprocess.run(
        [sys.executable, "-m", "elastipod.cli", "status", "--output", "json"],
        check=True,
        capture_output=True,
        timeout=_SECONDS,
        env=os.environ | {"KUBECONFIG": str(server.kubeconfig)},
    )
    return {one["part"]: one["lacks"] for one in json.loads(done.stdout)["parts"] if one["lacks"]}


def wait_told(running: Running, wanted: set[str]) -> None:
    """Until it says that it lacks just this."""
    wait_for(running.lacks, _SECONDS, f"{running.account} lacks {wanted}", lambda found: found == wanted)
    assert running.is_running()


@pytest.mark.parametrize("component", COMPONENTS)
def test_each_read_that_is_missing_at_the_start_is_told_and_taken_up_once_it_is_back(
    measured: ApiServer, tmp_path: Path, component: str
) -> None:
    with installed(measured, tmp_path, component, DIRECT) as running:
        reads = {one for one in running.granted() if one[0] in _READS and ("watch", *one[1:]) in running.granted()}
        lists = {one for one in reads if one[0] == "list"}
        watches = reads - lists
        running.withhold(*lists)
        running.start()
        wait_told(running, named(*lists))
        if component != "admission":
            told = wait_for(lambda: status(measured).get(component, ""), 30, "status tells of it")
            assert set(told.split("; ")) == named(*lists)
        running.withhold(*watches)
        wait_told(running, named(*watches))
        running.withhold()
        unused = running.granted()
        wait_for(lambda: unused - running.used(), _SECONDS, "every right is used", lambda found: not found)
        assert running.is_running()


WRITES: Final = {
    "recommender": [
        ("list", "metrics.k8s.io", "pods"),
        ("patch", "autoscaling.k8s.io", "verticalpodautoscalers/status"),
        ("list", "autoscaling.k8s.io", "verticalpodautoscalercheckpoints"),
        ("create", "autoscaling.k8s.io", "verticalpodautoscalercheckpoints"),
        ("patch", "autoscaling.k8s.io", "verticalpodautoscalercheckpoints"),
        ("delete", "autoscaling.k8s.io", "verticalpodautoscalercheckpoints"),
    ],
    "updater": [
        ("list", "metrics.k8s.io", "pods"),
        ("get", "metrics.k8s.io", "pods"),
        ("patch", "", "pods/resize"),
        ("create", "", "events"),
    ],
    "actuator": [("patch", "", "pods/resize"), ("create", "", "events"), ("get", "", "nodes")],
}


def wait_for_others(server: ApiServer, running: Running, work: str) -> None:
    """Until it has written something in that namespace."""

    def written() -> list[Audited]:
        asked = server.audited(running.user)
        return [one for one in asked if one.namespace == work and one.code < 300 and one.verb not in _READS]

    wait_for(written, _SECONDS, f"{running.account} goes on")


@pytest.mark.parametrize("component", WRITES)
def test_each_other_right_is_told_when_it_is_withdrawn_while_the_rest_goes_on_and_is_used_again_once_it_is_back(
    measured: ApiServer, tmp_path: Path, component: str
) -> None:
    with installed(measured, tmp_path, component, DIRECT) as running:
        running.start()
        wait_for(lambda: set(WRITES[component]) - running.used(), _SECONDS, "it is at work", lambda left: not left)
        for number, right in enumerate(WRITES[component]):
            running.withhold(right)
            work = f"{running.work}-{number}"
            measured.make_namespace(work)
            give_work(measured.calls, work, running.namespace)
            leap(growing_pod(measured.calls, work, running.namespace, tmp_path / "cgroup"))
            wait_told(running, named(right))
            if right[2] != "pods" or component == "recommender":
                # Of what is not measured the updater lowers nothing.
                wait_for_others(measured, running, work)
            running.withhold()
            wait_told(running, set())
            take_work(measured.calls, work)


CUSTOM: Final = {
    "recommender": {
        "verticalpodautoscalers.autoscaling.k8s.io is not served",
        "verticalpodautoscalercheckpoints.autoscaling.k8s.io is not served",
    },
    "updater": {
        "verticalpodautoscalers.autoscaling.k8s.io is not served",
        "elasticpolicies.elastipod.io is not served",
    },
    "actuator": {"elasticpolicies.elastipod.io is not served", "elasticnodes.elastipod.io/status is not served"},
}


@contextmanager
def definitions_gone(calls: Calls) -> Iterator[None]:
    """A while without our custom resources."""
    found = [yaml.safe_load(path.read_text("utf-8")) for path in sorted((CHART / "crds").glob("*.yaml"))]
    names = [one["metadata"]["name"] for one in found]

    def codes() -> set[int]:
        return {calls.call("GET", f"{DEFINITIONS}/{name}")[0] for name in names}

    for name in names:
        calls.delete(f"{DEFINITIONS}/{name}")
    wait_for(codes, 30, "they are gone", lambda found: found == {404})
    try:
        yield
    finally:
        for one in found:
            calls.post(DEFINITIONS, one)


SHOWS_WORK: Final = {
    "recommender": ("patch", "autoscaling.k8s.io", "verticalpodautoscalercheckpoints"),
    "updater": ("patch", "", "pods/resize"),
    "actuator": ("patch", "elastipod.io", "elasticnodes/status"),
}


@pytest.mark.parametrize("component", CUSTOM)
def test_without_our_definitions_a_component_says_so_and_works_once_they_are_there(
    measured: ApiServer, tmp_path: Path, component: str
) -> None:
    calls = measured.calls
    with installed(measured, tmp_path, component, {}) as running:
        with definitions_gone(calls):
            running.start()
            wait_for(running.lacks, _SECONDS, "it tells", lambda found: found >= CUSTOM[component])
        wait_told(running, set())
        advise(calls, running.work)
        wait_done(measured, running, SHOWS_WORK[component])


def test_history_that_a_backup_brings_back_after_the_definitions_were_deleted_is_kept(
    measured: ApiServer, tmp_path: Path
) -> None:
    calls = measured.calls
    with installed(measured, tmp_path, "recommender", {}) as running:
        saved = f"/apis/autoscaling.k8s.io/v1/namespaces/{running.work}/verticalpodautoscalercheckpoints"

        def names() -> set[str]:
            return {one["metadata"]["name"] for one in calls.get(saved)["items"]}

        running.start()
        wait_for(names, _SECONDS, "its history is saved, and nobody's is gone", lambda found: found == {"web-app"})
        [backup] = calls.get(saved)["items"]
        with definitions_gone(calls):
            wait_for(running.lacks, _SECONDS, "it tells", lambda found: bool(found & CUSTOM["recommender"]))
        wait_told(running, set())
        backup["metadata"] = {
            "name": "web-app",
            "namespace": running.work,
            "annotations": backup["metadata"]["annotations"],
        }
        calls.post(saved, backup)
        looks = ("list", "autoscaling.k8s.io", "verticalpodautoscalercheckpoints")
        wait_done(measured, running, looks, times=3)
        advise(calls, running.work)
        wait_done(measured, running, looks, times=3)
        assert names() == {"web-app"}
        deleted = [one for one in measured.audited(running.user) if (one.verb, one.name) == ("delete", "web-app")]
        assert not deleted


def wait_done(server: ApiServer, running: Running, right: Right, times: int = 1) -> None:
    """Until it has done that so many times more."""
    before = len(server.audited(running.user))

    def done() -> int:
        return sum(right_of(one) == right and one.code < 300 for one in server.audited(running.user)[before:])

    wait_for(done, _SECONDS, f"{running.account} uses {right}", lambda found: found >= times)
