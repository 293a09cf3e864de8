"""The certificate that the webhook shows, read anew when its files change.

Owns the files and the TLS settings. A new pair is shown to new connections once a client that trusts it could use it;
one that is broken is told and leaves the old one in place. Connections that stand are not touched.
"""

import ssl
from pathlib import Path
from typing import Final

from elastipod.clock import Clock
from elastipod.telemetry import Metrics, get_logger

log = get_logger(__name__)

CERTIFICATE: Final = "tls.crt"
KEY: Final = "tls.key"
_ROUND_TRIPS: Final = 8


class Certificates:
    """The pair in a folder. `context` is what to listen with; `is_usable` once a pair could be used."""

    def __init__(self, folder: Path, clock: Clock, metrics: Metrics) -> None:
        self.context = _server_context()
        # A context can not be cleared of what was loaded: each pair gets its own, and connections choose the newest.
        self.context.sni_callback = self._choose_newest
        self.is_usable = False
        self.problem = ""
        """Why the files can not be used, or nothing."""
        self._ends_at = 0.0
        self._files = (folder / CERTIFICATE, folder / KEY)
        self._clock = clock
        self._newest = self.context
        self._loaded: tuple[tuple[int, ...], ...] = ()
        self._reloads = metrics.counter(
            "admission_certificate_reads", "Looks at changed certificate files, by what came of it", "outcome"
        )
        self._shown_end = metrics.gauge(
            "admission_certificate_ends_at_seconds", "When the certificate in use ends, in Unix seconds"
        )

    @property
    def has_ended(self) -> bool:
        """Whether no client trusts the pair in use any more."""
        return self.is_usable and self._clock.now() >= self._ends_at

    def refresh(self) -> None:
        """Read the files where they changed."""
        try:
            signature = tuple(_signature(path) for path in self._files)
            if signature == self._loaded:
                return
            newest = _server_context()
            # Never ask a terminal for a password.
            newest.load_cert_chain(*self._files, password="")
            ends_at = _proved(newest, self._files[0])
        except (OSError, ValueError) as error:
            self._reloads.labels(outcome="failed").inc()
            problem = f"{' and '.join(str(path) for path in self._files)}: {error}"
            if problem != self.problem:
                log.error("certificate not taken", error=problem, keeps_the_old_one=self.is_usable)
            self.problem = problem
            return
        self._newest, self._loaded, self.problem, self.is_usable = newest, signature, "", True
        self._reloads.labels(outcome="taken").inc()
        self._ends_at = ends_at
        self._shown_end.set(ends_at)
        log.info("certificate taken", days_left=round((ends_at - self._clock.now()) / 86_400, 1))

    def _choose_newest(self, connection: ssl.SSLObject, _name: str | None, _context: ssl.SSLContext) -> None:
        connection.context = self._newest


def _server_context() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context


def _signature(path: Path) -> tuple[int, ...]:
    """What changes when a Secret's symlink is swapped, or the file is written."""
    found = path.stat()
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns


def _proved(context: ssl.SSLContext, certificate: Path) -> float:
    """When the certificate ends, as a client sees it that trusts just this one. Raises OSError where none would."""
    trusting = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    trusting.check_hostname = False
    trusting.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    trusting.load_verify_locations(cafile=certificate)
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = trusting.wrap_bio(to_client, to_server)
    server = context.wrap_bio(to_server, to_client, server_side=True)
    waiting = [client, server]
    for _ in range(_ROUND_TRIPS):
        waiting = [one for one in waiting if not _has_shaken_hands(one)]
    shown = client.getpeercert() if not waiting else None
    if not shown:
        raise OSError("no client could shake hands by it")
    return ssl.cert_time_to_seconds(str(shown["notAfter"]))


def _has_shaken_hands(side: ssl.SSLObject) -> bool:
    try:
        side.do_handshake()
    except ssl.SSLWantReadError:
        return False
    return True
