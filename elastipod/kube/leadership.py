"""One writer at a time, by a Lease.

Owns taking, keeping and giving up the Lease, and the fence around writes. Times are monotonic and counted from
before the call that renewed: Kubernetes has no fencing of its own, so a leader stops itself before another may start.
"""

import asyncio
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import msgspec
from msgspec import Struct

from elastipod.clock import Clock, to_rfc3339_micro
from elastipod.kube.connection import Connection, PatchType
from elastipod.kube.errors import Conflict, KubeError, NotFound, StatusError, Unreachable
from elastipod.kube.fencing import FencedConnection, within
from elastipod.kube.resources import LEASES
from elastipod.telemetry import get_logger

log = get_logger(__name__)

PART_OF: Final = {"app.kubernetes.io/part-of": "elastipod"}
ADDRESS_ANNOTATION: Final = "elastipod.io/address"
LACKS_ANNOTATION: Final = "elastipod.io/lacks"


@dataclass(frozen=True, slots=True)
class LeaseTimes:
    """How long a Lease holds, how long its holder still writes, and how often it is renewed."""

    duration_seconds: float = 15.0
    renew_deadline_seconds: float = 10.0
    retry_seconds: float = 2.0


class _Meta(Struct, rename="camel", frozen=True):
    resource_version: str = ""


class _Spec(Struct, rename="camel", frozen=True):
    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    acquire_time: str | None = None
    renew_time: str | None = None
    lease_transitions: int | None = None


class _Lease(Struct, frozen=True):
    metadata: _Meta = _Meta()
    spec: _Spec = _Spec()


_leases: Final = msgspec.json.Decoder(_Lease)


