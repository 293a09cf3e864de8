"""A socket takes what a hostile server says, and no more than it can hold."""

import asyncio

import pytest

from elastipod.kube.sockets import BrokenOff, Socket


class Wire(asyncio.Transport):
    """What a socket did to its other end."""

    def __init__(self) -> None:
        super().__init__()
        self.written, self.is_paused, self.is_aborted = b"", False, False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written += bytes(data)

    def pause_reading(self) -> None:
        self.is_paused = True

    def resume_reading(self) -> None:
        self.is_paused = False

    def abort(self) -> None:
        self.is_aborted = True


def opened() -> tuple[Socket, Wire]:
    socket, wire = Socket(lambda _: None, lambda _: None), Wire()
    socket.connection_made(wire)
    return socket, wire


async def asked(answer: bytes) -> tuple[Socket, Wire]:
    """A socket whose server said this as it was asked."""
    socket, wire = opened()
    asking = asyncio.ensure_future(socket.ask(b"GET / HTTP/1.1\r\n\r\n"))
    await asyncio.sleep(0)
    socket.data_received(answer)
    await asking
    return socket, wire


async def test_a_server_waits_while_nobody_reads_what_it_said() -> None:
    socket, wire = await asked(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n" + b"x" * 200_000)
    assert not wire.is_paused
    socket.data_received(b"x" * 100_000)
    assert wire.is_paused
    assert len(await socket.piece()) == 200_000
    assert wire.is_paused
    assert len(await socket.piece()) == 100_000
    assert not wire.is_paused


async def test_a_head_without_end_is_refused() -> None:
    socket, wire = opened()
    asking = asyncio.ensure_future(socket.ask(b"GET / HTTP/1.1\r\n\r\n"))
    await asyncio.sleep(0)
    socket.data_received(b"HTTP/1.1 200 OK\r\n")
    for _ in range(80):
        socket.data_received(b"A: " + b"x" * 1000 + b"\r\n")
    assert wire.is_aborted
    with pytest.raises(BrokenOff, match="the head of the answer is larger than 65536 bytes"):
        await asking


@pytest.mark.parametrize("at_once", [True, False])
async def test_more_than_was_asked_for_ends_the_socket_and_not_the_answer(*, at_once: bool) -> None:
    answer, more = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", b"HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n"
    socket, wire = await asked(answer + more if at_once else answer)
    if not at_once:
        socket.data_received(more)
    assert (socket.status, await socket.piece(), await socket.piece()) == (200, b"ok", b"")
    assert (socket.is_ready, wire.is_aborted) == (False, True)


@pytest.mark.parametrize(
    ("head", "is_whole"),
    [(b"", True), (b"Content-Length: 9\r\n", False), (b"Transfer-Encoding: chunked\r\n", False)],
)
async def test_a_socket_that_ends_ends_only_a_body_of_no_told_length(head: bytes, *, is_whole: bool) -> None:
    body = b"4\r\nhalf\r\n" if b"chunked" in head else b"half"
    socket, _ = await asked(b"HTTP/1.1 200 OK\r\n" + head + b"\r\n" + body)
    socket.connection_lost(None)
    assert await socket.piece() == b"half"
    if is_whole:
        assert await socket.piece() == b""
    else:
        with pytest.raises(BrokenOff):
            await socket.piece()
    assert not socket.is_ready


async def test_a_server_that_ends_its_sockets_is_asked_on_another() -> None:
    socket, _ = await asked(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok")
    assert await socket.piece() == b"ok"
    assert not socket.is_ready


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        b"HTTP/2 200\r\n\r\n",
    ],
)
async def test_what_is_no_answer_is_refused_as_one_that_is_broken_off(answer: bytes) -> None:
    with pytest.raises(BrokenOff, match="not HTTP as asked for"):
        await asked(answer)


async def test_a_loss_that_is_no_error_of_the_system_is_told_as_one() -> None:
    socket, _ = await asked(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n")
    socket.connection_lost(ValueError("from within the loop"))
    with pytest.raises(BrokenOff, match="from within the loop"):
        await socket.piece()
