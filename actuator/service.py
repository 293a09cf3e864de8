"""The actuator of one node.

Owns the order of its work: read pods and policies, decide who is protected, lease and hand over to the watcher, and
carry what the watcher wants to the API. Leases are leases.py's matter, what is decided about a spike spikes.py's.
"""

import asyncio
import random
from collections.abc import Callable
from functools import partial
from typing import Any, Final, Protocol

import msgspec

from actuator.asking import Asker
from actuator.direct import DirectMode
from actuator.journal import Journal, Record
from actuator.leases import Leases
from actuator.memory import Target
from actuator.rescue import Failed, Gone, OnOutcome, Outcome, Watched
from actuator.sampling import Sampler
from actuator.settings import ActuatorSettings
from actuator.shrinking import Done, ShrinkStep
from actuator.spikewords import Accepted, AskApi, Refused, Tell
from actuator.table import Locate, Standing, standings, target_key
from actuator.telling import Numbers, Teller
from elastipod.api import ElasticNodeStatus
from elastipod.backoff import Backoff
from elastipod.clock import Clock
from elastipod.kube.connection import Connection
from elastipod.kube.errors import KubeError
from elastipod.kube.reflector import Reflector
from elastipod.kube.resources import ELASTIC_NODES, ELASTIC_POLICIES, NODES, PODS
from elastipod.kube.rows import decode_elastic_node, decode_node, decode_pod, decode_policy
from elastipod.minutes import PATH
from elastipod.pods import Container, Pod
from elastipod.reasons import Reason
from elastipod.telemetry import Metrics, get_logger

log = get_logger(__name__)

_AGAIN_SECONDS: Final = 30.0
"""After so long, what could not be watched is tried again."""


class SpikeWatcher(Protocol):
    """`Watcher` in a thread, or `LoopWatcher` on the event loop."""

    enforcement: str
    holds: bool
    on_outcome: OnOutcome

    def add(self, target: Target) -> None: ...

    def complete(self) -> None:
        """All that is to be watched at the start was added."""
        ...

    def drop(self, key: str) -> None: ...

    def answer(self, key: str, answer: Accepted | Refused) -> None: ...

    async def run(self) -> None:
        """For ever; leaves nothing held when cancelled."""
        ...


