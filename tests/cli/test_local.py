"""`elastipod local`: one command up, one command down, and nothing left whatever happens between."""

import asyncio
import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from actuator.nodehands import NodeHands
from elastipod.cli.enforcement import parent_of
from elastipod.cli.local import app
from elastipod.clock import SystemClock
from elastipod.kube.access import load_access
from elastipod.kube.http import HttpConnection
from elastipod.kube.podrows import decode_pod
from elastipod.kube.resources import PODS
from elastipod.pods import Pod
from tests.build import container_json

COMMAND = [sys.executable, "-c", "from elastipod.cli.local import app; app()"]


class Local:
    """One cluster's name and folder, and the verbs."""

    def __init__(self, state: Path) -> None:
        self.name = f"t{uuid.uuid4().hex[:8]}"
        self.environment = {**os.environ, "XDG_STATE_HOME": str(state)}
        self.folder = state / "elastipod" / self.name

    def call(self, verb: str, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*COMMAND, verb, "--name", self.name, *words],
            env=self.environment, capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip

    def start(self, *words: str) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [*COMMAND, "up", "--name", self.name, "--without-parts", *words],
            env=self.environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip

    def daemon(self) -> int:
        return int((self.folder / "lock").read_text())

    def processes(self) -> list[str]:
        """Command lines that name this cluster."""
        found = []
        for path in Path("/proc").glob("[0-9]*/cmdline"):
            with contextlib.suppress(OSError):
                line = path.read_bytes().replace(b"\0", b" ").decode(errors="replace")
                if self.name in line and int(path.parent.name) != os.getpid():
                    found.append(line)
        return found

    def assert_nothing_left(self) -> None:
        assert self.processes() == []
        assert not self.folder.exists()
        assert not list(Path("/sys/fs/cgroup").glob(f"*/{parent_of(self.name)}"))

    async def run_pod(self, name: str, command: list[str]) -> Pod:
        """A pod, once it runs."""
        body = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "namespace": "default"},
            "spec": {"containers": [container_json(memory="16Mi", command=command)]},
        }
        async with self.connection() as connection:
            await connection.create(PODS, "default", json.dumps(body).encode())
        return await self.until(name, is_ready=True)

    async def until(self, name: str, **wanted: Any) -> Pod:
        async with self.connection() as connection, asyncio.timeout(15):
            while True:
                pod = decode_pod(await connection.get(PODS, "default", name))
                if all(getattr(pod, key) == value for key, value in wanted.items()):
                    return pod
                await SystemClock().sleep(0.05)

    @contextlib.asynccontextmanager
    async def connection(self) -> Any:
        access = load_access(str(self.folder / "kubeconfig"), None, self.environment)
        connection = HttpConnection(access, SystemClock())
        try:
            yield connection
        finally:
            await connection.close()


@pytest.fixture
def local(tmp_path: Path) -> Iterator[Local]:
    found = Local(tmp_path)
    yield found
    found.call("down")
    found.assert_nothing_left()


def test_up_is_ready_and_a_second_up_finds_it(local: Local) -> None:
    first = local.call("up", "--without-parts", "--simulated", "-o", "json")
    assert first.returncode == 0, first.stderr
    facts = json.loads(first.stdout)
    assert facts["enforcement"] == "simulated"
    assert facts["why"] == "asked for with --simulated"
    assert local.folder.stat().st_mode & 0o777 == 0o700
    assert Path(facts["kubeconfig"]).stat().st_mode & 0o777 == 0o600
    second = local.call("up", "--without-parts", "--simulated")
    assert second.returncode == 0
    assert "runs already" in second.stdout
    assert json.loads(local.call("status", "-o", "json").stdout)["state"] == "running"
    assert local.call("down").returncode == 0
    assert local.call("status").returncode == 1


