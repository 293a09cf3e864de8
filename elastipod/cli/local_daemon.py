"""The process that is a local cluster.

    python -m elastipod.cli.local_daemon '{"name": "local", ...}'

Owns being told to end. What runs in it is running.py's matter. `elastipod local up` starts it, or is it with
`--foreground`.
"""

import asyncio
import signal
import sys
from collections.abc import Callable
from contextlib import suppress

import msgspec

from elastipod.cli.interrupts import heard
from elastipod.cli.running import Wanted, running_cluster
from elastipod.localcluster.folder import ClusterError, ClusterFacts
from elastipod.telemetry import configure_logging, get_logger

log = get_logger(__name__)


async def serve(wanted: Wanted, on_ready: Callable[[ClusterFacts], None]) -> None:
    """Be the cluster until told to end; then leave nothing. Raises ClusterError."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()

    async def run() -> None:
        async with running_cluster(wanted) as running:
            on_ready(running.facts)
            await running.wait_broken()

    running = asyncio.create_task(run())
    for number in heard():
        loop.add_signal_handler(number, stop.set)
    stopping = asyncio.create_task(stop.wait())
    await asyncio.wait((running, stopping), return_when=asyncio.FIRST_COMPLETED)
    if not running.done():
        running.cancel()
    stopping.cancel()
    with suppress(asyncio.CancelledError):
        await running


def main() -> int:
    """The entry point of the daemon."""
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT, signal.SIGTERM})
    configure_logging("info", as_json=False)
    wanted = msgspec.json.decode(sys.argv[1], type=Wanted)
    try:
        asyncio.run(serve(wanted, lambda facts: log.info("cluster ready", url=facts.url)))
    except ClusterError as error:
        sys.stderr.write(f"error: {error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
