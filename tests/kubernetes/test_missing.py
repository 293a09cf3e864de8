"""What is missing in a cluster, a right or a kind, is told by name; what can go on goes on; and all is well once it is
back. Processes with the rights of their service accounts on a real API server.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from tests.charts.duties import DEFINITIONS, METRICS, give_work, growing_pod, leap, serve_metrics, take_work
from tests.charts.releases import Right, Running, installed
from tests.charts.rendering import COMPONENTS, needs_helm
from tests.kubernetes.apiserver import ApiServer, Audited
from tests.kubernetes.processes import wait_for

Json = dict[str, Any]
pytestmark = [needs_helm, pytest.mark.apiserver, pytest.mark.timeout(300)]

_READS: Final = ("list", "watch")
_SECONDS: Final = 90.0
DIRECT: Final[Json] = {"actuator": {"settings": {"direct": True}}}

LATER: Final[dict[str, set[Right]]] = {"admission": {("list", "", "nodes")}}
"""What is asked for only once something else was read."""


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


def status(server: ApiServer, address: str) -> str:
    """What `elastipod status` tells that the part at that address lacks; nothing of one that it does not know yet."""
    done = subprocess.run(
        [sys.executable, "-m", "elastipod.cli", "status", "--output", "json"],
        check=True,
        capture_output=True,
        timeout=_SECONDS,
        env=os.environ | {"KUBECONFIG": str(server.kubeconfig)},
    )
    return "".join(one["lacks"] for one in json.loads(done.stdout)["parts"] if one["address"] == address)


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
        later = lists & LATER.get(component, set())
        running.withhold(*lists)
        running.start()
        wait_told(running, named(*lists - later))
        if later:
            unseen = {("watch", *one[1:]) for one in later}
            running.withhold(*later, *watches)
            wait_told(running, named(*later, *watches - unseen))
        if component != "admission":
            told = wait_for(lambda: status(measured, running.address()), 30, "status tells of it")
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
        ("create", "", "events"),
    ],
    "updater": [
        ("list", "metrics.k8s.io", "pods"),
        ("get", "metrics.k8s.io", "pods"),
        ("patch", "", "pods/resize"),
        ("create", "", "events"),
    ],
    "actuator": [("patch", "", "pods/resize"), ("create", "", "events"), ("get", "", "nodes")],
}


def give_more(server: ApiServer, running: Running, namespace: str, folder: Path) -> None:
    """More to do, of each kind."""
    server.make_namespace(namespace)
    give_work(server.calls, namespace, running.namespace)
    leap(growing_pod(server.calls, namespace, running.namespace, folder / "cgroup"))


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
            work, more = f"{running.work}-{number}", f"{running.work}-{number}-more"
            give_more(measured, running, work, tmp_path)
            wait_told(running, named(right))
            if right[2] != "pods" or component == "recommender":
                # Of what is not measured the updater lowers nothing.
                wait_for_others(measured, running, work)
            running.withhold()
            give_more(measured, running, more, tmp_path)
            wait_told(running, set())
            take_work(measured.calls, work)
            take_work(measured.calls, more)
