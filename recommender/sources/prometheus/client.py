"""A Prometheus as it is asked over HTTP.

Owns the session: deadlines, the most bytes of an answer, and what a refusal means. Answers are read as they arrive;
what is asked for is the callers' matter. Blocks, so it runs in threads.

PrometheusError
├── Unreachable   no answer
│   └── Late      no whole answer in time
├── Unusable      an answer that makes no sense, or is too large
└── Refused       the server said no
"""

import ast
import re
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from typing import Any, Final, TypeVar

import msgspec
import requests
from prometheus_api_client import PrometheusConnect
from prometheus_api_client.exceptions import PrometheusApiClientException
from urllib3.exceptions import HTTPError, ReadTimeoutError
from urllib3.util.retry import Retry

from elastipod.clock import Clock
from recommender.sources.metrics_api import SourceError
from recommender.sources.prometheus.access import PrometheusAccess
from recommender.sources.prometheus.answers import (
    BadAnswer,
    Elements,
    Envelope,
    Series,
    instant_answer,
    label_sets_answer,
    range_answer,
)
from recommender.sources.prometheus.planning import Span, is_too_much

MOST_ANSWER_BYTES: Final = 256 * 1024**2
"""An answer that is longer is given up: what we ask for takes a fifth of it."""
_MOST_SMALL_BYTES: Final = 8 * 1024**2
_CHUNK: Final = 256 * 1024
_MOST_AHEAD: Final = 160
"""Pieces of an answer that wait to be read, 40 MiB: as much as is asked for at once."""
_CONNECT_SECONDS: Final = 5.0
_ONCE: Final = Retry(total=0, redirect=0, raise_on_status=False)
"""Who asks knows whether to ask again."""

T = TypeVar("T")


class PrometheusError(SourceError):
    """A failure at a Prometheus."""

    is_too_much = False
    """Whether it may answer to less."""


class Unreachable(PrometheusError):
    """No answer."""


class Late(Unreachable):
    """No whole answer in time."""

    is_too_much = True


class Unusable(PrometheusError):
    """An answer that makes no sense."""


