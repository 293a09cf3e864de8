"""Spot nodes of all sizes: the recommender, the webhook's decision and the updater give each agent its node's size."""

import asyncio
import json
import random
from typing import Any, Final

import pytest

from elastipod.kube.resources import AUTOSCALERS, DAEMON_SETS, ELASTIC_POLICIES, NODES, PODS
from elastipod.localcluster.api.apiserver import ApiServer
from elastipod.localcluster.api.store import Store
from elastipod.quantities import parse_cpu
from recommender.accounting import SAVINGS_PATH
from recommender.report.told import Paid, read_savings
from recommender.samples import UsageSample
from tests import build
from tests.recommender.world import MI, Counting, World, autoscaler_json
from updater.admission.inprocess import NewPods
from updater.admission.settings import AdmissionSettings
from updater.service import Updater
from updater.settings import UpdaterSettings

Json = dict[str, Any]

_LIFE: Final = 20
"""Minutes that a node lives."""
_NODES: Final = (2, 2, 2, 96)
_USES: Final = {2: 0.1, 96: 1.0}
"""Cores that the agent uses, by the node's CPUs."""


class SpotNodes(World):
    """Four nodes at a time, each with an agent, and each replaced when it has lived for twenty minutes."""

    def __init__(self) -> None:
        super().__init__()
        new_pods = NewPods(AdmissionSettings()).patch
        self.api = ApiServer(
            self.clock, Store(), spread=random.Random(0), checks_node_capacity=False, size_new=new_pods
        )
        self.connection = Counting(self.api, self.clock)
        self.recommender = self._new()
        settings = UpdaterSettings(stale_seconds=1e9)
        self.updater = Updater(self.connection, self.clock, settings, spread=random.Random(1))
        self.minute = 0
        self.alive: dict[str, int] = {}
        self.begun: dict[str, int] = {}
        """The millicores that each agent was created with."""

    async def begin(self) -> None:
        template = build.template_json({"app": "agent"}, [build.container_json(cpu="500m", memory="256Mi")])
        spec = {"selector": {"matchLabels": {"app": "agent"}}, "template": template}
        body = {"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": build.metadata_json("agent"), "spec": spec}
        made = await self.create(DAEMON_SETS, body)
        self.owner = build.owner_json("DaemonSet", "agent", made["metadata"]["uid"])
        target = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "agent"}
        scaler = autoscaler_json(targetRef=target, updatePolicy={"updateMode": "InPlace"})
        await self.create(AUTOSCALERS, scaler)
        policy = {"selector": {"kind": "DaemonSet"}, "sizes": "ByNodeClass"}
        metadata = {"name": "agents", "namespace": "default"}
        await self.create(
            ELASTIC_POLICIES,
            {"apiVersion": "elastipod.io/v1alpha1", "kind": "ElasticPolicy", "metadata": metadata, "spec": policy},
        )

    async def pass_minutes(self, minutes: int) -> None:
        for _ in range(minutes):
            self.minute += 1
            await self.replace()
            await self.settle()
            self.clock.advance(60)
            at = self.clock.now()
            self.usage.samples = [
                UsageSample("default", name, "app", at, _USES[cpus], 100 * MI) for name, cpus in self.alive.items()
            ]
            await self.recommender.run_once()
            await self.settle()
            await self.updater.run_once()
            await self.settle()

    async def replace(self) -> None:
        """Nodes whose time has come go with their agents, and others of their size come."""
        wanted = {f"n{at}-{(self.minute + 5 * at) // _LIFE}": cpus for at, cpus in enumerate(_NODES)}
        for name in self.alive.keys() - wanted.keys():
            await self.connection.delete(PODS, "default", name, body=b'{"gracePeriodSeconds":0}')
            await self.connection.delete(NODES, None, name)
        for name in wanted.keys() - self.alive.keys():
            await self.create(NODES, build.node_json(name, cpu=str(wanted[name]), memory=f"{wanted[name] * 4}Gi"))
            await self.agent(name)
        self.alive = wanted

    async def agent(self, node: str) -> None:
        """As a DaemonSet's controller makes it, and as the scheduler and the kubelet go on."""
        term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
        required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
        pod = build.pod_json(node, cpu="500m", memory="256Mi", owner=self.owner, affinity={"nodeAffinity": required})
        made = await self.create(PODS, pod)
        self.begun[node] = _millicores(made)
        binding = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": node, "namespace": "default"},
            "target": {"apiVersion": "v1", "kind": "Node", "name": node},
        }
        await self.connection.create(PODS, "default", json.dumps(binding).encode(), name=node, subresource="binding")
        await self.set_status(node, build.running_status(made))

    async def requested(self) -> dict[str, int]:
        """The millicores that each agent asks for now."""
        listed = json.loads(await self.connection.list(PODS, namespace="default"))
        return {one["metadata"]["name"]: _millicores(one) for one in listed["items"]}


def _millicores(pod: Json) -> int:
    return parse_cpu(pod["spec"]["containers"][0]["resources"]["requests"]["cpu"])


async def test_each_agent_has_its_nodes_size_from_its_start_though_nodes_and_recommender_go_r75() -> None:
    world = SpotNodes()
    async with world:
        watching = asyncio.create_task(world.updater.watch())
        await world.begin()
        await world.pass_minutes(36)
        asked = await world.requested()
        assert all(fits(world.alive[name], millicores) for name, millicores in asked.items())
        # Those were made when nothing was known of their class, and were resized.
        assert any(not fits(cpus, world.begun[name]) for name, cpus in world.alive.items())
        await world.pass_minutes(24)
        writes = world.connection.writes.count("patch verticalpodautoscalers")
        old = set(world.begun)
        await world.recommender.save()
        await world.restart()
        await world.pass_minutes(60)
        assert world.connection.writes.count("patch verticalpodautoscalers") - writes <= 3
        fresh = {name: millicores for name, millicores in world.begun.items() if name not in old}
        assert len(fresh) >= 12
        assert all(fits(_NODES[int(name[1])], millicores) for name, millicores in fresh.items())
        assert world.recommender.recommendations.history.open_instances == 2 * len(_NODES)
        told = read_savings(world.recommender.accounting.answer(SAVINGS_PATH) or b"")
        found = {one.container: one for one in told.accounts if one.resource == "cpu"}
        assert {name: one.pods for name, one in found.items()} == {"app.2-cpus": 3, "app.96-cpus": 1}
        for name, cpus, pods in (("app.2-cpus", 2, 3), ("app.96-cpus", 96, 1)):
            one = found[name]
            assert one.usage is not None
            assert one.usage.peak == _USES[cpus]
            assert _USES[cpus] <= amount(one.recommended) / pods <= 1.3 * _USES[cpus]
            assert amount(one.lacking) + amount(one.waste) < 0.1 * pods * _USES[cpus]
            assert amount(one.applied) == pytest.approx(pods * 0.5 - amount(one.requested))
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)


def amount(paid: Paid | None) -> float:
    """Of what has to be known."""
    assert paid is not None
    return paid.amount


def fits(cpus: int, millicores: int) -> bool:
    """Whether an agent on such a node has what it uses there, and hardly more."""
    return bool(_USES[cpus] * 1000 <= millicores <= _USES[cpus] * 1300)
