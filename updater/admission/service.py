"""The admission webhook as a part: gives new pods their size, from what is known and without asking anybody.

Owns the order in which a question is answered, and what is counted. It always allows; a pod that is not sized is
created as its template says.
"""

import asyncio
from pathlib import Path
from typing import Any, Final

from elastipod.clock import Clock
from elastipod.kube.connection import Connection
from elastipod.kube.decoding import BadObject
from elastipod.kube.resources import CONFIG_MAPS, PODS
from elastipod.loop import NotReady
from elastipod.owners import is_known
from elastipod.pods import Pod
from elastipod.reasons import Reason
from elastipod.telemetry import Metrics, get_logger
from updater.admission.canary import Canary, mark
from updater.admission.certificates import Certificates
from updater.admission.review import NewPod, Review, answer, patch_of, read_pod, read_review
from updater.admission.settings import AdmissionSettings
from updater.admission.sizing import Sizing, size_at_creation
from updater.admission.watching import CONTROLLER_KINDS, Watching
from updater.admission.webhook import Webhook
from updater.fleet import Fleet

log = get_logger(__name__)

_LOOK_SECONDS: Final = 0.02
_TOLD: Final = frozenset(
    {
        Reason.BAD_VALUE,
        Reason.CONFLICT,
        Reason.LIMIT_RANGE,
        Reason.QUOTA_EXCEEDED,
        Reason.QOS_CLASS,
        Reason.UNSUPPORTED_POD,
    }
)
"""Why a pod is not sized that a person can mend: told to whoever creates it."""


def decided(new: NewPod, fleet: Fleet, settings: AdmissionSettings) -> tuple[Sizing, list[dict[str, Any]]]:
    """What a new pod gets, and the JSON Patch that gives it; empty where the pod stays as it is."""
    facts = fleet.facts_of(new.pod)
    most = settings.max_boost_cpu_millicores or None
    sizing = size_at_creation(new.pod, facts, fleet.quotas(new.pod.namespace), max_boost_millicores=most)
    if not sizing.sizes:
        return sizing, []
    advised = facts.advice.containers if facts.advice is not None else {}
    by_advice = [
        name for name in sizing.sizes if name not in facts.stated and (name in advised or name in sizing.boosts)
    ]
    return sizing, patch_of(new, sizing, facts.advice.name if facts.advice is not None else "", by_advice)


class Admission:
    """A part of elastipod: `watch` keeps the view fresh and answers, `run_once` looks whether both is so."""

    name = "admission"

    def __init__(
        self,
        connection: Connection,
        clock: Clock,
        settings: AdmissionSettings | None = None,
        metrics: Metrics | None = None,
    ) -> None:
        self.settings = settings or AdmissionSettings()
        self.interval_seconds = self.settings.interval_seconds
        self.wake = asyncio.Event()
        metrics = metrics or Metrics()
        self.certificates = Certificates(Path(self.settings.certificate_folder), clock, metrics)
        self.webhook = Webhook(self.admit, self.settings.request_seconds, metrics)
        self.canary = Canary(connection, clock, self.settings, metrics)
        self._clock = clock
        self._fleet = Fleet(self.settings.recommender_names, self.settings.namespaces_off)
        self._watching = Watching(connection, clock, self._fleet)
        self._outcomes = metrics.counter("admissions", "New pods by what became of their size", "outcome")
        self._seconds = metrics.histogram(
            "admission_seconds",
            "From a question read to its answer",
            buckets=(0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0),
        )

    async def watch(self) -> None:
        """Keep the view and the certificate fresh, answer, and look whether that has effect, for ever."""
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._watching.run())
                group.create_task(self._listen())
                if self.settings.canary_namespace:
                    group.create_task(self.canary.run())
        finally:
            await self.webhook.stop()

    async def run_once(self) -> None:
        """Return once questions can be answered. Raises NotReady where they can not for now: nobody shall ask them."""
        until = self._clock.monotonic() + self.interval_seconds
        while obstacle := self._obstacle():
            if self._clock.monotonic() >= until:
                raise NotReady(obstacle)
            await self._clock.sleep(_LOOK_SECONDS)

    def explain(self, key: str) -> dict[str, Any] | None:
        """Nothing: what a pod was given stands in its annotation."""
        del key
        return None

    async def admit(self, body: bytes) -> bytes:
        """The answer to a review. Raises BadReview."""
        review = read_review(body)
        if review.new == CONFIG_MAPS.plural:
            return answer(review, patch=mark(review.raw))
        if review.new != PODS.plural:
            return answer(review)
        began = self._clock.monotonic()
        try:
            reason, answered = await self._size(review)
        except BadObject as bad:
            reason, answered = Reason.BAD_VALUE, answer(review, Reason.BAD_VALUE, warning=str(bad))
        except Exception:
            # Whatever it is, it is ours, and no pod shall suffer for it.
            log.exception("admission failed", namespace=review.namespace)
            reason, answered = Reason.INTERNAL_ERROR, answer(review, Reason.INTERNAL_ERROR)
        self._outcomes.labels(outcome=reason.value).inc()
        self._seconds.observe(self._clock.monotonic() - began)
        return answered

    async def _size(self, review: Review) -> tuple[Reason, bytes]:
        new = read_pod(review)
        if not self._watching.is_synced():
            return Reason.STALE_DATA, answer(review, Reason.STALE_DATA)
        await self._know_owners(new.pod)
        sizing, patch = decided(new, self._fleet, self.settings)
        workload = str(self._fleet.workload_of(new.pod))
        if patch:
            log.debug("pod sized", workload=workload)
            return sizing.reason, answer(review, sizing.reason, patch)
        warning = ""
        if sizing.reason in _TOLD:
            warning = f"{sizing.reason}, {sizing.message or sizing.reason.explanation}"
            log.info("pod not sized", workload=workload, reason=sizing.reason.value, message=sizing.message)
        return sizing.reason, answer(review, sizing.reason, warning=warning)

    async def _know_owners(self, pod: Pod) -> None:
        """Wait for the news of an owner or a node made just now, which may come a moment after its first pod."""
        until = self._clock.monotonic() + self.settings.owner_wait_seconds
        while self._lacks_owner(pod) or (self._watching.knows_nodes() and self._fleet.lacks_node(pod)):
            if self._clock.monotonic() >= until:
                return
            await self._clock.sleep(_LOOK_SECONDS)

    def _lacks_owner(self, pod: Pod) -> bool:
        unknown = self._fleet.unknown_owner(pod)
        return unknown is not None and unknown.kind in CONTROLLER_KINDS and is_known(unknown)

    def _obstacle(self) -> str:
        certificates = self.certificates
        if not self._watching.is_synced():
            return "not all is known of the cluster yet"
        if not self.webhook.is_listening:
            return certificates.problem or "the webhook does not listen yet"
        if certificates.has_ended:
            return "; ".join(filter(None, ("the certificate has ended", certificates.problem)))
        return ""

    async def _listen(self) -> None:
        """Read the certificate, listen once there is one, and look at it again and again."""
        while True:
            self.certificates.refresh()
            if self.certificates.is_usable and not self.webhook.is_listening:
                await self._start()
            await self._clock.sleep(self.interval_seconds)

    async def _start(self) -> None:
        host, port = self.settings.webhook_host, self.settings.webhook_port
        try:
            await self.webhook.start(host, port, self.certificates.context)
        except OSError as error:
            log.error("webhook can not listen", host=host, port=port, error=str(error))
        else:
            log.info("webhook listens", host=host, port=self.webhook.port)
