"""Which containers of the node are under protection, and what is known of each.

Owns the way from pods and policies that changed to leases and on to the watcher, and what of it is tried again. Who may
be protected, and why not, is table.py's matter; what comes of a spike raises.py's.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from actuator.leases import Leases
from actuator.memory import Target
from actuator.outcomes import Failed, SpikeWatcher
from actuator.settings import ActuatorSettings
from actuator.spikewords import Tell
from actuator.table import Locate, Standing, standings, target_key
from elastipod.api import ElasticPolicy
from elastipod.clock import Clock
from elastipod.pods import Container, Pod
from elastipod.reasons import Reason
from elastipod.telemetry import get_logger

log = get_logger(__name__)

_AGAIN_SECONDS: Final = 30.0
"""After so long, what could not be watched is tried again."""


@dataclass(slots=True)
class Guarded:
    """A container that was handed to the watcher."""

    target: Target
    is_watched: bool = False
    """Whether its events are listened to."""
    told_at: float = 0.0
    told: Tell | Failed | None = None
    """What was told of it last."""
    accepted_bytes: int = 0
    """The limit that the API accepted last."""
    is_leaping: bool = False
    """Raised, and to be asked of the API when its leap is over (v1)."""
    is_above: bool = False
    """Raised in the cgroup, and then refused by the API: to be lowered again."""

    def tell(self, told: Tell | Failed, now: float) -> None:
        self.told, self.told_at = told, now


class Protection:
    """The containers of one node. `look_again` is called where another decision is due in a moment."""

    def __init__(
        self,
        settings: ActuatorSettings,
        clock: Clock,
        watcher: SpikeWatcher,
        leases: Leases,
        locate: Locate,
        look_again: Callable[[], None],
    ) -> None:
        self.guarded: dict[str, Guarded] = {}
        """By `Target.key`."""
        self._settings, self._clock, self._watcher, self._leases = settings, clock, watcher, leases
        self._locate, self._look_again = locate, look_again
        self._pods: dict[str, Pod] = {}
        """By UID, as are the two below."""
        self._standings: dict[str, list[Standing]] = {}
        self._undecided: dict[str, None] = {}
        """Pods to decide about: what is known of the others still holds."""
        self._is_complete = False

    # What changed.

    def note(self, old: Pod | None, new: Pod | None) -> None:
        """A pod as it was and as it is; None where there was or is none."""
        if old is not None:
            self._pods.pop(old.uid, None)
            self.decide_again(old.uid)
        if new is not None:
            self._pods[new.uid] = new
            self.decide_again(new.uid)

    def note_policies(self) -> None:
        """Policies changed, and so may what holds for any pod."""
        self._undecided.update(dict.fromkeys(self._pods))

    def decide_again(self, uid: str) -> None:
        """What is known of a pod may not hold."""
        self._undecided[uid] = None

    # What is decided.

    @property
    def is_decided(self) -> bool:
        return self._is_complete and not self._undecided

    def decide(self, policies: Sequence[ElasticPolicy]) -> list[str]:
        """Who is protected of the pods that are new or another; what ended is forgotten, and named."""
        wanted = self._wanted(policies)
        ended = [
            key for key, one in self.guarded.items() if one.target.pod_uid in self._undecided and key not in wanted
        ]
        fresh = {key: target for key, target in wanted.items() if self._target(key) != target}
        try:
            self._leases.renew(fresh, ended, self.guarded)
        except OSError:
            log.warning("no lease, no hold", problem=self._leases.problem, containers=len(fresh))
            return []
        # A new container's group appears a moment after its status.
        self._undecided = {
            uid: None
            for uid in self._undecided
            if any(one.reason is Reason.NOT_RUNNING for one in self._standings.get(uid, ()))
        }
        if self._undecided:
            self._look_again()
        for key in ended:
            del self.guarded[key]
            self._watcher.drop(key)
        for key, target in wanted.items():
            known = self._target(key)
            if key in fresh or known is None or known.on_node != target.on_node:
                self.guarded.setdefault(key, Guarded(target)).target = target
                self._watcher.add(target)
        if not self._is_complete:
            self._is_complete = True
            self._watcher.complete()
            # The guard raises until it has seen that we are there.
            self._look_again()
        return ended

    def _wanted(self, policies: Sequence[ElasticPolicy]) -> dict[str, Target]:
        """Who is to be protected of the undecided pods."""
        wanted: dict[str, Target] = {}
        for uid in self._undecided:
            self._standings.pop(uid, None)
            if uid in self._pods:
                found = standings(self._pods[uid], policies, self._settings, self.locate, self._leases.memos)
                self._standings[uid] = found
                wanted |= {one.target.key: one.target for one in found if one.target is not None}
        return wanted

    def standings(self, pod: Pod) -> Sequence[Standing]:
        """Where the pod's containers stand, as decided last."""
        return self._standings.get(pod.uid, ())

    def locate(self, pod: Pod, container: Container) -> tuple[str, str] | None:
        """The groups of a container's pod and of itself, as they were found already or are now."""
        known = self._target(target_key(pod, container))
        return (known.pod_group, known.group) if known is not None else self._locate(pod, container)

    def find(self, key: str) -> tuple[Pod, Container] | None:
        """The pod and container as they stand now; None once they are gone."""
        pod = self._pods.get(key.partition("/")[0])
        if pod is None:
            return None
        return next(((pod, one) for one in pod.sized_containers if target_key(pod, one) == key), None)

    def _target(self, key: str) -> Target | None:
        known = self.guarded.get(key)
        return known.target if known is not None else None

    # What the watcher says of it.

    def watched(self, key: str) -> None:
        """Its events are listened to."""
        known = self.guarded.get(key)
        if known is not None:
            known.is_watched = True
            if isinstance(known.told, Failed):
                known.told = None

    def failed(self, key: str, failed: Failed) -> None:
        """Tell it once, and try again later where the container is not watched for it."""
        known = self.guarded.get(key)
        if known is None or known.told != failed:
            log.warning("container not protected", container=key, error=failed.message)
        if known is not None:
            known.tell(failed, self._clock.now())
            if not known.is_watched:
                asyncio.get_running_loop().call_later(_AGAIN_SECONDS, self._watch_again, key)

    def _watch_again(self, key: str) -> None:
        known = self.guarded.get(key)
        if known is not None and not known.is_watched:
            self._watcher.add(known.target)

    def gone(self, key: str) -> None:
        """The container ended before its pod told so."""
        known = self.guarded.pop(key, None)
        if known is not None:
            self.decide_again(known.target.pod_uid)
