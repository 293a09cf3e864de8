"""The ground that tests on a real API server stand on."""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from elastipod.kube.resources import NAMESPACES, PODS
from tests.build import pod_json
from tests.kubernetes.apiserver import ApiServer, CommandFailed
from tests.kubernetes.fakenodes import add_node, run_pod, tell
from tests.kubernetes.processes import processes_that_name, wait_for
from tests.kubernetes.statefolder import PREFIX

pytestmark = pytest.mark.apiserver

PODS_PATH = "/api/v1/namespaces/default/pods"


def test_a_pod_on_a_fake_node_is_resized_and_tells_its_new_size(api_server: ApiServer) -> None:
    add_node(api_server.calls, "resizing", cpu="2")
    run_pod(api_server.calls, pod_json("resized", cpu="100m"), "resizing")
    patch = {"spec": {"containers": [{"name": "app", "resources": {"requests": {"cpu": "300m"}}}]}}
    resized = api_server.calls.patch(f"{PODS_PATH}/resized/resize", patch)
    assert resized["spec"]["containers"][0]["resources"]["requests"]["cpu"] == "300m"
    told = tell(api_server.calls, resized)
    assert told["status"]["containerStatuses"][0]["resources"]["requests"]["cpu"] == "300m"


def test_more_than_the_node_has_is_refused(api_server: ApiServer) -> None:
    add_node(api_server.calls, "small", cpu="2")
    run_pod(api_server.calls, pod_json("greedy", cpu="100m"), "small")
    patch = {"spec": {"containers": [{"name": "app", "resources": {"requests": {"cpu": "2100m"}}}]}}
    refused = api_server.calls.refused(
        "PATCH", f"{PODS_PATH}/greedy/resize", patch, "application/strategic-merge-patch+json"
    )
    assert "allocatable" in refused["message"]


def test_our_own_connection_reads_what_kubectl_wrote(api_server: ApiServer) -> None:
    api_server.kubectl("create", "namespace", "seen")

    async def names() -> list[str]:
        connection = api_server.connection()
        listed = json.loads(await connection.list(NAMESPACES))
        await connection.close()
        return [one["metadata"]["name"] for one in listed["items"]]

    assert "seen" in asyncio.run(names())


def test_what_a_service_account_asks_is_judged_and_audited(api_server: ApiServer) -> None:
    user = "system:serviceaccount:default:default"
    nobody = api_server.calls.impersonating(user)
    assert nobody.refused("GET", PODS.path("default"))["reason"] == "Forbidden"
    nobody.close()
    [one] = wait_for(lambda: api_server.audited(user), 5, "the request is in the audit log")
    assert (one.verb, one.resource, one.namespace, one.code) == ("list", "pods", "default", 403)


def test_what_kubectl_refuses_is_told_in_its_words(api_server: ApiServer) -> None:
    with pytest.raises(CommandFailed, match="NotFound"):
        api_server.kubectl("get", "pod", "nowhere")


def test_two_at_once_do_not_see_each_other(api_server: ApiServer, tmp_path: Path) -> None:
    with ApiServer(tmp_path) as other:
        other.make_namespace("only-here")
        assert api_server.calls.call("GET", "/api/v1/namespaces/only-here")[0] == 404


@contextmanager
def up(place: Path) -> Iterator[subprocess.Popen[str]]:
    """What a person starts, once it says where it is."""
    with subprocess.Popen(
        [sys.executable, "-m", "tests.kubernetes", "up", "--logs", str(place / "logs")],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=os.environ | {"TMPDIR": str(place)},
        text=True,
    ) as owner:
        try:
            assert owner.stdout is not None
            assert owner.stdout.readline().startswith(f"export KUBECONFIG={place}/")
            yield owner
        finally:
            owner.kill()


def test_nothing_is_left_of_one_whose_owner_was_killed(place: Path) -> None:
    with up(place) as owner:
        assert processes_that_name(place / PREFIX)
        owner.kill()
    wait_for(lambda: processes_that_name(place / PREFIX), 30, "all its processes end", lambda found: not found)


def test_down_ends_what_up_started_and_leaves_its_logs_alone(place: Path) -> None:
    with up(place) as owner:
        down = [sys.executable, "-m", "tests.kubernetes", "down"]
        subprocess.run(down, check=True, stdout=subprocess.DEVNULL, env=os.environ | {"TMPDIR": str(place)})
        assert owner.wait(60) == 0
    assert [path.name for path in place.iterdir()] == ["logs"]
    assert (place / "logs" / "kube-apiserver.log").stat().st_size > 0


def test_one_that_can_not_start_says_why_and_leaves_no_process(place: Path) -> None:
    broken = place / "assets" / "kube-apiserver"
    broken.parent.mkdir()
    broken.write_text("#!/bin/sh\necho the disk is on fire >&2; exit 3\n")
    broken.chmod(0o755)
    done = subprocess.run(
        [sys.executable, "-m", "tests.kubernetes", "up"],
        check=False,
        capture_output=True,
        text=True,
        env=os.environ | {"TMPDIR": str(place), "KUBEBUILDER_ASSETS": str(broken.parent)},
    )
    assert done.returncode == 1
    assert "kube-apiserver ended with 3" in done.stderr
    assert "the disk is on fire" in done.stderr
    assert not processes_that_name(place)
    assert not list(place.glob(f"{PREFIX}*"))
