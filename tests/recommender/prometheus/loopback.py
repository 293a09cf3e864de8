"""What answers like a Prometheus, as well or as badly as a test wants."""

import json
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit


@dataclass
class Question:
    """A request as it came."""

    path: str
    params: dict[str, str]
    headers: dict[str, str]


@dataclass
class Answer:
    """What is sent back; where it `stalls`, the end is never said."""

    body: bytes = b""
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    stalls: bool = False
    is_cut: bool = False
    """Whether less comes than was promised."""


Answering = Callable[[Question], Answer]


def matrix(series: list[tuple[dict[str, str], list[list[Any]]]], **more: Any) -> bytes:
    """The answer to a range query."""
    result = [{"metric": labels, "values": values} for labels, values in series]
    return compact({"status": "success", "data": {"resultType": "matrix", "result": result}, **more})


def vector(series: list[tuple[dict[str, str], float]]) -> bytes:
    """The answer to an instant query."""
    result = [{"metric": labels, "value": [0, str(value)]} for labels, value in series]
    return compact({"status": "success", "data": {"resultType": "vector", "result": result}})


def failure(message: str, kind: str = "execution") -> bytes:
    return compact({"status": "error", "errorType": kind, "error": message})


def compact(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


@contextmanager
def answering(answer: Answering, tls: ssl.SSLContext | None = None) -> Iterator[str]:
    """The address of a server that answers so."""
    ended = threading.Event()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        wbufsize = -1

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode()
            where = urlsplit(self.path)
            given = parse_qs(where.query) | parse_qs(body)
            params = {name: values[0] for name, values in given.items()}
            found = answer(Question(where.path, params, dict(self.headers)))
            self.send_response(found.status)
            for name, value in found.headers.items():
                self.send_header(name, value)
            promised = len(found.body) + (10 if found.stalls or found.is_cut else 0)
            self.send_header("Content-Length", str(promised))
            self.end_headers()
            self.wfile.write(found.body)
            self.wfile.flush()
            if found.stalls:
                ended.wait(20)
            self.close_connection = found.stalls or found.is_cut

        def do_GET(self) -> None:
            self.do_POST()

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield f"{'http' if tls is None else 'https'}://127.0.0.1:{server.server_port}"
    finally:
        ended.set()
        server.shutdown()
        server.server_close()
        thread.join()
