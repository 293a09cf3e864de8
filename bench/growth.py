"""How the recommender grows with its cluster: from 1,000 containers to 300,000, printed as a table.

The whole recommender works against an API server that answers in process with a real one's bytes: pods, their owners,
autoscalers, checkpoints with two days of usage, and usage as metrics-server tells it. The network and the server's own
time are left out. A workload is three pods of two containers, and has an autoscaler.
Exit 1 where a promise is missed.
"""

import argparse
import asyncio
import json
import resource
import subprocess
import sys
import time
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import suppress
from typing import Any, Final, cast

import msgspec
import numpy as np

from bench.figures import Figures
from bench.past import checkpoints
from bench.usageserver import RandomUsage
from elastipod.clock import ManualClock, to_rfc3339
from elastipod.kube.connection import Connection
from elastipod.kube.resources import (
    AUTOSCALERS,
    CHECKPOINTS,
    DEPLOYMENTS,
    POD_METRICS,
    PODS,
    REPLICA_SETS,
    ResourceType,
)
from recommender.service import Recommender
from recommender.settings import RecommenderSettings
from tests import build

Json = dict[str, Any]

SIZES: Final = (1_000, 10_000, 100_000, 300_000)
GOAL_SECONDS, GOAL_BYTES, GOAL_START_SECONDS, GOAL_WRITES = 3.0, 2 * 1024**3, 30.0, 0.05
GOAL_ACCOUNTS_SECONDS: Final = 600.0
"""How old accounts of the largest cluster may become, as they take a hundredth of the time."""
START: Final = 20_000
"""Containers whose first recommendations are promised in seconds."""
GOAL_GROWTH: Final = 1.25
"""How many times what it does in the smallest cluster a container may cost in the largest one."""
_CONTAINERS: Final = ("app", "proxy")
_WORKLOADS_A_NAMESPACE: Final = 50
_PAGE: Final = 500
_SELDOM: Final = 1e6
_KINDS_OF_USAGE: Final = 64
_NUMBER: Final = b"@@@@@@"
_POD: Final = b"%%"
_SPACE: Final = b"####"
_NAME: Final = "w" + _NUMBER.decode()
_NAMESPACE: Final = "ns" + _SPACE.decode()
_POD_NAME: Final = f"{_NAME}-1-{_POD.decode()}"


class LargeCluster:
    """Answers as an API server with so many pods; takes what is written and keeps nothing of it."""

    def __init__(self, workloads: int, pods_each: int, at: float) -> None:
        self._workloads, self._pods_each = workloads, pods_each
        self.writes: Counter[str] = Counter()
        self.seconds = 0.0
        """CPU time that making answers has taken."""
        self._usage = RandomUsage(_KINDS_OF_USAGE * pods_each * len(_CONTAINERS), seed=3, steady=True)
        self._saved = _saved(self._usage, pods_each, at)
        self._measured = b""
        meta = {"name": _NAME, "namespace": _NAMESPACE, "uid": f"11111111-2222-3333-4444-00{_NAME}"}
        owner = build.owner_json("Deployment", _NAME, meta["uid"])
        of_set = build.owner_json("ReplicaSet", f"{_NAME}-1", f"{meta['uid']}-1")
        self._objects = {
            PODS.plural: _pod(of_set),
            DEPLOYMENTS.plural: _bytes({"metadata": meta}),
            REPLICA_SETS.plural: _bytes(
                {"metadata": meta | {"name": f"{_NAME}-1", "uid": f"{meta['uid']}-1", "ownerReferences": [owner]}}
            ),
            AUTOSCALERS.plural: _bytes(
                {
                    "metadata": meta | {"generation": 1},
                    "spec": {
                        "targetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": _NAME},
                        "recommenders": [{"name": "elastipod"}],
                    },
                }
            ),
        }

    def measure(self, at: float) -> None:
        """Usage as it is now."""
        start = time.process_time()
        cores, amounts = (part.reshape(-1, len(_CONTAINERS)).tolist() for part in self._usage.at(at))
        told = [_metrics(at, *one) for one in zip(cores, amounts, strict=True)]
        each = self._pods_each
        items = [
            _made(told[number % _KINDS_OF_USAGE * each + pod], number, pod)
            for number in range(self._workloads)
            for pod in range(each)
        ]
        self._measured = b'{"metadata":{},"items":[%s]}' % b",".join(items)
        self.seconds += time.process_time() - start

    async def list(self, kind: ResourceType, *, continue_token: str = "", **_: Any) -> bytes:
        start = time.process_time()
        body = self._page(kind, int(continue_token or 0))
        self.seconds += time.process_time() - start
        return body

    def _page(self, kind: ResourceType, first: int) -> bytes:
        if kind is POD_METRICS:
            # metrics-server knows no pages.
            return self._measured
        numbers = range(first, min(first + _PAGE, self._workloads))
        items: list[bytes] = []
        if kind is CHECKPOINTS:
            items = [_made(one, number) for number in numbers for one in self._saved[number % _KINDS_OF_USAGE]]
        elif (one := self._objects.get(kind.plural)) is not None:
            pods = range(self._pods_each if kind is PODS else 1)
            items = [_made(one, number, pod) for number in numbers for pod in pods]
        more = b"%d" % numbers.stop if items and numbers.stop < self._workloads else b""
        return b'{"metadata":{"resourceVersion":"7","continue":"%s"},"items":[%s]}' % (more, b",".join(items))

    async def watch(self, *_: Any, **__: Any) -> AsyncGenerator[bytes, None]:
        await asyncio.Event().wait()
        yield b""

    async def patch(
        self, kind: ResourceType, namespace: str, name: str, *_: Any, subresource: str = "", **__: Any
    ) -> bytes:
        self.writes[f"{kind.plural}/{subresource}".rstrip("/")] += 1
        return b'{"metadata":{"name":"%s","namespace":"%s","resourceVersion":"8"}}' % (
            name.encode(),
            namespace.encode(),
        )


