"""What a process tells of itself: log lines and metrics. Set up once per process.

Owns the form of both: a log line is a constant sentence and fields. Built on the standard library's logging, since the
actuator has to be small on every node. What is told is each part's matter.
"""

import json
import logging
import sys
from typing import TYPE_CHECKING, Any, Final, TextIO

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from elastipod.clock import to_rfc3339_micro

if TYPE_CHECKING:
    # Who only tells needs nothing that is built, as where the guard runs.
    from elastipod.pods import Workload

_FACTS: Final = "facts"
_CONTAINER: Final = ("namespace", "workload_kind", "workload", "container")


class Log:
    """A logger that takes a constant sentence and then fields."""

    __slots__ = ("_logger",)

    def __init__(self, name: str) -> None:
        self._logger = logging.getLogger(name)

    def debug(self, sentence: str, **facts: object) -> None:
        self._tell(logging.DEBUG, sentence, facts)

    def info(self, sentence: str, **facts: object) -> None:
        self._tell(logging.INFO, sentence, facts)

    def warning(self, sentence: str, **facts: object) -> None:
        self._tell(logging.WARNING, sentence, facts)

    def error(self, sentence: str, **facts: object) -> None:
        self._tell(logging.ERROR, sentence, facts)

    def exception(self, sentence: str, **facts: object) -> None:
        """An error with the traceback of what is being handled."""
        self._tell(logging.ERROR, sentence, facts, trace=True)

    def _tell(self, level: int, sentence: str, facts: dict[str, object], *, trace: bool = False) -> None:
        if self._logger.isEnabledFor(level):
            # As the logger itself would make it, without a search for the line that called.
            error = sys.exc_info() if trace else None
            record = logging.LogRecord(self._logger.name, level, "", 0, sentence, None, error)
            setattr(record, _FACTS, facts)
            self._logger.handle(record)


def get_logger(name: str) -> Log:
    """The logger of a module."""
    return Log(name)


def configure_logging(level: str = "info", *, as_json: bool = True, stream: TextIO = sys.stderr) -> None:
    """Log lines of this process: JSON for machines, `key=value` for people. Other libraries' from warnings on."""
    handler = logging.StreamHandler(stream)
    handler.setFormatter(_JsonFormatter() if as_json else _TextFormatter())
    # No line tells of them, and each costs.
    logging.logThreads = logging.logProcesses = logging.logMultiprocessing = False
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    for ours in ("elastipod", "recommender", "updater", "actuator"):
        logging.getLogger(ours).setLevel(level.upper())


# json.dumps would make an encoder for each line.
_to_json: Final = json.JSONEncoder(default=str).encode


class _JsonFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "at": to_rfc3339_micro(record.created),
            "level": record.levelname.lower(),
            "event": record.getMessage(),
            "logger": record.name,
            **getattr(record, _FACTS, {}),
        }
        if record.exc_info:
            line["trace"] = self.formatException(record.exc_info)
        return _to_json(line)


class _TextFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        facts = getattr(record, _FACTS, {})
        told = "".join(f" {name}={_quoted(str(value))}" for name, value in facts.items())
        line = f"{to_rfc3339_micro(record.created)} {record.levelname.lower()} {_quoted(record.getMessage())}{told}"
        return f"{line}\n{self.formatException(record.exc_info)}" if record.exc_info else line


def _quoted(text: str) -> str:
    """As it is where it is plain; otherwise quoted, with whatever could move a cursor or forge a line escaped."""
    return text if text.isprintable() and text and not set(text) & set(' "=') else json.dumps(text)


class WorkloadCounter:
    """A counter by container of a workload, and by more labels. Of too many, the last count without their names."""

    def __init__(self, counter: Counter, most: int) -> None:
        self._counter, self._most = counter, most
        self._known: set[tuple[str, ...]] = set()

    def count(self, workload: "Workload", container: str, *more: str) -> None:
        """One more."""
        names = (workload.namespace, workload.kind, workload.name, container)
        if len(self._known) < self._most:
            self._known.add(names)
        self._counter.labels(*(names if names in self._known else ("",) * len(names)), *more).inc()


class Metrics:
    """The metrics of one process, all named `elastipod_...`, in a registry of their own."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()

    def counter(self, name: str, what: str, *labels: str) -> Counter:
        """A counter; `_total` is added to its name."""
        return Counter(f"elastipod_{name}", what, labels, registry=self.registry)

    def workload_counter(self, name: str, what: str, *more: str, most: int) -> WorkloadCounter:
        """A counter `workload_...` by container, for as many as `most` of them."""
        return WorkloadCounter(self.counter(f"workload_{name}", what, *_CONTAINER, *more), most)

    def gauge(self, name: str, what: str, *labels: str) -> Gauge:
        """A value that goes up and down."""
        return Gauge(f"elastipod_{name}", what, labels, registry=self.registry)

    def histogram(self, name: str, what: str, *labels: str, buckets: tuple[float, ...]) -> Histogram:
        """A distribution, in seconds or bytes as its name says."""
        return Histogram(f"elastipod_{name}", what, labels, registry=self.registry, buckets=buckets)