class Refused(PrometheusError):
    """The server answered with a failure."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(f"{message or 'refused'} (HTTP {status})")
        self.status = status
        self.is_too_much = is_too_much(status, message)


class _BoundedSession(requests.Session):
    """A session whose answers end: at a deadline, and at so many bytes where they are taken whole."""

    def __init__(self, clock: Clock, timeout_seconds: float) -> None:
        super().__init__()
        self._clock = clock
        self._timeout_seconds = timeout_seconds

    def send(self, request: requests.PreparedRequest, **kwargs: Any) -> requests.Response:
        is_streamed = kwargs.get("stream")
        kwargs["stream"] = True
        kwargs["allow_redirects"] = False
        response = super().send(request, **kwargs)
        if not is_streamed:
            # Else requests would take as much as there is.
            response._content = b"".join(self.chunks(response, _MOST_SMALL_BYTES))
        return response

    def chunks(self, response: requests.Response, most_bytes: int = MOST_ANSWER_BYTES) -> Iterator[bytes]:
        """An answer in large pieces. Raises Unreachable where it takes too long, Unusable where it is too long."""
        deadline = self._clock.monotonic() + self._timeout_seconds
        pieces: list[bytes] = []
        size = told = 0
        with response:
            while piece := response.raw.read1(_CHUNK, decode_content=False):
                pieces.append(piece)
                size += len(piece)
                if size > most_bytes:
                    raise Unusable(f"the answer is longer than {most_bytes} bytes")
                if self._clock.monotonic() > deadline:
                    raise Late(f"the answer took longer than {self._timeout_seconds:g} s")
                if size - told >= _CHUNK:
                    yield b"".join(pieces)
                    pieces, told = [], size
        yield b"".join(pieces)


class PrometheusClient:
    """Questions to one Prometheus, or to what answers like one."""

    def __init__(self, access: PrometheusAccess, clock: Clock, *, timeout_seconds: float = 30.0) -> None:
        self._session = _BoundedSession(clock, timeout_seconds)
        self._timeout = (min(_CONNECT_SECONDS, timeout_seconds), timeout_seconds)
        self._address = access.address
        self._server_timeout = f"{max(int(timeout_seconds * 1000), 1)}ms"
        self._connect = PrometheusConnect(
            self._address, session=self._session, retry=_ONCE, timeout=self._timeout, method="POST"
        )
        access.prepare(self._session)
        self._turn = threading.Lock()
        """Whose answer arrives: two at once take a server longer than one after the other."""

    def close(self) -> None:
        self._session.close()

    def numbers(self, query: str, at: float | None = None) -> list[tuple[dict[str, str], float]]:
        """A small instant query: label sets and numbers. Raises PrometheusError."""
        params = {"timeout": self._server_timeout} | ({} if at is None else {"time": f"{at:.3f}"})
        found = self._ask(lambda: self._connect.custom_query(query, params=params))
        try:
            return [
                ({str(key): str(value) for key, value in one["metric"].items()}, float(one["value"][1]))
                for one in found
            ]
        except (AttributeError, IndexError, KeyError, TypeError, ValueError):
            raise Unusable("the answer is no list of numbers") from None

    def label_names(self, metric: str) -> list[str]:
        """The labels that a metric has. Raises PrometheusError."""
        found = self._ask(lambda: self._connect.get_label_names(params={"match[]": metric}))
        return sorted(str(one) for one in found) if isinstance(found, list) else []

    def range(self, query: str, span: Span, take: Callable[[Series], None]) -> Envelope:
        """A range query; each series is handed over as it arrives. Raises PrometheusError."""
        form = {"query": query, "start": str(span.start), "end": str(span.end), "step": str(span.step)}
        return self._stream("query_range", form | {"timeout": self._server_timeout}, range_answer(), take)

    def instant(self, query: str, at: float, take: Callable[[Series], None]) -> Envelope:
        """An instant query of many series. Raises PrometheusError."""
        form = {"query": query, "time": f"{at:.3f}", "timeout": self._server_timeout}
        return self._stream("query", form, instant_answer(), take)

    def label_sets(self, selector: str, start: int, end: int, take: Callable[[dict[str, str]], None]) -> Envelope:
        """The series there were in a time, by their labels. Raises PrometheusError."""
        form = {"match[]": selector, "start": str(start), "end": str(end)}
        return self._stream("series", form, label_sets_answer(), take)

    def _stream(self, path: str, form: Mapping[str, str], elements: Elements[T], take: Callable[[T], None]) -> Envelope:
        try:
            with self._turn:
                response = self._session.post(
                    f"{self._address}/api/v1/{path}",
                    data=form,
                    stream=True,
                    timeout=self._timeout,
                    verify=self._session.verify,
                    cert=self._session.cert,
                )
                if response.status_code != 200:
                    raise Refused(
                        response.status_code, _message(b"".join(self._session.chunks(response, _MOST_SMALL_BYTES)))
                    )
                chunks = self._session.chunks(response)
                ahead = deque(islice(chunks, _MOST_AHEAD))
            while ahead:
                for element in elements.feed(ahead.popleft()):
                    take(element)
                ahead.extend(islice(chunks, 1))
            last, envelope = elements.close()
        except (requests.RequestException, HTTPError, OSError) as error:
            raise _unreachable(error) from None
        except BadAnswer as error:
            raise Unusable(str(error)) from None
        for element in last:
            take(element)
        if envelope.status != "success":
            raise Refused(200, envelope.error[:300])
        return envelope

    def _ask(self, question: Callable[[], Any]) -> Any:
        try:
            return question()
        except PrometheusApiClientException as error:
            raise Refused(*_status_in(str(error))) from None
        except (requests.JSONDecodeError, KeyError, TypeError, RecursionError):
            raise Unusable("it is not what Prometheus answers") from None
        except (requests.RequestException, HTTPError, OSError) as error:
            raise _unreachable(error) from None


def _message(body: bytes) -> str:
    """What a failure says of itself."""
    try:
        return msgspec.json.decode(body, type=Envelope).error[:300]
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return body[:100].decode("utf-8", "replace")


def _status_in(text: str) -> tuple[int, str]:
    """Status and message of a failure, as the library words it."""
    found = re.fullmatch(r"HTTP Status Code (\d{3}) \((b.*)\)", text, re.DOTALL)
    if found is None:
        return 0, text[:300]
    body = ast.literal_eval(found[2])
    return int(found[1]), _message(body if isinstance(body, bytes) else b"")


def _unreachable(error: Exception) -> Unreachable:
    """A failure of a connection, without the objects it tells of."""
    if isinstance(error, requests.Timeout | ReadTimeoutError):
        return Late("it does not answer in time")
    if isinstance(error, requests.exceptions.SSLError):
        return Unreachable(f"its certificate or ours is not taken: {error}"[:300])
    if isinstance(error, requests.ConnectionError | HTTPError):
        return Unreachable("it can not be reached, or hung up")
    return Unreachable(f"{type(error).__name__}: {error}"[:300])
