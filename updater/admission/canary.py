"""Whether the webhook has effect: an object that is created as a dry run has to come back with its mark.

Owns that object, the webhook's answer to it, and what is told of the outcome. It is a ConfigMap, since who may create
pods may run anything. Nothing is stopped by the outcome, least of all the webhook itself.
"""

import math
import secrets
from typing import Any, Final

import msgspec

from elastipod.clock import Clock
from elastipod.kube.connection import Connection
from elastipod.kube.errors import Forbidden, KubeError, StatusError
from elastipod.kube.resources import CONFIG_MAPS
from elastipod.kube.shapes import Json, MetaShape
from elastipod.pods import OWN_PREFIX
from elastipod.reasons import Reason
from elastipod.telemetry import Metrics, get_logger
from updater.admission.review import NewMeta, annotate
from updater.admission.settings import AdmissionSettings

log = get_logger(__name__)

CANARY: Final = f"{OWN_PREFIX}canary"
"""The label says what the webhook is asked to answer, the annotation what it answered."""

_MOST_ASKED: Final = 63
_EFFECT: Final = {Reason.DONE: 1.0, Reason.NOT_PATCHED: 0.0}


class _Object(Json, frozen=True):
    metadata: NewMeta = NewMeta()


_objects: Final = msgspec.json.Decoder(_Object)


def mark(raw: bytes | msgspec.Raw) -> list[dict[str, Any]]:
    """The webhook's JSON Patch for a new ConfigMap; empty where it is none that asks."""
    meta = _meta(raw)
    asked = (meta.labels or {}).get(CANARY, "")
    return annotate(meta, {CANARY: asked}) if 0 < len(asked) <= _MOST_ASKED else []


def outcome(created: bytes, asked: str) -> Reason:
    """What the object that came back says of the webhook. An answer to another question is none."""
    answered = (_meta(created).annotations or {}).get(CANARY)
    return Reason.DONE if answered == asked else Reason.NOT_PATCHED


def why_not_known(error: KubeError) -> Reason:
    """Why nothing came back."""
    match error:
        case Forbidden() if "cannot create resource" in error.message:
            return Reason.FORBIDDEN
        case StatusError() if error.code < 500:
            return Reason.REFUSED
    return Reason.UNREACHABLE


class Canary:
    """Creates the object every so many seconds, and tells what came of it."""

    def __init__(self, connection: Connection, clock: Clock, settings: AdmissionSettings, metrics: Metrics) -> None:
        self._connection, self._clock = connection, clock
        self._namespace, self._every_seconds = settings.canary_namespace, settings.canary_seconds
        self._last: Reason | None = None
        self._outcomes = metrics.counter(
            "admission_canaries", "Dry runs of a new object by what became of it", "outcome"
        )
        self._effect = metrics.gauge(
            "admission_effective", "1 where the last dry run came back patched, 0 where not, NaN where it is not known"
        )
        self._effect.set(math.nan)

    async def run(self) -> None:
        """Look again and again, for ever; first when the webhook has had time to be asked."""
        while True:
            await self._clock.sleep(self._every_seconds)
            await self.look()

    async def look(self) -> None:
        """Create the object, and tell what came of it."""
        asked = secrets.token_hex(8)
        meta = {"generateName": "elastipod-canary-", "namespace": self._namespace, "labels": {CANARY: asked}}
        body = msgspec.json.encode({"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta})
        try:
            created = await self._connection.create(CONFIG_MAPS, self._namespace, body, dry_run=True)
        except KubeError as error:
            self._tell(why_not_known(error), str(error))
        else:
            reason = outcome(created, asked)
            self._tell(reason, reason.explanation)

    def _tell(self, reason: Reason, message: str) -> None:
        self._outcomes.labels(outcome=reason.value).inc()
        self._effect.set(_EFFECT.get(reason, math.nan))
        if reason is self._last:
            return
        self._last = reason
        if reason is Reason.DONE:
            log.info("dry run came back patched", reason=reason.value)
        else:
            log.warning("dry run did not come back patched", reason=reason.value, message=message)


def _meta(raw: bytes | msgspec.Raw) -> MetaShape:
    """Nothing but an empty one where it can not be read."""
    try:
        return _objects.decode(raw).metadata
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return NewMeta()
