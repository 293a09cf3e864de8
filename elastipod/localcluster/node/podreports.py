"""What a node tells the API of its pods.

Owns the writes of status and the last delete, and what becomes of one that fails: it is due again. A run that ended is
forgotten on the node only when the API knows how.
"""

from typing import Any, Final

import msgspec

from elastipod.backoff import Backoff
from elastipod.clock import Clock
from elastipod.kube.connection import Connection, PatchType
from elastipod.kube.errors import Conflict, Forbidden, Invalid, KubeError, NotFound
from elastipod.kube.resources import PODS
from elastipod.localcluster.node.localpod import LocalPod
from elastipod.localcluster.node.runtime import Runtime
from elastipod.telemetry import get_logger

log = get_logger(__name__)

Json = dict[str, Any]

_AGAIN: Final = Backoff(first_seconds=0.5, most_seconds=30.0)


class PodReports:
    """Writes for one node. Both writes return when they are due again, None when they are done."""

    def __init__(self, connection: Connection, clock: Clock, runtime: Runtime) -> None:
        self._connection = connection
        self._clock = clock
        self._runtime = runtime

    async def tell(self, pod: LocalPod, status: Json) -> float | None:
        """Write a status that says something new."""
        row = pod.row
        if status != pod.told:
            body = msgspec.json.encode({"metadata": {"uid": row.uid}, "status": status})
            try:
                await self._connection.patch(
                    PODS, row.namespace, row.name, body, patch_type=PatchType.MERGE, subresource="status"
                )
            except (NotFound, Conflict, Invalid, Forbidden) as error:
                # The pod was replaced or removed; its watch will say so.
                log.info("status not taken", pod=row.key, error=str(error))
            except KubeError as error:
                log.warning("status not written", pod=row.key, error=str(error))
                return self._due_again(pod)
            pod.told, pod.failures = status, 0
        for identity in pod.to_forget:
            self._runtime.forget(identity)
        pod.to_forget.clear()
        return None

    async def delete(self, pod: LocalPod) -> float | None:
        """The last word on a pod that was asked to go, after nothing of it is left here."""
        row = pod.row
        if not pod.is_removed:
            await self._runtime.remove_pod(pod.sandbox)
            pod.is_removed = True
        body = msgspec.json.encode({"gracePeriodSeconds": 0, "preconditions": {"uid": row.uid}})
        try:
            await self._connection.delete(PODS, row.namespace, row.name, body=body)
        except (NotFound, Conflict):
            return None
        except KubeError as error:
            log.warning("pod not deleted", pod=row.key, error=str(error))
            return self._due_again(pod)
        return None

    def _due_again(self, pod: LocalPod) -> float:
        pod.failures += 1
        return self._clock.now() + _AGAIN.delay_seconds(pod.failures)
