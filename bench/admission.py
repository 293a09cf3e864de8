"""The admission webhook: 200 new pods a second on one core, among 5,000 workloads, by TLS; and 1,000 pods at once.

The floor is a bare TLS server on the same core that reads the same requests and answers a constant, driven by the same
client. Exit 1 where a promise is missed.
"""

import argparse
import asyncio
import json
import os
import re
import ssl
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from statistics import median
from typing import Any

from bench.figures import Figures
from bench.process import cpu_seconds, rss_bytes
from elastipod.api import UpdateMode
from elastipod.owners import Owned
from elastipod.pods import OwnerReference, Workload
from elastipod.quantities import Resources
from elastipod.telemetry import configure_logging
from tests import build
from tests.updater.admission.world import KUBE_PAIRS, World, new_pod, review_json
from updater.sizes import Advice, ContainerAdvice

GOAL_P99_SECONDS = 0.050
GOAL_CORE_SECONDS = 0.002
PATIENCE_SECONDS = 2.0
GOAL_AT_ONCE_SECONDS = 2.1
GOAL_GROWTH_MIB = 20.0
MI = 1024**2
NAMES = ("app", "proxy", "logs")


def review(number: int) -> bytes:
    """A pod of three containers with what pods usually carry: 8 KB."""
    containers = [
        build.container_json(
            name,
            cpu="100m",
            memory="128Mi",
            cpu_limit="200m",
            env=[{"name": f"SETTING_{one}", "value": "a value of some length"} for one in range(20)],
            volumeMounts=[{"name": "token", "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount"}],
        )
        for name in NAMES
    ]
    owner = build.owner_json("ReplicaSet", f"w{number}-1", f"rs-{number}")
    labels = {f"label-{one}": f"value-{one}" for one in range(10)}
    return json.dumps(review_json(new_pod(owner, containers=containers, labels=labels), f"ns{number % 50}")).encode()


def request(number: int) -> bytes:
    body = review(number)
    head = (
        f"POST /mutate HTTP/1.1\r\nHost: webhook\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n"
    )
    return f"{head}User-Agent: kube-apiserver-admission\r\nAccept: application/json, */*\r\n\r\n".encode() + body


def fill(world: World, workloads: int) -> None:
    """Deployments with an autoscaler each."""
    fleet = world.admission._fleet
    target = Resources(250, 200 * MI)
    advice = Advice(
        "vpa", UpdateMode.RECREATE, "elastipod", {name: ContainerAdvice(target, target, target) for name in NAMES}
    )
    for number in range(workloads):
        namespace, name = f"ns{number % 50}", f"w{number}"
        deployment = OwnerReference("Deployment", name, f"d-{number}")
        fleet.put_owned(None, Owned("Deployment", namespace, name, deployment.uid))
        fleet.put_owned(None, Owned("ReplicaSet", namespace, f"{name}-1", f"rs-{number}", owner=deployment))
        fleet.put_advice(f"{namespace}/{name}", Workload(namespace, "Deployment", name), advice)


async def serve(workloads: int) -> None:
    """The webhook; prints its port."""
    with tempfile.TemporaryDirectory() as folder:
        async with World(Path(folder)) as world:
            fill(world, workloads)
            print(world.admission.webhook.port, flush=True)
            await asyncio.Event().wait()


