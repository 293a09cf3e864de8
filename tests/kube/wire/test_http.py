"""What is read from the API server means what the server said, and never waits for ever."""

import asyncio
import ssl
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from elastipod.clock import ManualClock
from elastipod.kube.access import Access
from elastipod.kube.connection import PatchType
from elastipod.kube.credentials import FixedCredential, TokenFile
from elastipod.kube.errors import (
    BadRequest,
    Conflict,
    Forbidden,
    Gone,
    Invalid,
    KubeError,
    NotFound,
    ServerError,
    StatusError,
    TooManyRequests,
    Unreachable,
)
from elastipod.kube.http import HttpConnection
from elastipod.kube.resources import NODES, PODS
from elastipod.kube.rest import Request
from elastipod.kube.sockets import BrokenOff
from tests.kube.wire.rawserver import TLS, Answer, chunked, said, server_tls, serving, silence, then_cut


@asynccontextmanager
async def connected(
    access: Access, clock: ManualClock | None = None, *, call_seconds: float = 2.0, watch_grace_seconds: float = 5.0
) -> AsyncGenerator[HttpConnection, None]:
    """A connection, closed at the end."""
    connection = HttpConnection(
        access, clock or ManualClock(), call_seconds=call_seconds, watch_grace_seconds=watch_grace_seconds
    )
    try:
        yield connection
    finally:
        await connection.close()


async def lines_of(*answers: Answer, seconds: float = 5.0) -> list[bytes]:
    async with serving(*answers) as server, connected(Access(server.address)) as connection:
        return [line async for line in connection.watch(PODS, resource_version="7", timeout_seconds=seconds)]


async def test_a_list_asks_for_one_page_with_its_selectors() -> None:
    async with serving(said(b"{}")) as server, connected(Access(server.address)) as connection:
        await connection.list(PODS, namespace="a", label_selector="app=x,y!=z", limit=5, continue_token="t+/=")
    assert server.requests[0].startswith(
        "GET /api/v1/namespaces/a/pods?limit=5&labelSelector=app%3Dx,y!%3Dz&continue=t%2B/%3D HTTP"
    )


async def test_calls_share_one_socket() -> None:
    async with serving(said(b"1"), said(b"2"), said(b"3")) as server, connected(Access(server.address)) as connection:
        answers = [await connection.get(NODES, None, "n") for _ in range(3)]
    assert (answers, server.connections) == ([b"1", b"2", b"3"], 1)


async def test_a_read_is_said_again_where_the_server_had_let_go_of_the_socket() -> None:
    async with serving(said(b"1"), then_cut(b""), said(b"2")) as server, connected(Access(server.address)) as to:
        assert [await to.get(NODES, None, "n") for _ in range(2)] == [b"1", b"2"]
    assert (len(server.requests), server.connections) == (3, 2)


async def test_a_write_is_never_said_twice() -> None:
    async with serving(said(b"1"), then_cut(b""), said(b"2")) as server, connected(Access(server.address)) as to:
        await to.get(NODES, None, "n")
        with pytest.raises(Unreachable):
            await to.patch(PODS, "a", "p", b"{}")
    assert len(server.requests) == 2


async def test_a_socket_that_the_server_closed_is_not_used_again() -> None:
    async with serving(then_cut(said(b"1")), said(b"2")) as server, connected(Access(server.address)) as to:
        await to.get(NODES, None, "n")
        await server.closed.wait()
        for _ in range(10):
            await asyncio.sleep(0)
        assert await to.patch(PODS, "a", "p", b"{}") == b"2"
    assert len(server.requests) == 2