class Leadership:
    """Our claim to one Lease. `is_leader` is true only while nobody else may believe the same."""

    def __init__(
        self,
        connection: Connection,
        clock: Clock,
        *,
        namespace: str,
        name: str,
        identity: str,
        address: str = "",
        has_ended: Callable[[str], bool] = lambda _: False,
        lacks: Callable[[], tuple[str, ...]] = tuple,
        times: LeaseTimes | None = None,
        spread: random.Random | None = None,
    ) -> None:
        """`has_ended` knows of a holder that it is surely dead: its Lease is free, as if it had released it.

        `lacks` says what the cluster withholds from the holder; the Lease shows it.
        """
        self.identity = identity
        self.holder = ""
        self.changed = asyncio.Event()
        """Set at each change of `is_leader` that run() sees; whoever waits clears it."""
        self._connection = connection
        self._clock = clock
        self._namespace, self._name, self._address = namespace, name, address
        self._has_ended, self._lacks = has_ended, lacks
        self._times = times or LeaseTimes()
        self._spread = spread or random.Random(0)
        self._renewed_at: float | None = None
        self._seen: _Lease | None = None
        self._seen_version: str | None = None
        self._seen_at = 0.0
        self._was_leader = False

    @property
    def is_leader(self) -> bool:
        return (
            self._renewed_at is not None
            and self._clock.monotonic() < self._renewed_at + self._times.renew_deadline_seconds
        )

    @property
    def seconds_left(self) -> float:
        """How long nobody else may write; not positive where we do not lead."""
        if not self.is_leader or self._renewed_at is None:
            return 0.0
        return self._renewed_at + self._times.duration_seconds - self._clock.monotonic()

    async def run(self) -> None:
        """Take the Lease when it is free and renew it, for ever. Gives it up when cancelled."""
        try:
            while True:
                delay = self._times.retry_seconds
                try:
                    await self._try()
                except KubeError as error:
                    if isinstance(error, StatusError) and error.retry_after_seconds is not None:
                        delay = max(delay, error.retry_after_seconds)
                    log.warning("lease not renewed", lease=self._name, error=str(error), is_leader=self.is_leader)
                self._tell()
                await self._clock.sleep(delay * (1 + 0.1 * self._spread.random()))
        finally:
            await self.release()

    async def wait_until_leader(self) -> None:
        """Return once we lead."""
        while not self.is_leader:
            self.changed.clear()
            await self.changed.wait()

    async def wait_until_lost(self) -> None:
        """Return once we no longer lead."""
        while self._renewed_at is not None and self.is_leader:
            left = self._renewed_at + self._times.renew_deadline_seconds - self._clock.monotonic() + 0.001
            await self._clock.sleep(min(max(left, 0.0), self._times.retry_seconds))

    def guarded(self, connection: Connection) -> Connection:
        """The connection with its writes fenced: refused where we do not lead, cut off before another may."""
        return FencedConnection(connection, lambda: self.seconds_left)

    async def release(self) -> None:
        """Stop leading, and let the next one take over at once."""
        led, self._renewed_at = self._renewed_at is not None and self.is_leader, None
        self._tell()
        if not led or self._seen is None:
            return
        spec = _Spec("", 1, self._seen.spec.acquire_time, self._stamp(), self._seen.spec.lease_transitions)
        try:
            async with asyncio.timeout(self._times.retry_seconds):
                await self._patch(self._seen.metadata.resource_version, spec)
        except (KubeError, TimeoutError) as error:
            log.warning("lease not released", lease=self._name, error=str(error) or "timed out")

    async def _try(self) -> None:
        await within(self._times.renew_deadline_seconds / 2, self._take_or_look_again())

    async def _take_or_look_again(self) -> None:
        # Where the Lease had moved on it may be still ours, only with another label.
        if not await self._take():
            await self._take()

    async def _take(self) -> bool:
        """Take or renew the Lease if it is free or ours; False where it must be seen anew."""
        asked_at = self._clock.monotonic()
        if self._renewed_at is None or self._seen is None:
            try:
                self._see(await self._connection.get(LEASES, self._namespace, self._name))
            except NotFound:
                return await self._create(asked_at)
        if self._is_anothers():
            self._renewed_at = None
            return True
        seen, self._seen = self._seen, None
        assert seen is not None
        try:
            answer = await self._patch(seen.metadata.resource_version, self._claim(seen.spec))
        except (Conflict, NotFound):
            return False
        self._see(answer)
        self._renewed_at = asked_at
        return True

    def _is_anothers(self) -> bool:
        assert self._seen is not None
        held = self._seen.spec
        if not held.holder_identity or held.holder_identity == self.identity or self._has_ended(held.holder_identity):
            return False
        stated = held.lease_duration_seconds
        lasts = stated if stated is not None and stated > 0 else self._times.duration_seconds
        return self._clock.monotonic() < self._seen_at + lasts

    def _claim(self, held: _Spec) -> _Spec:
        is_ours = held.holder_identity == self.identity
        stamp = self._stamp()
        return _Spec(
            self.identity,
            int(self._times.duration_seconds),
            held.acquire_time if is_ours and held.acquire_time else stamp,
            stamp,
            (held.lease_transitions or 0) + (0 if is_ours else 1),
        )

    async def _create(self, asked_at: float) -> bool:
        stamp = self._stamp()
        spec = _Spec(self.identity, int(self._times.duration_seconds), stamp, stamp, 0)
        body = {
            "apiVersion": LEASES.api_version,
            "kind": LEASES.kind,
            "metadata": {"name": self._name, "namespace": self._namespace, **self._marks()},
            "spec": spec,
        }
        try:
            answer = await self._connection.create(LEASES, self._namespace, msgspec.json.encode(body))
        except Conflict:
            return False
        self._see(answer)
        self._renewed_at = asked_at
        return True

    async def _patch(self, resource_version: str, spec: _Spec) -> bytes:
        body = {"metadata": {"resourceVersion": resource_version, **self._marks()}, "spec": spec}
        return await self._connection.patch(
            LEASES, self._namespace, self._name, msgspec.json.encode(body), patch_type=PatchType.MERGE
        )

    def _marks(self) -> dict[str, dict[str, str]]:
        shown = {ADDRESS_ANNOTATION: self._address, LACKS_ANNOTATION: "; ".join(self._lacks())}
        return {"labels": PART_OF, "annotations": shown if self._address else {}}

    def _see(self, raw: bytes) -> None:
        """Note the Lease; how long it still holds counts from when we saw it change, whatever its clock says."""
        try:
            lease = _leases.decode(raw)
        except msgspec.DecodeError as error:
            raise Unreachable(f"the lease {self._name} can not be read: {error}") from None
        if lease.metadata.resource_version != self._seen_version:
            self._seen_at = self._clock.monotonic()
        self._seen, self._seen_version = lease, lease.metadata.resource_version
        self.holder = lease.spec.holder_identity or ""

    def _stamp(self) -> str:
        return to_rfc3339_micro(self._clock.now())

    def _tell(self) -> None:
        if self.is_leader is not self._was_leader:
            self._was_leader = self.is_leader
            self.changed.set()
            log.info("leading" if self._was_leader else "not leading", lease=self._name, holder=self.holder)
