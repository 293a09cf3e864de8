"""100,000 pods listed and decoded into rows, as every part does at its start.

Pods are of the usual size (about 10 kB: two containers, managedFields, probes, environment, status), five to a
ReplicaSet, in pages of 500.
The floor is finding where each object of the same pages begins and ends. Exit 1 where a promise is missed.
"""

import argparse
import asyncio
import gc
import json
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

import msgspec

from bench.figures import Figures
from elastipod.clock import SystemClock
from elastipod.kube.podrows import decode_pod
from elastipod.kube.reflector import Reflector
from elastipod.kube.resources import PODS
from tests import build

GOAL_SECONDS = 6.0
GOAL_BYTES = 2000
PAGE = 500


def typical_pod() -> bytes:
    """A pod as a cluster has it; `@` stands for the pod's number, `#` for its ReplicaSet's."""
    containers = [
        build.container_json(
            name,
            cpu="250m",
            memory="256Mi",
            memory_limit="512Mi",
            env=[{"name": f"SETTING_{number}", "value": f"value of # for number {number}"} for number in range(20)],
            livenessProbe={"httpGet": {"path": "/healthz", "port": 8080}, "periodSeconds": 10, "timeoutSeconds": 1},
            readinessProbe={"httpGet": {"path": "/readyz", "port": 8080}, "periodSeconds": 10, "timeoutSeconds": 1},
            volumeMounts=[{"name": f"volume-{number}", "mountPath": f"/data/{number}"} for number in range(4)],
        )
        for name in ("app", "proxy")
    ]
    owner = build.owner_json("ReplicaSet", "web-#", "11111111-2222-3333-4444-#")
    labels = {"app": "web-#", "pod-template-hash": "6d4cf56db6", "tier": "front", "team": "shop"}
    pod = build.pod_json("web-@", containers=containers, node="node-#", labels=labels, owner=owner, uid="00000000-@")
    pod["status"] = build.running_status(pod)
    fields: dict[str, Any] = {
        f"f:key-{number}": {"f:name": {}, "f:value": {}, "f:valueFrom": {}} for number in range(75)
    }
    pod["metadata"]["resourceVersion"] = "1@"
    pod["metadata"]["managedFields"] = [{"manager": "kubelet", "operation": "Update", "fieldsV1": fields}]
    return json.dumps(pod).encode()


class Pages:
    """Serves a collection of pods; counts the time it takes to make it up."""

    def __init__(self, pods: int) -> None:
        self.pod = typical_pod()
        self.pods = pods
        self.made_seconds = 0.0

    def page(self, start: int) -> bytes:
        items = b",".join(
            self.pod.replace(b"@", b"%06d" % number).replace(b"#", b"%05d" % (number // 5))
            for number in range(start, start + PAGE)
        )
        more = b"" if start + PAGE >= self.pods else b"%d" % (start + PAGE)
        return b'{"kind":"PodList","metadata":{"resourceVersion":"7","continue":"%s"},"items":[%s]}' % (more, items)

    async def list(self, *_: Any, continue_token: str = "", **__: Any) -> bytes:
        start = time.process_time()
        page = self.page(int(continue_token or 0))
        self.made_seconds += time.process_time() - start
        return page

    async def watch(self, *_: Any, **__: Any) -> Any:
        await asyncio.Event().wait()
        yield b""


class _Items(msgspec.Struct):
    items: list[msgspec.Raw]


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text("ascii").split()[1]) * 4096


async def measure(pods: int) -> tuple[float, float, float]:
    """CPU seconds, bytes kept per pod, and the floor's seconds."""
    pages = Pages(pods)
    start = time.process_time()
    decoder = msgspec.json.Decoder(_Items)
    made = pages.page(0)
    begun = time.process_time()
    for _ in range(pods // PAGE):
        decoder.decode(made)
    floor = time.process_time() - begun
    del made
    gc.collect()
    before = resident_bytes()
    reflector = Reflector(cast("Any", pages), PODS, decode_pod, SystemClock())
    start = time.process_time()
    running = asyncio.create_task(reflector.run())
    await reflector.wait_synced()
    spent = time.process_time() - start - pages.made_seconds
    gc.collect()
    kept = (resident_bytes() - before) / len(reflector.items)
    running.cancel()
    with suppress(asyncio.CancelledError):
        await running
    return spent, kept, floor


def main() -> int:
    """Measure and print; 0 where every promise was kept."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pods", type=int, default=100_000)
    given = parser.parse_args()
    print(f"a pod is {len(typical_pod())} bytes of JSON")
    spent, kept, floor = asyncio.run(measure(given.pods))
    figures = Figures()
    what = f"{given.pods} pods listed and decoded"
    figures.show(what, spent, "s CPU", GOAL_SECONDS, floor=floor, of="finding each object's ends in the same pages")
    figures.show("kept per pod", kept, "bytes", GOAL_BYTES)
    return figures.exit_code


if __name__ == "__main__":
    sys.exit(main())