async def test_a_body_without_a_length_ends_with_its_socket() -> None:
    answer = then_cut(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nall of it")
    async with serving(answer) as server, connected(Access(server.address)) as connection:
        assert await connection.get(PODS, "a", "p") == b"all of it"


async def test_what_comes_before_the_answer_is_passed_over() -> None:
    answer = b"HTTP/1.1 100 Continue\r\n\r\n" + said(b"ok")
    async with serving(answer) as server, connected(Access(server.address)) as connection:
        assert await connection.patch(PODS, "a", "p", b"{}") == b"ok"


@pytest.mark.parametrize("answer", [b"SSH-2.0-OpenSSH_9\r\n\r\n", b"HTTP/1.1 abc\r\n\r\n", b"\0" * 100_000])
async def test_what_is_not_http_is_unreachable(answer: bytes) -> None:
    async with serving(then_cut(answer)) as server, connected(Access(server.address)) as connection:
        with pytest.raises(Unreachable):
            await connection.get(PODS, "a", "p")


async def test_a_server_below_a_path_is_asked_there() -> None:
    async with serving(said(b"{}")) as server, connected(Access(f"{server.address}/k8s/c-1")) as connection:
        await connection.get(NODES, None, "n")
    assert server.requests[0].startswith("GET /k8s/c-1/api/v1/nodes/n HTTP")
    assert f"\r\nhost: {server.address[7:]}\r\n" in server.requests[0].lower()


async def test_a_patch_says_its_type_and_its_subresource() -> None:
    async with serving(said(b"{}"), said(b"{}")) as server, connected(Access(server.address)) as connection:
        await connection.patch(PODS, "a", "p", b'{"x":1}', subresource="resize", dry_run=True)
        await connection.patch(PODS, "a", "p", b"[]", patch_type=PatchType.JSON)
    assert server.requests[0].startswith("PATCH /api/v1/namespaces/a/pods/p/resize?dryRun=All ")
    assert "application/strategic-merge-patch+json" in server.requests[0]
    assert server.requests[0].endswith('{"x":1}')
    assert "application/json-patch+json" in server.requests[1]


async def test_an_eviction_is_posted_to_its_pod_and_a_delete_carries_its_preconditions() -> None:
    async with (
        serving(said(b"{}"), said(b"{}"), said(b"{}")) as server,
        connected(Access(server.address)) as connection,
    ):
        await connection.create(PODS, "a", b"{}", name="p", subresource="eviction")
        await connection.create(PODS, "a", b"{}")
        await connection.delete(PODS, "a", "p", body=b'{"preconditions":{"uid":"u"}}')
    assert [request.split(" HTTP")[0] for request in server.requests] == [
        "POST /api/v1/namespaces/a/pods/p/eviction",
        "POST /api/v1/namespaces/a/pods",
        "DELETE /api/v1/namespaces/a/pods/p",
    ]
    assert server.requests[2].endswith('{"preconditions":{"uid":"u"}}')


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        ("400 Bad Request", BadRequest),
        ("403 Forbidden", Forbidden),
        ("404 Not Found", NotFound),
        ("409 Conflict", Conflict),
        ("410 Gone", Gone),
        ("422 Unprocessable Entity", Invalid),
        ("429 Too Many Requests", TooManyRequests),
        ("500 Internal Server Error", ServerError),
        ("503 Service Unavailable", ServerError),
        ("302 Found", StatusError),
    ],
)
async def test_a_failure_has_its_own_kind(status: str, kind: type[KubeError]) -> None:
    async with serving(said(b"<html>", status)) as server, connected(Access(server.address)) as connection:
        with pytest.raises(kind):
            await connection.get(PODS, "a", "p")
    assert len(server.requests) == 1


async def test_retry_after_is_told() -> None:
    answer = said(b"", "429 Too Many Requests", "Retry-After: 7")
    async with serving(answer) as server, connected(Access(server.address)) as connection:
        with pytest.raises(TooManyRequests) as refusal:
            await connection.get(PODS, "a", "p")
    assert refusal.value.retry_after_seconds == 7


async def test_a_refused_connection_is_unreachable() -> None:
    async with serving() as server:
        pass
    async with connected(Access(server.address)) as connection:
        with pytest.raises(Unreachable):
            await connection.get(PODS, "a", "p")


