"""A real Prometheus on a free port, holding what a test says.

Owns its making and its end. Samples are put in as blocks, so that days of them take a second.
"""

import json
import shutil
import socket
import subprocess
import tempfile
import threading
import urllib.error
import urllib.request
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from elastipod.clock import SystemClock

Labels = Mapping[str, str]
Samples = Iterable[tuple[float, float]]

_CONFIG = "global: {scrape_interval: 1m}\n"
_READY_SECONDS = 30


def why_no_prometheus() -> str:
    """Nothing where a Prometheus can be started, else what is in the way."""
    missing = [name for name in ("prometheus", "promtool") if shutil.which(name) is None]
    return f"{' and '.join(missing)} not installed" if missing else ""


class Metrics:
    """Series of some metrics, as OpenMetrics has them; a metric's series stand together."""

    def __init__(self) -> None:
        self._texts: dict[str, list[str]] = {}

    def add(self, metric: str, labels: Labels, samples: Samples) -> None:
        """One series: times in Unix seconds, and values."""
        written = ",".join(f"{name}={json.dumps(value)}" for name, value in labels.items())
        lines = self._texts.setdefault(metric, [])
        lines += [f"{metric}{{{written}}} {value} {at:.3f}\n" for at, value in samples]

    def write(self, path: Path) -> None:
        with path.open("w", encoding="utf-8") as file:
            for metric, lines in self._texts.items():
                is_counter = metric.endswith("_total")
                file.write(f"# TYPE {metric.removesuffix('_total')} {'counter' if is_counter else 'gauge'}\n")
                file.writelines(lines)
            file.write("# EOF\n")


@contextmanager
def serving(metrics: Metrics, *flags: str) -> Iterator[str]:
    """The address of a Prometheus that holds these, for as long as it is needed."""
    with tempfile.TemporaryDirectory(prefix="prometheus-") as folder:
        place = Path(folder)
        metrics.write(place / "metrics.txt")
        backfill(place)
        with running(place, *flags) as url:
            yield url


def backfill(place: Path) -> None:
    """Make blocks in `data` of what `metrics.txt` says."""
    words = ("promtool", "tsdb", "create-blocks-from", "openmetrics", "--max-block-duration=384h", "-q")
    subprocess.run([*words, str(place / "metrics.txt"), str(place / "data")], check=True, capture_output=True)


@contextmanager
def running(place: Path, *flags: str, config: str = _CONFIG) -> Iterator[str]:
    """A Prometheus over a folder that holds its data."""
    (place / "prometheus.yml").write_text(config)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with (place / "log").open("wb") as log:
        process = subprocess.Popen(
            [
                "prometheus",
                f"--config.file={place / 'prometheus.yml'}",
                f"--storage.tsdb.path={place / 'data'}",
                f"--web.listen-address=127.0.0.1:{port}",
                "--storage.tsdb.retention.time=100y",
                "--log.level=warn",
                *flags,
            ],
            stdout=log,
            stderr=log,
        )
    try:
        _wait_ready(f"http://127.0.0.1:{port}", process, place / "log")
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(20)


def _wait_ready(url: str, process: "subprocess.Popen[bytes]", log: Path) -> None:
    clock, pause = SystemClock(), threading.Event()
    deadline = clock.monotonic() + _READY_SECONDS
    while True:
        try:
            with urllib.request.urlopen(f"{url}/-/ready", timeout=5):
                return
        except (urllib.error.URLError, ConnectionError, TimeoutError):
            if process.poll() is not None or clock.monotonic() > deadline:
                raise RuntimeError(f"prometheus is not ready: {log.read_text('utf-8', 'replace')[-1000:]}") from None
            pause.wait(0.02)
