"""What a process tells of itself: log lines and metrics. Set up once per process.

Owns the form of both. What is told is each part's matter.
"""

import logging
import sys
from typing import TextIO

import structlog
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram


def get_logger(name: str) -> structlog.stdlib.BoundLogger:
    """A logger that takes a constant sentence and then fields."""
    logger: structlog.stdlib.BoundLogger = structlog.get_logger(name)
    return logger


def configure_logging(level: str = "info", *, as_json: bool = True, stream: TextIO = sys.stderr) -> None:
    """Log lines of this process: JSON for machines, `key=value` for people."""
    renderer: structlog.typing.Processor = (
        structlog.processors.JSONRenderer() if as_json else structlog.processors.LogfmtRenderer(sort_keys=False)
    )
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            structlog.processors.UnicodeDecoder(),
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(getattr(logging, level.upper())),
        logger_factory=structlog.WriteLoggerFactory(file=stream),
        cache_logger_on_first_use=False,
    )
    logging.basicConfig(level=logging.WARNING, stream=stream, format="%(levelname)s %(name)s %(message)s")


class Metrics:
    """The metrics of one process, all named `elastipod_...`, in a registry of their own."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()

    def counter(self, name: str, what: str, *labels: str) -> Counter:
        """A counter; `_total` is added to its name."""
        return Counter(f"elastipod_{name}", what, labels, registry=self.registry)

    def gauge(self, name: str, what: str, *labels: str) -> Gauge:
        """A value that goes up and down."""
        return Gauge(f"elastipod_{name}", what, labels, registry=self.registry)

    def histogram(self, name: str, what: str, *labels: str, buckets: tuple[float, ...]) -> Histogram:
        """A distribution, in seconds or bytes as its name says."""
        return Histogram(f"elastipod_{name}", what, labels, registry=self.registry, buckets=buckets)