@pytest.mark.parametrize(
    "answer", [silence, then_cut(b""), then_cut(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf")]
)
async def test_no_answer_or_half_of_one_is_unreachable_in_time(answer: Answer) -> None:
    async with serving(answer) as server, connected(Access(server.address), call_seconds=0.1) as connection:
        with pytest.raises(Unreachable):
            await connection.patch(PODS, "a", "p", b"{}")
    assert len(server.requests) == 1


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "../../nodes", "a%2fb", "a" * 254])
async def test_a_name_that_leads_elsewhere_is_not_sent(name: str) -> None:
    async with serving() as server, connected(Access(server.address)) as connection:
        with pytest.raises(BadRequest):
            await connection.get(PODS, "a", name)
        with pytest.raises(BadRequest):
            await connection.delete(PODS, name, "p")
    assert server.requests == []


async def test_a_name_is_quoted() -> None:
    async with serving(said(b"{}")) as server, connected(Access(server.address)) as connection:
        await connection.get(PODS, "a", "p?x=1#y z")
    assert server.requests[0].startswith("GET /api/v1/namespaces/a/pods/p%3Fx%3D1%23y%20z HTTP")


async def test_a_watch_gives_whole_lines_however_they_are_cut_r47() -> None:
    text = ('{"x":"' + "€" * 50 + '"}\n').encode() * 2
    cut = [text[at : at + 7] for at in range(0, len(text), 7)]
    assert await lines_of(chunked(*cut)) == text.splitlines()


async def test_a_long_line_and_an_empty_one_are_no_trouble() -> None:
    line = b'{"x":"' + b"y" * 1_000_000 + b'"}'
    assert await lines_of(chunked(line, b"\n\n\n" + line + b"\n")) == [line, line]


async def test_bad_bytes_are_replaced_and_the_stream_goes_on_r47() -> None:
    assert await lines_of(chunked(b'{"x":"\xff"}\n{"y":1}\n')) == ['{"x":"�"}'.encode(), b'{"y":1}']


@pytest.mark.parametrize(
    "answer",
    [
        then_cut(chunked(b'{"y":1}\n', end=False) + b"ff\r\nhal"),
        then_cut(chunked(b'{"y":1}\n', end=False)),
        chunked(b'{"y":1}\n{"half'),
    ],
)
async def test_a_watch_that_is_cut_gives_what_was_whole_and_says_so(answer: Answer) -> None:
    seen: list[bytes] = []
    async with serving(answer) as server, connected(Access(server.address)) as connection:
        stream = connection.watch(PODS, resource_version="7")
        seen.append(await anext(stream))
        with pytest.raises(Unreachable):
            await anext(stream)
    assert seen == [b'{"y":1}']


async def test_a_silent_watch_ends_a_little_after_the_server_should_have_ended_it_r48() -> None:
    async with serving(silence) as server, connected(Access(server.address), watch_grace_seconds=0.1) as connection:
        with pytest.raises(Unreachable):
            async for _ in connection.watch(PODS, resource_version="7", timeout_seconds=0.1):
                pass


async def test_a_watch_too_old_is_gone() -> None:
    with pytest.raises(Gone):
        await lines_of(said(b'{"kind":"Status","code":410}', "410 Gone"))


async def test_a_watch_asks_for_bookmarks_and_its_end() -> None:
    async with serving(chunked()) as server, connected(Access(server.address)) as connection:
        async for _ in connection.watch(PODS, resource_version="7", timeout_seconds=60):
            pass
    assert "?watch=1&allowWatchBookmarks=true&resourceVersion=7&timeoutSeconds=60 " in server.requests[0]


async def test_a_token_file_is_read_again_after_a_minute_and_after_a_refusal(tmp_path: Path) -> None:
    path = tmp_path / "token"
    clock = ManualClock()
    answers = [said(b"")] * 3 + [said(b"", "401 Unauthorized"), said(b"")]
    async with (
        serving(*answers) as server,
        connected(Access(server.address, credential=TokenFile(path)), clock) as connection,
    ):
        for seconds, token in ((0, "one"), (30, "two"), (31, "three"), (1, "four")):
            path.write_text(f"{token}\n")
            clock.advance(seconds)
            await connection.get(PODS, "a", "p")
    sent = [request.split("Bearer ")[1].split("\r")[0] for request in server.requests]
    assert sent == ["one", "one", "three", "three", "four"]


