"""`python -m bench.bareclient KUBECONFIG`: the least that any updater does, one plain patch a resize.

Reads the pods, says `ready`, and for each line of its input, a number of millicores, gives them all that size over 32
connections, then says `done`.
"""

import asyncio
import sys
from collections.abc import Iterator

import aiohttp
import msgspec

from elastipod.kube.access import load_access

CONNECTIONS = 32
HEADERS = {"Content-Type": "application/strategic-merge-patch+json"}


async def main() -> None:
    access = load_access(sys.argv[1], None, {})
    authorization = await access.credential.authorization(0.0)
    session = aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=CONNECTIONS, ssl=access.tls or True),
        headers={"Authorization": authorization or ""},
    )
    async with session:
        async with session.get(f"{access.server}/api/v1/pods") as answer:
            pods = msgspec.json.decode(await answer.read())["items"]
        paths = [f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods/{pod['metadata']['name']}" for pod in pods]
        print("ready", flush=True)
        while line := await asyncio.to_thread(sys.stdin.readline):
            resources = {"requests": {"cpu": f"{line.strip()}m"}}
            body = msgspec.json.encode({"spec": {"containers": [{"name": "app", "resources": resources}]}})
            urls = iter([f"{access.server}{path}/resize" for path in paths])
            await asyncio.gather(*(_work(session, urls, body) for _ in range(CONNECTIONS)))
            print("done", flush=True)


async def _work(session: aiohttp.ClientSession, urls: Iterator[str], body: bytes) -> None:
    for url in urls:
        async with session.patch(url, data=body, headers=HEADERS) as answer:
            await answer.read()
            assert answer.status == 200, answer.status


if __name__ == "__main__":
    asyncio.run(main())
