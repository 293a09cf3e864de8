"""The webhook as the API server meets it: TLS, and everything that may come by it."""

import asyncio
import json
import re
import ssl
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import aiohttp
import pytest

from elastipod.clock import SystemClock
from tests.updater.admission.world import KUBE_PAIRS, World, new_pod, patched, review_json, use_pair
from updater.admission.webhook import MOST_BYTES, MOST_CONNECTIONS

JSON = {"Content-Type": "application/json"}


def trusting(*names: str) -> ssl.SSLContext:
    """A client that trusts these certificates."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    for name in names:
        context.load_verify_locations(KUBE_PAIRS / f"{name}.crt")
    context.check_hostname = False
    return context


@asynccontextmanager
async def client(*names: str) -> AsyncGenerator[aiohttp.ClientSession, None]:
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=trusting(*names))) as session:
        yield session


def url(world: World, path: str = "/mutate") -> str:
    return f"https://127.0.0.1:{world.admission.webhook.port}{path}"


async def raw(world: World, *pieces: bytes) -> bytes:
    """What comes back for these bytes, until the other side closes."""
    reader, writer = await asyncio.open_connection(
        "127.0.0.1", world.admission.webhook.port, ssl=trusting("server"), server_hostname="localhost"
    )
    for piece in pieces:
        writer.write(piece)
    try:
        return await reader.read()
    finally:
        writer.close()


async def shown(world: World) -> bytes:
    """The certificate that a new connection is shown."""
    _, writer = await asyncio.open_connection(
        "127.0.0.1", world.admission.webhook.port, ssl=trusting("server", "elsewhere"), server_hostname="localhost"
    )
    found: bytes = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    writer.close()
    return found


def der(name: str) -> bytes:
    return ssl.PEM_cert_to_DER_cert((KUBE_PAIRS / f"{name}.crt").read_text("ascii"))


async def test_a_review_posted_by_tls_is_answered(world: World) -> None:
    await world.autoscaler()
    pod = new_pod(await world.deployment())
    async with client("server") as session, session.post(url(world), json=review_json(pod)) as told:
        assert told.status == 200
        assert told.content_type == "application/json"
        answer = await told.json()
    assert patched(pod, answer["response"])["spec"]["containers"][0]["resources"]["requests"]["cpu"] == "250m"


@pytest.mark.parametrize(
    ("method", "path", "headers", "body", "status"),
    [
        ("GET", "/mutate", {}, b"", 405),
        ("POST", "/", JSON, b"{}", 404),
        ("POST", "/mutate", {"Content-Type": "application/yaml"}, b"{}", 415),
        ("POST", "/mutate", {**JSON, "Content-Encoding": "gzip"}, b"{}", 415),
        ("POST", "/mutate", JSON, b"", 400),
        ("POST", "/mutate", JSON, b"\xff{", 400),
        ("POST", "/mutate", JSON, b"[" * 100_000, 400),
        ("POST", "/mutate", JSON, b'{"apiVersion":"v1","kind":"Pod","request":{"uid":"x"}}', 400),
        ("POST", "/mutate", JSON, b'{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview"}', 400),
    ],
)
async def test_what_is_no_review_is_refused_by_its_status(
    world: World, method: str, path: str, headers: dict[str, str], body: bytes, status: int
) -> None:
    async with (
        client("server") as session,
        session.request(method, url(world, path), data=body, headers=headers) as told,
    ):
        assert told.status == status
        assert await told.text()
    assert world.count("admission_refused_total", status=str(status)) == 1


@pytest.mark.parametrize(("path", "status"), [("/mutate", 405), ("/", 404)])
async def test_who_asks_for_the_head_alone_gets_no_body(world: World, path: str, status: int) -> None:
    head, _, body = (await raw(world, f"HEAD {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode())).partition(b"\r\n\r\n")
    assert (head.split()[1], body) == (str(status).encode(), b"")
    assert world.count("admission_refused_total", status=str(status)) == 1


@pytest.mark.parametrize(
    "head",
    [
        f"Content-Length: {MOST_BYTES + 1}\r\n\r\n".encode(),
        b"Transfer-Encoding: chunked\r\n\r\n" + b"400000\r\n" + b" " * 0x400000 + b"\r\n1\r\n \r\n0\r\n\r\n",
    ],
)
async def test_more_than_four_mebibytes_are_not_read(world: World, head: bytes) -> None:
    start = b"POST /mutate HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
    assert (await raw(world, start + head)).startswith(b"HTTP/1.1 413")


@pytest.mark.parametrize("said", [b"\x00\x01\r\n\r\n", b"GET / HTTP/1.1\r\nA: " + b"a" * 20_000])
async def test_what_is_no_http_is_refused_and_the_connection_closed(world: World, said: bytes) -> None:
    assert (await raw(world, said)).startswith(b"HTTP/1.1 4")


async def test_a_request_that_never_ends_is_given_up(tmp_path: Path) -> None:
    async with World(tmp_path, request_seconds=0.1, owner_wait_seconds=0.0) as world:
        start = b"POST /mutate HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n{"
        assert (await raw(world, start)).startswith(b"HTTP/1.1 408")
        assert (await raw(world, b"POST /mutate HT")).startswith(b"HTTP/1.1 408")


async def test_connections_that_were_served_and_are_silent_give_their_places(world: World) -> None:
    body = json.dumps(review_json(new_pod())).encode()
    async with AsyncExitStack() as stack:
        for _ in range(MOST_CONNECTIONS + 3):
            session = await stack.enter_async_context(client("server"))
            async with session.post(url(world), data=body, headers=JSON) as told:
                assert (await told.json())["response"]["allowed"] is True


async def test_what_finds_no_place_is_closed_and_counted_and_nothing_stays_taken(world: World) -> None:
    body = json.dumps(review_json(new_pod())).encode()
    silent = [await asyncio.open_connection("127.0.0.1", world.admission.webhook.port) for _ in range(MOST_CONNECTIONS)]
    reader, writer = await asyncio.open_connection("127.0.0.1", world.admission.webhook.port)
    assert await reader.read() == b""
    assert world.count("admission_refused_total", status="none") == 1
    for _, one in (*silent, (reader, writer)):
        one.close()
    async with client("server") as session, session.post(url(world), data=body, headers=JSON) as told:
        assert told.status == 200


@pytest.mark.filterwarnings("ignore:ssl.TLSVersion:DeprecationWarning")
async def test_older_tls_than_1_2_is_not_spoken(world: World) -> None:
    context = trusting("server")
    context.set_ciphers("ALL:@SECLEVEL=0")
    context.minimum_version = ssl.TLSVersion.TLSv1
    context.maximum_version = ssl.TLSVersion.TLSv1_1
    with pytest.raises((ssl.SSLError, ConnectionError)):
        await asyncio.open_connection("127.0.0.1", world.admission.webhook.port, ssl=context, server_hostname="x")


async def test_a_new_pair_is_shown_to_new_connections_and_drops_none(world: World, tmp_path: Path) -> None:
    body = json.dumps(review_json(new_pod())).encode()
    assert await shown(world) == der("server")
    async with client("server") as session:
        for pair in ("server", "elsewhere", "server", "elsewhere"):
            use_pair(tmp_path, pair)
            world.admission.certificates.refresh()
            assert await shown(world) == der(pair)
            # By the connection of the first round, as this client trusts no other pair.
            async with session.post(url(world), data=body, headers=JSON) as told:
                assert (await told.json())["response"]["allowed"] is True


@pytest.mark.parametrize(
    ("certificate", "key", "why"),
    [
        (b"", b"", "PEM"),
        (b"nonsense", None, "PEM"),
        (None, "elsewhere.key", "mismatch"),
        ("elsewhere.crt", None, "mismatch"),
        ("expired.crt", "expired.key", "expired"),
        ("expired.crt", "locked.key", "PEM"),
    ],
)
async def test_a_broken_pair_leaves_the_old_one_in_place_and_is_told(
    world: World, tmp_path: Path, certificate: str | bytes | None, key: str | bytes | None, why: str
) -> None:
    use_pair(tmp_path, "server")
    for file, content in (("tls.crt", certificate), ("tls.key", key)):
        if content is not None:
            data = tmp_path / "..data" / file
            data.write_bytes(content if isinstance(content, bytes) else pem(content))
    world.admission.certificates.refresh()
    assert why in world.admission.certificates.problem
    assert str(tmp_path) in world.admission.certificates.problem
    assert await shown(world) == der("server")
    assert world.count("admission_certificate_reads_total", outcome="failed") >= 1
    use_pair(tmp_path, "elsewhere")
    world.admission.certificates.refresh()
    assert world.admission.certificates.problem == ""
    assert await shown(world) == der("elsewhere")


def pem(name: str) -> bytes:
    own = Path(__file__).parent / "tls" / name
    return (own if own.exists() else KUBE_PAIRS / name).read_bytes()


async def test_without_a_pair_it_is_not_ready_and_listens_once_there_is_one(tmp_path: Path) -> None:
    world = World(tmp_path, interval_seconds=0.01)
    for file in ("tls.crt", "tls.key"):
        (tmp_path / file).unlink()
    watching = asyncio.create_task(world.admission.watch())
    await not_ready(world, "No such file")
    use_pair(tmp_path, "server")
    await world.ready()
    assert await shown(world) == der("server")
    watching.cancel()
    await asyncio.gather(watching, return_exceptions=True)


async def test_once_its_pair_has_ended_it_is_not_ready_and_is_again_with_one_that_holds(tmp_path: Path) -> None:
    async with World(tmp_path, interval_seconds=0.01) as world:
        world.clock.shift = world.count("admission_certificate_ends_at_seconds") - SystemClock().now()
        await not_ready(world, "the certificate has ended")
        (tmp_path / "..data" / "tls.crt").write_bytes(b"nonsense")
        await not_ready(world, "the certificate has ended; .*tls.crt and .*tls.key: ")
        use_pair(tmp_path, "longer")
        await world.ready()


async def not_ready(world: World, why: str) -> None:
    """Until it says so."""
    async with asyncio.timeout(10):
        while not re.search(why, await world.obstacle()):
            await asyncio.sleep(0)


async def test_the_end_of_the_certificate_is_a_metric(world: World) -> None:
    assert world.count("admission_certificate_ends_at_seconds") > world.clock.now()


async def test_a_taken_port_is_tried_again(world: World, tmp_path: Path) -> None:
    folder = tmp_path / "other"
    folder.mkdir()
    other = World(folder, interval_seconds=0.01)
    other.admission.settings = type(other.admission.settings)(
        certificate_folder=str(folder), webhook_port=world.admission.webhook.port, interval_seconds=0.01
    )
    watching = asyncio.create_task(other.admission.watch())
    await not_ready(other, "does not listen")
    await world.admission.webhook.stop()
    await other.ready()
    watching.cancel()
    await asyncio.gather(watching, return_exceptions=True)