class Actuator:
    """Protects the containers of one node. `journal` None remembers nothing over a restart (a simulation's)."""

    name = "actuator"

    def __init__(
        self,
        connection: Connection,
        clock: Clock,
        settings: ActuatorSettings,
        watcher: SpikeWatcher,
        locate: Locate,
        *,
        journal: Journal | None = None,
        metrics: Metrics | None = None,
        address: str = "",
        guard_restores: Callable[[], int] = lambda: 0,
        guard_raises: Callable[[], dict[str, int]] = dict,
        release: Callable[[Record], None] = lambda _: None,
        direct: DirectMode | None = None,
        sampler: Sampler | None = None,
        lower: Callable[[str, str, int], ShrinkStep] | None = None,
        spread: random.Random | None = None,
        lacks: Callable[[], tuple[str, ...]] = tuple,
    ) -> None:
        self.interval_seconds = settings.interval_seconds
        self.wake = asyncio.Event()
        self._settings, self._clock, self._watcher, self._locate = settings, clock, watcher, locate
        self._address, self._connection, self._guard_restores = address, connection, guard_restores
        self._guard_raises, self._lacks = guard_raises, lacks
        self._numbers = Numbers(metrics or Metrics())
        self._teller = Teller(connection, clock, settings.node_name)
        backoff = Backoff(settings.retry_first_seconds, settings.retry_most_seconds, jitter=0.5)
        self._asker = Asker(connection, clock, backoff, self._on_answer, spread or random.Random(0))
        self._pods = Reflector(
            connection,
            PODS,
            decode_pod,
            clock,
            field_selector=f"spec.nodeName={settings.node_name}",
            on_change=self._note_pod,
        )
        self._policies = Reflector(connection, ELASTIC_POLICIES, decode_policy, clock, on_change=self._note_policy)
        self._direct, self._lower, self._sampler = direct, lower, sampler
        self._direct_problem = ""
        self._above: dict[str, Target] = {}
        """Raised in the cgroup, and then refused by the API: to be lowered again."""
        self._node = Reflector(
            connection,
            ELASTIC_NODES,
            decode_elastic_node,
            clock,
            field_selector=f"metadata.name={settings.node_name}",
            on_change=lambda *_: self.wake.set(),
        )
        self._by_uid: dict[str, Pod] = {}
        self._undecided: dict[str, None] = {}
        """UIDs of pods to decide about: what is known of the others still holds."""
        self._standings: dict[str, list[Standing]] = {}
        """By the UID of the pod."""
        self._targets: dict[str, Target] = {}
        self._watched: set[str] = set()
        """Of these, those whose events are listened to."""
        self._leases = Leases(journal, settings, clock, holds=watcher.holds, release=release)
        self._told: dict[str, tuple[float, Tell | Failed]] = {}
        self._accepted: dict[str, int] = {}
        self._leaping: set[str] = set()
        """Raised, and to be asked of the API when their leap is over (v1)."""
        self._loop: asyncio.AbstractEventLoop | None = None
        self._telling: set[asyncio.Task[None]] = set()
        self._is_complete = False
        watcher.on_outcome = self._outcome_from_anywhere

    async def watch(self) -> None:
        """Keep the node's pods and the policies fresh, and the watcher at work, for ever."""
        self._loop = asyncio.get_running_loop()
        tasks = [asyncio.create_task(one.run()) for one in (self._pods, self._policies, self._watcher)]
        if self._direct is not None:
            tasks.append(asyncio.create_task(self._node.run()))
        if self._sampler is not None:
            tasks.append(asyncio.create_task(self._sampler.run()))
        try:
            await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await self._asker.stop()

    async def run_once(self) -> None:
        """Read, decide, hand over, tell."""
        self._loop = asyncio.get_running_loop()
        if not self._pods.synced:
            self._clock_again()
            if self._lacks():
                await self._teller.tell_node(self._status())
            return
        if self._undecided or not self._is_complete:
            self._decide()
        self._adopt_raises()
        self._ask_again()
        self._numbers.node(len(self._targets), self._guard_restores())
        await self._take_back()
        await self._teller.tell_node(await self._enforced(self._status()))

    async def _take_back(self) -> None:
        """Bring cgroups down to a spec that the API would not raise, a step at a time, as usage allows."""
        for key, target in list(self._above.items()):
            if self._lower is None or key not in self._targets or self._asker.is_asking(key):
                del self._above[key]
                continue
            try:
                step = await asyncio.to_thread(self._lower, target.pod_group, target.group, target.spec_bytes)
            except OSError as error:
                log.info("not lowered", container=key, error=str(error))
                step = Done()
            if isinstance(step, Done):
                del self._above[key]

    async def _enforced(self, status: ElasticNodeStatus) -> ElasticNodeStatus:
        """What direct mode put in force, added to the status."""
        node = self._node.items.get(self._settings.node_name)
        if self._direct is None or node is None:
            return status
        try:
            raw = await self._connection.get(NODES, None, self._settings.node_name)
            report = await asyncio.to_thread(
                self._direct.run, list(self._pods.items.values()), node, decode_node(raw).allocatable, self._located
            )
        except (OSError, KubeError) as error:
            if str(error) != self._direct_problem:
                self._direct_problem = str(error)
                log.warning("direct mode stands still", error=self._direct_problem)
            return msgspec.structs.replace(
                status, message="; ".join(filter(None, (status.message, f"direct mode: {error}")))
            )
        self._direct_problem = ""
        return msgspec.structs.replace(status, allocated=report.allocated or None, actual=report.actual or None)

    def _decide(self) -> None:
        """Who is protected of the pods that are new or another, and what is new of it."""
        policies = list(self._policies.items.values())
        found: list[Standing] = []
        for uid in self._undecided:
            self._standings.pop(uid, None)
            if uid in self._by_uid:
                told = standings(self._by_uid[uid], policies, self._settings, self._located, self._leases.memos)
                self._standings[uid] = told
                found += told
        wanted = {one.target.key: one.target for one in found if one.target is not None}
        ended = [
            key for key, target in self._targets.items() if target.pod_uid in self._undecided and key not in wanted
        ]
        fresh = {key: target for key, target in wanted.items() if self._targets.get(key) != target}
        try:
            self._leases.renew(fresh, ended, self._targets)
        except OSError:
            log.warning("no lease, no hold", problem=self._leases.problem, containers=len(fresh))
            return
        # A new container's group appears a moment after its status.
        self._undecided = {
            uid: None
            for uid in self._undecided
            if any(one.reason is Reason.NOT_RUNNING for one in self._standings.get(uid, ()))
        }
        if self._undecided:
            self._clock_again()
        for key in ended:
            self._forget(key)
        for key, target in wanted.items():
            known = self._targets.get(key)
            if key in fresh or known is None or known.on_node != target.on_node:
                self._targets[key] = target
                self._watcher.add(target)
        if not self._is_complete:
            self._is_complete = True
            self._watcher.complete()
            # The guard raises until it has seen that we are there.
            self._clock_again()

    def _located(self, pod: Pod, container: Container) -> tuple[str, str] | None:
        known = self._targets.get(target_key(pod, container))
        return (known.pod_group, known.group) if known is not None else self._locate(pod, container)

    def explain(self, key: str) -> dict[str, Any] | None:
        """Facts about a pod: per container whether it is protected, why not, and what became of its last spike."""
        pod = self._pods.items.get(key)
        told = self._standings.get(pod.uid, ()) if pod is not None else ()
        containers = {one.container: self._facts(one) for one in told}
        if not containers:
            return None
        return {
            "node": self._settings.node_name,
            "enforcement": self._watcher.enforcement,
            "problem": self._leases.problem,
            "containers": containers,
        }

    def _facts(self, standing: Standing) -> dict[str, Any]:
        target = standing.target
        if target is None:
            reason = standing.reason or Reason.NOT_RUNNING
            facts: dict[str, Any] = {"protected": False, "reason": reason.value, "why": reason.explanation}
            return facts | ({"message": standing.message} if standing.message else {})
        facts = {
            "protected": target.key in self._watched and not self._leases.problem,
            "limitBytes": target.spec_bytes,
            "ceilingBytes": target.ceiling_bytes,
            "holdSeconds": target.deadline_seconds,
            "rescues": len(target.rescues),
        }
        if self._sampler is not None:
            facts["lastMinute"] = self._sampler.last_minute(target.pod_uid, target.container)
        if standing.message:
            facts["message"] = standing.message
        if target.key in self._told:
            at, told = self._told[target.key]
            facts["last"] = {"at": at, **msgspec.to_builtins(told)}
        if self._asker.is_asking(target.key):
            facts["asking"] = {
                "tries": self._asker.tries.get(target.key, 0),
                "error": self._asker.last_error.get(target.key, ""),
            }
        return facts

    def answer(self, path: str, query: str) -> bytes | None:
        """What is served beside all parts' own: the last minutes of usage."""
        if self._sampler is None or path != PATH:
            return None
        since = query.removeprefix("since=")
        return self._sampler.answer(int(since) if since.isdecimal() and len(since) < 20 else 0)

    # What the watcher wants.

    def _outcome_from_anywhere(self, key: str, outcome: Outcome) -> None:
        if self._loop is None:
            return
        try:
            running = asyncio.get_running_loop()
        except RuntimeError:
            running = None
        if running is self._loop:
            self._outcome(key, outcome)
        elif not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._outcome, key, outcome)

    def _outcome(self, key: str, outcome: Outcome) -> None:
        match outcome:
            case AskApi(limit_bytes):
                self._leaping.discard(key)
                self._asker.ask(key, limit_bytes, partial(self._find, key))
                self._remember(key, ours=limit_bytes, pending=limit_bytes)
                self._tell_leap(key)
            case Tell():
                self._spike(key, outcome)
            case Failed():
                self._fail(key, outcome)
            case Gone():
                target = self._targets.pop(key, None)
                self._watched.discard(key)
                self._leaping.discard(key)
                if target is not None:
                    self._undecided[target.pod_uid] = None
                self.wake.set()
            case Watched():
                self._watched.add(key)
                if isinstance(self._told.get(key, (0.0, None))[1], Failed):
                    del self._told[key]

    def _fail(self, key: str, failed: Failed) -> None:
        """Tell it once, and try again later where the container is not watched for it."""
        if self._told.get(key, (0.0, None))[1] != failed:
            log.warning("container not protected", container=key, error=failed.message)
        self._told[key] = (self._clock.now(), failed)
        if key in self._targets and key not in self._watched:
            asyncio.get_running_loop().call_later(_AGAIN_SECONDS, self._watch_again, key)

    def _watch_again(self, key: str) -> None:
        if key in self._targets and key not in self._watched:
            self._watcher.add(self._targets[key])

    def _spike(self, key: str, told: Tell) -> None:
        self._numbers.spike(told, self._find(key))
        if told.reason is not Reason.PAGE_CACHE:
            self._told[key] = (self._clock.now(), told)
            log.info(
                "spike",
                container=key,
                reason=told.reason.value,
                limit_bytes=told.limit_bytes,
                milliseconds=round(told.seconds * 1000, 2),
            )
        if told.reason is Reason.RAISED and not self._watcher.holds:
            self._leaping.add(key)
            self._remember(key, ours=told.limit_bytes, pending=told.limit_bytes, rescued=True)
            return
        if told.reason is Reason.RAISED:
            self._remember(key, ours=told.limit_bytes, rescued=True)
        self._tell(key, told)

    def _tell_leap(self, key: str) -> None:
        """Without holds one leap is many raises; its end, where the API is asked, tells of the last."""
        _, last = self._told.get(key, (0.0, None))
        if not self._watcher.holds and isinstance(last, Tell) and last.reason is Reason.RAISED:
            self._tell(key, last)

    def _tell(self, key: str, told: Tell) -> None:
        found = self._find(key)
        if found is not None:
            task = asyncio.create_task(self._teller.tell_spike(found[0], found[1].name, told))
            self._telling.add(task)
            task.add_done_callback(self._telling.discard)

    def _remember(self, key: str, *, ours: int = 0, pending: int | None = None, rescued: bool = False) -> None:
        target = self._targets.get(key)
        if target is None:
            return
        try:
            self._leases.note(target, ours=ours, pending=pending, rescued=rescued)
        except OSError as error:
            # It is written with the next decision.
            self._undecided[target.pod_uid] = None
            log.warning("rescue not recorded", container=key, error=str(error))

    def _on_answer(self, key: str, answer: Accepted | Refused) -> None:
        if isinstance(answer, Refused):
            self._remember(key, pending=0)
            if key in self._targets:
                self._above[key] = self._targets[key]
            if self._find(key) is not None:
                self._spike(key, Tell(answer.reason))
        else:
            self._accepted[key] = answer.limit_bytes
        self._watcher.answer(key, answer)

    def _adopt_raises(self) -> None:
        """What the guard raised while we were away is ours to ask of the API."""
        raised = self._guard_raises()
        for key, target in self._targets.items() if raised else ():
            if target.group in raised:
                self._remember(key, ours=raised[target.group], pending=raised[target.group])

    def _ask_again(self) -> None:
        """What an earlier run of ours had raised and not asked to the end: the spec follows the cgroup."""
        for key, pending in self._leases.pending():
            target = self._targets.get(key)
            if target is None or key in self._leaping or self._asker.is_asking(key):
                continue
            if pending > max(target.spec_bytes, self._accepted.get(key, 0)):
                self._asker.ask(key, pending, partial(self._find, key))

    def _find(self, key: str) -> tuple[Pod, Container] | None:
        pod = self._by_uid.get(key.partition("/")[0])
        if pod is None:
            return None
        return next(((pod, one) for one in pod.sized_containers if target_key(pod, one) == key), None)

    def _forget(self, key: str) -> None:
        self._targets.pop(key, None)
        self._watched.discard(key)
        self._leaping.discard(key)
        self._watcher.drop(key)
        self._asker.forget(key)
        self._told.pop(key, None)
        self._accepted.pop(key, None)

    def _note_pod(self, _key: str, old: Pod | None, new: Pod | None) -> None:
        if old is not None:
            self._by_uid.pop(old.uid, None)
            self._undecided[old.uid] = None
        if new is not None:
            self._by_uid[new.uid] = new
            self._undecided[new.uid] = None
        if self._sampler is not None:
            self._sampler.note(old, new)
        self.wake.set()

    def _note_policy(self, *_: object) -> None:
        self._undecided.update(dict.fromkeys(self._by_uid))
        self.wake.set()

    def _clock_again(self) -> None:
        """Look again soon."""
        asyncio.get_running_loop().call_later(1.0, self.wake.set)

    def _status(self) -> ElasticNodeStatus:
        mode = "Hold" if self._watcher.holds else "Raise"
        return ElasticNodeStatus(
            cgroup_version=self._watcher.enforcement,
            spike_protection="Off" if self._leases.problem or not self._settings.memory_spike_allowed else mode,
            address=self._address,
            message="; ".join(filter(None, (self._leases.problem, *self._lacks()))),
        )
