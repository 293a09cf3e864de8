"""A way into a cluster's network: what connects to a socket outside is given a peer inside.

A program of its own, of the standard library alone: `forward.py SOCKET HOST PORT`. The socket is inherited, and stays
in the network it was made in.
"""

import asyncio
import contextlib
import socket
import sys

_BYTES = 262_144


async def main() -> None:
    listening = socket.socket(fileno=int(sys.argv[1]))
    server = await asyncio.start_server(_serve, sock=listening)
    await server.serve_forever()


async def _serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        inner_reader, inner_writer = await asyncio.open_connection(sys.argv[2], int(sys.argv[3]))
    except OSError:
        writer.close()
        return
    await asyncio.gather(_copy(reader, inner_writer), _copy(inner_reader, writer))


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while piece := await reader.read(_BYTES):
            writer.write(piece)
            await writer.drain()
    writer.close()


if __name__ == "__main__":
    asyncio.run(main())