@pytest.mark.parametrize("content", [None, b"", b"\xff", b"two words", b"a\nHost: x"])
async def test_a_token_file_without_a_token_is_named(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "token"
    if content is not None:
        path.write_bytes(content)
    async with serving() as server, connected(Access(server.address, credential=TokenFile(path))) as connection:
        with pytest.raises(Unreachable, match=str(path)):
            await connection.get(PODS, "a", "p")


async def test_a_refused_credential_is_tried_twice_and_no_more() -> None:
    answers = [said(b"", "401 Unauthorized")] * 2
    async with serving(*answers) as server:
        access = Access(server.address, credential=FixedCredential("Bearer x"))
        async with connected(access) as connection:
            with pytest.raises(Forbidden):
                await connection.get(PODS, "a", "p")
    assert len(server.requests) == 2


@pytest.mark.parametrize(
    ("served", "trusted", "server_name", "is_good"),
    [
        ("server", "server", "", True),
        ("server", "elsewhere", "", False),
        ("elsewhere", "elsewhere", "", False),
        ("elsewhere", "elsewhere", "elsewhere.example", True),
    ],
)
async def test_only_the_server_that_is_meant_is_spoken_to(
    served: str, trusted: str, server_name: str, is_good: bool
) -> None:
    tls = ssl.create_default_context(cafile=str(TLS / f"{trusted}.crt"))
    async with (
        serving(said(b"ok"), tls=server_tls(served)) as server,
        connected(Access(server.address, tls=tls, server_name=server_name)) as connection,
    ):
        if is_good:
            assert await connection.get(PODS, "a", "p") == b"ok"
        else:
            with pytest.raises(Unreachable):
                await connection.get(PODS, "a", "p")
    assert len(server.requests) == is_good


@pytest.mark.parametrize("is_dropped", [True, False])
async def test_a_socket_that_may_be_anothers_is_read_no_more(*, is_dropped: bool) -> None:
    async with serving(chunked(b"all of it")) as server, connected(Access(server.address)) as connection:
        answer = await connection.send(Request("GET", "/x"), {})
        assert await answer.read() == b"all of it"
        if is_dropped:
            # The time of a watch is over, and its reader has not heard of its end.
            answer.drop()
        else:
            answer.close()
        assert bool(connection._kept()) != is_dropped
        with pytest.raises(BrokenOff):
            await answer.read()


@pytest.mark.parametrize("told", ["\u00b2", "9" * 400, "-1", "1.5", "soon"])
async def test_a_time_to_wait_that_is_none_is_not_waited_for(told: str) -> None:
    answer = said(b"", "429 Too Many Requests").replace(
        b"\r\n\r\n", f"\r\nRetry-After: {told}\r\n\r\n".encode("latin-1")
    )
    async with serving(answer) as server, connected(Access(server.address)) as connection:
        with pytest.raises(TooManyRequests) as refusal:
            await connection.get(PODS, "a", "p")
    assert refusal.value.retry_after_seconds is None


async def test_a_name_for_tls_is_not_used_without_it() -> None:
    async with serving(said(b"ok")) as server, connected(Access(server.address, server_name="x.example")) as connection:
        assert await connection.get(PODS, "a", "p") == b"ok"


async def test_nothing_is_left_open() -> None:
    tls = ssl.create_default_context(cafile=str(TLS / "server.crt"))
    async with serving(said(b"ok"), silence, tls=server_tls("server")) as server:
        connection = HttpConnection(Access(server.address, tls=tls), ManualClock(), call_seconds=0.2)
        await connection.get(PODS, "a", "p")
        with pytest.raises(Unreachable):
            await connection.get(PODS, "a", "p")
        await connection.close()
        assert not connection._sockets


async def test_a_body_without_end_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("elastipod.kube.rest._MOST_BODY_BYTES", 1000)
    async with serving(said(b"1" * 1001), said(b"2")) as server, connected(Access(server.address)) as connection:
        with pytest.raises(Unreachable, match="more than 1000 bytes"):
            await connection.get(NODES, None, "n")
        assert await connection.get(NODES, None, "n") == b"2"