def _bytes(body: Json) -> bytes:
    meta = {"resourceVersion": "1", "creationTimestamp": "2026-01-01T00:00:00Z"} | body["metadata"]
    return msgspec.json.encode(body | {"metadata": meta})


def _made(one: bytes, number: int, pod: int = 0) -> bytes:
    """An object of a workload."""
    space = b"%04d" % (number // _WORKLOADS_A_NAMESPACE)
    return one.replace(_NUMBER, b"%06d" % number).replace(_POD, b"%02d" % pod).replace(_SPACE, space)


def _pod(owner: Json) -> bytes:
    containers = [build.container_json(one, cpu="250m", memory="256Mi", memory_limit="512Mi") for one in _CONTAINERS]
    labels = {"app": _NAME, "pod-template-hash": "6d4cf56db6"}
    pod = build.pod_json(
        _POD_NAME, _NAMESPACE, containers=containers, labels=labels, owner=owner, uid=f"uid-{_POD_NAME}", nodeName="n1"
    )
    pod["status"] = build.running_status(pod, started_at="2026-01-01T00:00:00Z")
    return _bytes(pod)


def _metrics(at: float, cores: list[float], amounts: list[float]) -> bytes:
    """A pod's usage, as metrics-server writes it."""
    usage = [
        {"name": name, "usage": {"cpu": f"{int(used * 1e9)}n", "memory": f"{int(amount / 1024)}Ki"}}
        for name, used, amount in zip(_CONTAINERS, cores, amounts, strict=True)
    ]
    meta = {
        "name": _POD_NAME,
        "namespace": _NAMESPACE,
        "creationTimestamp": to_rfc3339(at),
        "labels": {"app": _NAME, "pod-template-hash": "6d4cf56db6"},
    }
    return msgspec.json.encode(
        {"metadata": meta, "timestamp": to_rfc3339(at), "window": "15.022s", "containers": usage}
    )


def _saved(usage: RandomUsage, pods_each: int, at: float) -> list[list[bytes]]:
    """The checkpoints of a workload's containers, for each kind of usage."""
    names = [("ns-of-it", f"w-of-{number:02d}-it") for number in range(_KINDS_OF_USAGE)]
    found: dict[str, list[bytes]] = {}
    for one in checkpoints(names, pods_each, _CONTAINERS, usage.at, at, ("",)):
        name = one.spec.vpa_object_name
        raw = _bytes(msgspec.to_builtins(one)).replace(name.encode(), _NAME.encode())
        found.setdefault(name, []).append(raw.replace(b"ns-of-it", _NAMESPACE.encode()))
    return [found[name] for _, name in names]


async def measured(containers: int, pods_each: int, ticks: int) -> Json:
    """A recommender from its start on, then at rest: seconds of CPU, bytes, and writes a minute."""
    clock = ManualClock(1_800_000_000.0)
    cluster = LargeCluster(containers // len(_CONTAINERS) // pods_each, pods_each, clock.now())
    cluster.measure(clock.now())
    started = time.process_time() - cluster.seconds
    # No time passes while something is worked out here, so that accounts would not know how seldom they have to be.
    settings = RecommenderSettings(accounting_interval_seconds=_SELDOM)
    part = Recommender(cast("Connection", cluster), clock, settings)
    watching = asyncio.create_task(part.watch())
    while not cluster.writes:
        clock.advance(0.1)
        await asyncio.sleep(0)
        await part.run_once()
    start_seconds = time.process_time() - cluster.seconds - started
    seconds = []
    for number in range(ticks + 1):
        clock.advance(60.0)
        cluster.measure(clock.now())
        began = time.process_time() - cluster.seconds
        await part.run_once()
        if number:
            seconds.append(time.process_time() - cluster.seconds - began)
        else:
            cluster.writes.clear()
    clock.advance(_SELDOM)
    began = time.process_time()
    await part.accounting.run({}, None)
    accounts = time.process_time() - began
    watching.cancel()
    with suppress(asyncio.CancelledError):
        await watching
    return {
        "containers": containers,
        "accounts": accounts,
        "start": start_seconds,
        "tick": float(np.median(seconds)),
        "longest": max(seconds),
        "bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        "writes": cluster.writes.total() / ticks,
        "autoscalers": containers // len(_CONTAINERS) // pods_each,
    }


def in_a_process(containers: int, pods_each: int, ticks: int) -> Json:
    """The same in a process of its own, whose memory is nobody else's."""
    given = ["--measure", str(containers), "--pods-each", str(pods_each), "--ticks", str(ticks)]
    argv = [sys.executable, "-m", "bench.growth", *given]
    found: Json = json.loads(subprocess.run(argv, check=True, stdout=subprocess.PIPE).stdout)
    return found


def show(figures: Figures, rows: list[Json]) -> None:
    """The table, and what of it is promised."""
    print(
        "containers  first advice  a tick   longest      memory  CPU a tick and container  writes, autoscaler, minute"
    )
    for row in rows:
        each = 1e6 * row["tick"] / row["containers"]
        print(
            f"{row['containers']:10}  {row['start']:10.1f} s  {row['tick']:4.2f} s  {row['longest']:6.2f} s  "
            f"{row['bytes'] / 2**20:6.0f} MiB  {each:21.1f} us  {row['writes'] / row['autoscalers']:27.4f}"
        )
    first, last = rows[0], rows[-1]
    share = last["containers"] / SIZES[-1]
    figures.show(f"a tick of {last['containers']} containers", last["tick"], "s CPU", GOAL_SECONDS * share)
    figures.show("memory at its most", last["bytes"] / 2**20, "MiB", GOAL_BYTES / 2**20)
    grown = last["tick"] / last["containers"] / (first["tick"] / first["containers"])
    figures.show(f"a container costs, against one of {first['containers']}", grown, "times", GOAL_GROWTH)
    figures.show("accounts are made anew every", 100 * last["accounts"], "s", GOAL_ACCOUNTS_SECONDS)
    writes = max(row["writes"] / row["autoscalers"] for row in rows)
    figures.show("writes an autoscaler and minute at rest, at most", writes, "", GOAL_WRITES)


def main() -> int:
    """Measure and print; 0 where every promise was kept."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES, help="containers")
    parser.add_argument("--pods-each", type=int, default=3, help="pods of a workload")
    parser.add_argument("--ticks", type=int, default=11)
    parser.add_argument("--measure", type=int, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.measure:
        print(json.dumps(asyncio.run(measured(given.measure, given.pods_each, given.ticks))))
        return 0
    figures = Figures()
    show(figures, [in_a_process(size, given.pods_each, given.ticks) for size in given.sizes])
    start = in_a_process(START, given.pods_each, 1)["start"]
    figures.show(f"first recommendations from {START} checkpoints", start, "s CPU", GOAL_START_SECONDS)
    return figures.exit_code


if __name__ == "__main__":
    sys.exit(main())