async def echo() -> None:
    """The floor; prints its port."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(KUBE_PAIRS / "server.crt", KUBE_PAIRS / "server.key")

    class Echo(asyncio.Protocol):
        def connection_made(self, transport: Any) -> None:
            self.transport = transport
            self.lacking = 0

        def data_received(self, data: bytes) -> None:
            if self.lacking == 0:
                head, _, data = data.partition(b"\r\n\r\n")
                found = re.search(rb"Content-Length: (\d+)", head)
                self.lacking = int(found[1]) if found else 0
            self.lacking -= len(data)
            if self.lacking == 0:
                self.transport.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")

    server = await asyncio.get_running_loop().create_server(Echo, "127.0.0.1", 0, ssl=context, backlog=1024)
    print(server.sockets[0].getsockname()[1], flush=True)
    await asyncio.Event().wait()


class Client:
    """Posts, by connections that are kept."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._tls = ssl.create_default_context(cafile=str(KUBE_PAIRS / "server.crt"))
        self._kept: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []

    async def post(self, asked: bytes) -> bytes:
        while self._kept:
            # One that was closed meanwhile costs a new connection and not the request, as with the API server's client.
            with suppress(OSError, asyncio.IncompleteReadError):
                return await self._exchange(self._kept.pop(), asked)
        return await self._exchange(await self._open(), asked)

    async def _exchange(self, pair: tuple[asyncio.StreamReader, asyncio.StreamWriter], asked: bytes) -> bytes:
        reader, writer = pair
        writer.write(asked)
        head = await reader.readuntil(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200"), head
        found = re.search(rb"content-length: (\d+)", head, re.IGNORECASE)
        assert found is not None
        body = await reader.readexactly(int(found[1]))
        self._kept.append(pair)
        return body

    async def _open(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection("127.0.0.1", self._port, ssl=self._tls, server_hostname="localhost")

    def close(self) -> None:
        for _, writer in self._kept:
            writer.close()


async def took(client: Client, asked: bytes, due: float) -> tuple[float, bool]:
    """How long a pod waited for its answer, and whether it got one: an API server has so much patience and no more."""
    answered = False
    with suppress(OSError, asyncio.IncompleteReadError, TimeoutError):
        async with asyncio.timeout(PATIENCE_SECONDS):
            await client.post(asked)
            answered = True
    return time.perf_counter() - due, answered


async def at_rate(port: int, asked: list[bytes], per_second: float) -> tuple[list[float], int]:
    """How long each waited, begun at its time whether or not those before have ended; how many were answered."""
    client, began = Client(port), time.perf_counter()
    async with asyncio.TaskGroup() as group:
        tasks = []
        for number, one in enumerate(asked):
            due = began + number / per_second
            await asyncio.sleep(due - time.perf_counter())
            tasks.append(group.create_task(took(client, one, due)))
    client.close()
    return sorted(task.result()[0] for task in tasks), sum(task.result()[1] for task in tasks)


def started(what: str, core: int, *more: str) -> "tuple[subprocess.Popen[str], int]":
    """A server in a process of its own, on one core."""
    process = subprocess.Popen(
        [sys.executable, "-m", "bench.admission", "--only", what, *more], stdout=subprocess.PIPE, text=True
    )
    os.sched_setaffinity(process.pid, {core})
    assert process.stdout is not None
    return process, int(process.stdout.readline())


def p99(spans: list[float]) -> float:
    return spans[int(0.99 * (len(spans) - 1))]


def measure(figures: Figures, seconds: float, workloads: int) -> None:
    core = min(os.sched_getaffinity(0))
    asked = [request(number * 97 % workloads) for number in range(int(200 * seconds))]
    floor, port = started("echo", core)
    floors, _ = asyncio.run(at_rate(port, asked, 200.0))
    floor_used = cpu_seconds(floor.pid)
    floors_at_once, floor_answered = asyncio.run(at_rate(port, asked[:1000], float("inf")))
    floor.kill()
    floor.wait()
    webhook, port = started("serve", core, "--workloads", str(workloads))
    answer = json.loads(asyncio.run(Client(port).post(asked[0])))
    assert "patch" in answer["response"], answer
    asyncio.run(at_rate(port, asked[:200], 200.0))
    before, used = rss_bytes(webhook.pid), cpu_seconds(webhook.pid)
    spans, answered = asyncio.run(at_rate(port, asked, 200.0))
    used = cpu_seconds(webhook.pid) - used
    floor_is = "a bare TLS server's"
    what = f"200 new pods a second for {seconds:g} s, {answered} of {len(spans)} sized"
    figures.show(f"{what}: p99", p99(spans), "s", GOAL_P99_SECONDS, floor=p99(floors), of=floor_is)
    figures.show(f"{what}: median", median(spans), "s", GOAL_P99_SECONDS, floor=median(floors), of=floor_is)
    floor_each = floor_used / len(asked)
    figures.show("of a core for each", used / len(asked), "s", GOAL_CORE_SECONDS, floor=floor_each, of=floor_is)
    spans, answered = asyncio.run(at_rate(port, asked[:1000], float("inf")))
    what = f"{len(spans)} at once on connections of their own, {answered} sized (of the floor's {floor_answered}): p99"
    figures.show(what, p99(spans), "s", GOAL_AT_ONCE_SECONDS, floor=p99(floors_at_once), of=floor_is)
    figures.show("memory added by all this", (rss_bytes(webhook.pid) - before) / MI, "MiB", GOAL_GROWTH_MIB)
    webhook.kill()
    webhook.wait()


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--workloads", type=int, default=5_000)
    parser.add_argument("--only", choices=("serve", "echo"), help="be that server and nothing else")
    arguments = parser.parse_args()
    configure_logging("error")
    if arguments.only is not None:
        asyncio.run(echo() if arguments.only == "echo" else serve(arguments.workloads))
        return 0
    figures = Figures()
    measure(figures, arguments.seconds, arguments.workloads)
    return figures.exit_code


if __name__ == "__main__":
    sys.exit(main())
