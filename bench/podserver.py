"""An API server with one list of pods, read from stdin, for measuring what reads it. Prints its port."""

import asyncio
import sys

from aiohttp import web

PODS = "/api/v1/pods"


async def main() -> None:
    """Serve until killed."""
    pods = sys.stdin.buffer.read().splitlines()
    app = web.Application()

    async def collection(request: web.Request) -> web.StreamResponse:
        if request.query.get("watch") not in ("1", "true"):
            items = b",".join(pods) if request.path == PODS else b""
            body = b'{"metadata":{"resourceVersion":"1000000"},"items":[' + items + b"]}"
            return web.Response(body=body, content_type="application/json")
        response = web.StreamResponse()
        await response.prepare(request)
        await asyncio.sleep(3600)
        return response

    async def written(_: web.Request) -> web.Response:
        return web.json_response({})

    app.router.add_get("/{path:.*}", collection)
    for method in ("PATCH", "POST"):
        app.router.add_route(method, "/{path:.*}", written)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    print(runner.addresses[0][1], flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main())
