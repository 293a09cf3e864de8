"""Resizes the pod it runs in, as the updater would, and waits until the kubelet has put that in force.

Run by `helm test`. Needs to get its own pod and to patch that pod's resize, and nothing else.
"""

import asyncio
import json
import os
import sys

from elastipod.clock import SystemClock
from elastipod.kube.access import load_access
from elastipod.kube.connection import Connection
from elastipod.kube.errors import KubeError
from elastipod.kube.http import HttpConnection
from elastipod.kube.resources import PODS

CPU = "20m"
SECONDS = 90


async def prove(connection: Connection, namespace: str, name: str) -> str:
    """What came of it: nothing where all went well, else what did not."""
    body = {"spec": {"containers": [{"name": "prove", "resources": {"requests": {"cpu": CPU}}}]}}
    await connection.patch(PODS, namespace, name, json.dumps(body).encode(), subresource="resize")
    status = {}
    for _ in range(SECONDS):
        status = json.loads(await connection.get(PODS, namespace, name))["status"]
        container = next(one for one in status["containerStatuses"] if one["name"] == "prove")
        if container.get("resources", {}).get("requests", {}).get("cpu") == CPU:
            return "" if container["restartCount"] == 0 else "the container was restarted by its resize"
        await SystemClock().sleep(1)
    waiting = [one for one in status.get("conditions", []) if one["type"].startswith("PodResize")]
    return f"not in force after {SECONDS} seconds: {json.dumps(waiting)}"


async def main() -> int:
    """Prove it on the pod that the environment names."""
    connection = HttpConnection(load_access(None, None, os.environ), SystemClock())
    try:
        problem = await prove(connection, os.environ["POD_NAMESPACE"], os.environ["POD_NAME"])
    except KubeError as error:
        problem = f"the API server refused it: {error}"
    finally:
        await connection.close()
    print(problem or f"resized in place: the container has {CPU} of CPU and was not restarted")
    return 1 if problem else 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