def test_the_token_stands_in_the_kubeconfig_only(local: Local) -> None:
    up = local.call("up", "--simulated")
    assert up.returncode == 0, up.stderr
    config = yaml.safe_load((local.folder / "kubeconfig").read_text())
    token = config["users"][0]["user"]["token"].encode()
    # What `ps` shows to everyone, and what it shows to the same user.
    assert len(local.processes()) >= 1
    for name in ("cmdline", "environ"):
        for path in Path("/proc").glob(f"[0-9]*/{name}"):
            with contextlib.suppress(OSError):
                assert token not in path.read_bytes()
    holding = {path.name for path in local.folder.rglob("*") if path.is_file() and token in path.read_bytes()}
    assert holding == {"kubeconfig"}
    assert token.decode() not in up.stdout + up.stderr


@pytest.mark.parametrize(
    "words", [["--cpu", "many"], ["--memory", "0"], ["--memory", "8m"], ["--nodes", "0"], ["--wait", "soon"]]
)
def test_what_can_not_be_is_refused_by_its_name(tmp_path: Path, words: list[str]) -> None:
    answer = CliRunner().invoke(app, ["up", "--simulated", *words], env={"XDG_STATE_HOME": str(tmp_path)})
    assert answer.exit_code == 2
    assert words[0] in answer.output
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("after_seconds", [0.5, 0.8])
@pytest.mark.parametrize("words", [[], ["--foreground"]])
async def test_an_interrupt_at_any_moment_leaves_nothing(local: Local, after_seconds: float, words: list[str]) -> None:
    process = local.start("--simulated", *words)
    await SystemClock().sleep(after_seconds)
    process.send_signal(signal.SIGINT)
    process.wait(30)
    if not words and process.returncode == 0:
        # It was up before the signal came.
        assert local.call("down").returncode == 0
    async with asyncio.timeout(10):
        while local.processes():
            await SystemClock().sleep(0.05)
    assert local.processes() == []


@pytest.mark.cgroups
async def test_a_killed_cluster_comes_back_with_its_containers(local: Local) -> None:
    assert local.call("up", "--without-parts").returncode == 0
    before = await local.run_pod("web", ["sleep", "100"])
    os.kill(local.daemon(), signal.SIGKILL)
    assert local.call("up", "--without-parts").returncode == 0
    await SystemClock().sleep(0.5)
    after = await local.until("web", is_ready=True)
    assert after.containers[0].container_id == before.containers[0].container_id
    assert after.containers[0].restart_count == 0


@pytest.mark.cgroups
async def test_down_cleans_up_after_a_cluster_that_is_dead(local: Local) -> None:
    assert local.call("up", "--without-parts").returncode == 0
    await local.run_pod("web", ["sleep", "100"])
    hands = NodeHands(parent=parent_of(local.name))
    pids = hands.processes("kubepods")
    assert len(pids) == 1
    os.kill(local.daemon(), signal.SIGKILL)
    answer = local.call("down")
    assert answer.returncode == 0, answer.stderr
    local.assert_nothing_left()
    assert not Path(f"/proc/{pids[0]}").exists()


@pytest.mark.parametrize("words", [[], ["--foreground"]])
def test_a_port_that_is_taken_is_told_in_one_line(local: Local, words: list[str]) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        answer = local.call("up", "--without-parts", "--simulated", "--port", port, *words)
    assert answer.returncode == 1
    assert answer.stderr.startswith("error: ")
    assert answer.stderr.count("\n") == 1
    assert "address already in use" in answer.stderr
    local.assert_nothing_left()


@pytest.mark.parametrize(
    ("setting", "told"),
    [
        ({"ELASTIPOD_PRICES_FILE": "/no/such.csv"}, "/no/such.csv can not be read"),
        ({"ELASTIPOD_TARGET_PERCENTILE": "90"}, "target_percentile is a fraction"),
    ],
)
def test_what_a_part_would_refuse_at_its_start_is_refused_before_there_is_a_cluster(
    local: Local, setting: dict[str, str], told: str
) -> None:
    local.environment |= setting
    answer = local.call("up", "--simulated")
    assert answer.returncode == 1
    assert told in answer.stderr
    assert answer.stderr.count("\n") == 1
    local.assert_nothing_left()
