"""The actuator of one node.

Owns the order of its work: read pods and policies, decide who is protected, carry on what the watcher wants, put in
force what direct mode admits, tell. Who is protected is protection.py's matter, what comes of a spike raises.py's.
"""

import asyncio
import random
from collections.abc import Callable
from typing import Any, assert_never

import msgspec

from actuator.asking import Asker
from actuator.direct import DirectMode
from actuator.explaining import explain_container
from actuator.journal import Journal, Record
from actuator.leases import Leases
from actuator.outcomes import Failed, Gone, Outcome, SpikeWatcher, Watched
from actuator.protection import Protection
from actuator.raises import Lower, Raises
from actuator.sampling import Sampler
from actuator.settings import ActuatorSettings
from actuator.spikewords import AskApi, Tell
from actuator.table import Locate, Standing
from actuator.telling import Numbers, Teller
from elastipod.api import ElasticNodeStatus
from elastipod.backoff import Backoff
from elastipod.clock import Clock
from elastipod.kube.connection import Connection
from elastipod.kube.errors import KubeError
from elastipod.kube.podrows import decode_pod
from elastipod.kube.reflector import Reflector
from elastipod.kube.resources import ELASTIC_NODES, ELASTIC_POLICIES, NODES, PODS
from elastipod.kube.rows import decode_elastic_node, decode_node, decode_policy
from elastipod.minutes import PATH
from elastipod.pods import Pod
from elastipod.telemetry import Metrics, get_logger

log = get_logger(__name__)


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
        lower: Lower | None = None,
        spread: random.Random | None = None,
        lacks: Callable[[], tuple[str, ...]] = tuple,
    ) -> None:
        self.interval_seconds = settings.interval_seconds
        self.wake = asyncio.Event()
        self._settings, self._watcher, self._connection, self._address = settings, watcher, connection, address
        self._guard_restores, self._guard_raises, self._lacks = guard_restores, guard_raises, lacks
        self._numbers = Numbers(metrics or Metrics())
        self._teller = Teller(connection, clock, settings.node_name)
        self._leases = Leases(journal, settings, clock, holds=watcher.holds, release=release)
        self._protection = Protection(settings, clock, watcher, self._leases, locate, self._look_again)
        backoff = Backoff(settings.retry_first_seconds, settings.retry_most_seconds, jitter=0.5)
        asker = Asker(connection, clock, backoff, spread or random.Random(0))
        self._raises = Raises(asker, self._protection, self._leases, watcher, self._teller, self._numbers, clock, lower)
        self._pods = Reflector(
            connection,
            PODS,
            decode_pod,
            clock,
            field_selector=f"spec.nodeName={settings.node_name}",
            on_change=self._note_pod,
        )
        self._policies = Reflector(connection, ELASTIC_POLICIES, decode_policy, clock, on_change=self._note_policy)
        self._node = Reflector(
            connection,
            ELASTIC_NODES,
            decode_elastic_node,
            clock,
            field_selector=f"metadata.name={settings.node_name}",
            on_change=lambda *_: self.wake.set(),
        )
        self._direct, self._direct_problem, self._sampler = direct, "", sampler
        self._loop: asyncio.AbstractEventLoop | None = None
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
            await self._raises.stop()

    async def run_once(self) -> None:
        """Read, decide, hand over, tell."""
        self._loop = asyncio.get_running_loop()
        if not self._pods.synced:
            self._look_again()
            if self._lacks():
                await self._teller.tell_node(self._status())
            return
        if not self._protection.is_decided:
            for key in self._protection.decide(list(self._policies.items.values())):
                self._raises.forget(key)
        self._raises.adopt(self._guard_raises())
        self._raises.ask_again()
        self._numbers.node(len(self._protection.guarded), self._guard_restores())
        await self._raises.take_back()
        await self._teller.tell_node(await self._enforced(self._status()))

    async def _enforced(self, status: ElasticNodeStatus) -> ElasticNodeStatus:
        """What direct mode put in force, added to the status."""
        node = self._node.items.get(self._settings.node_name)
        if self._direct is None or node is None:
            return status
        try:
            raw = await self._connection.get(NODES, None, self._settings.node_name)
            report = await asyncio.to_thread(
                self._direct.run,
                list(self._pods.items.values()),
                node,
                decode_node(raw).allocatable,
                self._protection.locate,
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

    def explain(self, key: str) -> dict[str, Any] | None:
        """Facts about a pod: per container whether it is protected, why not, and what became of its last spike."""
        pod = self._pods.items.get(key)
        standings = self._protection.standings(pod) if pod is not None else ()
        if pod is None or not standings:
            return None
        return {
            "node": self._settings.node_name,
            "enforcement": self._watcher.enforcement,
            "problem": self._leases.problem,
            "containers": {one.container: self._facts(pod, one) for one in standings},
        }

    def _facts(self, pod: Pod, standing: Standing) -> dict[str, Any]:
        key = standing.target.key if standing.target is not None else ""
        return explain_container(
            standing,
            self._protection.guarded.get(key),
            self._raises.facts(key),
            self._sampler.last_minute(pod.uid, standing.container) if self._sampler is not None else None,
            is_leased=not self._leases.problem,
        )

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
                self._raises.ask(key, limit_bytes)
            case Tell():
                self._raises.spiked(key, outcome)
            case Failed():
                self._protection.failed(key, outcome)
            case Gone():
                self._protection.gone(key)
                self.wake.set()
            case Watched():
                self._protection.watched(key)
            case _:
                assert_never(outcome)

    # What changes in the cluster.

    def _note_pod(self, _key: str, old: Pod | None, new: Pod | None) -> None:
        self._protection.note(old, new)
        if self._sampler is not None:
            self._sampler.note(old, new)
        self.wake.set()

    def _note_policy(self, *_: object) -> None:
        self._protection.note_policies()
        self.wake.set()

    def _look_again(self) -> None:
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
