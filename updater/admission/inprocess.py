"""The webhook's decision for an API server in the same process: no watches, no TLS, nothing to wait for.

Owns reading what a new pod's size depends on, at the moment it is made. What it gets is service.py's decision.
"""

from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from elastipod.kube.decoding import BadObject
from elastipod.kube.resources import PODS, ResourceType
from elastipod.telemetry import get_logger
from updater.admission.review import Review, read_pod
from updater.admission.service import decided
from updater.admission.settings import AdmissionSettings
from updater.admission.watching import feeds
from updater.fleet import Fleet

log = get_logger(__name__)

Json = dict[str, Any]


class NewPods:
    """Sizes new pods. For each it reads all of the pod's namespace: there is little of it in such a cluster."""

    def __init__(self, settings: AdmissionSettings) -> None:
        self._settings = settings

    def patch(self, pod: Json, objects: Callable[[ResourceType, str], Iterable[bytes]]) -> list[Json]:
        """The JSON Patch for a pod that is being created; empty where it stays as it is, and where anything fails."""
        try:
            return self._patch(pod, objects)
        except Exception:
            # As with the webhook: whatever it is, it is ours, and no pod shall suffer for it.
            log.exception("new pod not looked at", pod=str(pod["metadata"].get("name")))
            return []

    def _patch(self, pod: Json, objects: Callable[[ResourceType, str], Iterable[bytes]]) -> list[Json]:
        namespace = str(pod["metadata"]["namespace"])
        fleet = Fleet(self._settings.recommender_names, self._settings.namespaces_off)
        for resource, (decode, put) in feeds(fleet).items():
            for number, raw in enumerate(objects(resource, namespace if resource.namespaced else "")):
                try:
                    put(f"{namespace}/{number}", None, decode(raw))
                except BadObject as bad:
                    log.warning("object left out", resource=resource.plural, error=str(bad))
        review = Review("", "", PODS.plural, namespace=namespace, raw=msgspec.Raw(msgspec.json.encode(pod)))
        new = read_pod(review)
        return decided(new, fleet, self._settings)[1]
