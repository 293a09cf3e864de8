"""What comes and goes all the time leaves nothing behind in the updater, and is nobody's failure."""

import gc
import random
from collections import deque
from typing import Any

import msgspec

from elastipod.api import UpdateMode
from elastipod.clock import ManualClock
from elastipod.kube.resources import NODES
from elastipod.localcluster.api.apiserver import ApiServer
from elastipod.localcluster.api.direct import DirectConnection
from elastipod.localcluster.api.store import Store
from elastipod.owners import Owned
from elastipod.pods import OwnerReference, Pod, Workload
from tests.updater.build import NOW, advice, amounts, container, node, pod
from tests.updater.world import World
from updater.service import Updater

PODS = 100
CHURN = 5
"""One in twenty."""


def entries(root: object) -> int:
    """How much all collections hold that the updater keeps."""
    found, seen, todo = 0, {id(root)}, [root]
    while todo:
        one = todo.pop()
        if isinstance(one, dict | set | list | deque):
            found += len(one)
        for inner in gc.get_referents(one):
            module = type(inner).__module__
            is_ours = module.partition(".")[0] == "updater" or module == "elastipod.eligible"
            if (is_ours or isinstance(inner, dict | set | list | tuple | deque)) and id(inner) not in seen:
                seen.add(id(inner))
                todo.append(inner)
    return found


class Churning:
    """Pods of Deployments, each with a rollout of its own for every change."""

    def __init__(self) -> None:
        self.clock = ManualClock(NOW)
        api = ApiServer(self.clock, Store(), spread=random.Random(0))
        self.updater = Updater(DirectConnection(api, self.clock), self.clock)
        self.pods: deque[tuple[Pod, Owned]] = deque()
        self.made = 0
        self.updater.fleet.put_node("node-a", node(cpu="1", memory="1Ti"))
        for number in range(10):
            wants = advice(amounts("900m"), mode=UpdateMode.IN_PLACE)
            self.updater.fleet.put_advice(f"shop/web-{number}", Workload("shop", "Deployment", f"web-{number}"), wants)

    def add(self) -> None:
        number, self.made = self.made % 10, self.made + 1
        above = OwnerReference("Deployment", f"web-{number}", f"dep-{number}", "apps/v1")
        owner = Owned("ReplicaSet", "shop", f"web-{number}-{self.made}", f"rs-{self.made}", owner=above)
        made = pod(container(requests=amounts("10m", "1Mi")), name=f"web-{self.made}")
        reference = OwnerReference(owner.kind, owner.name, owner.uid, "apps/v1")
        made = msgspec.structs.replace(made, owner=reference, started_at=NOW - 10**9)
        self.updater.watching.owned_changed(owner.name, None, owner)
        self.updater.watching.pod_changed(made.key, None, made)
        self.pods.append((made, owner))

    def drop(self) -> None:
        gone, owner = self.pods.popleft()
        self.updater.watching.owned_changed(owner.name, owner, None)
        self.updater.watching.pod_changed(gone.key, gone, None)

    async def loop(self) -> None:
        for _ in range(CHURN):
            self.drop()
            self.add()
        await self.updater.act()
        self.clock.advance(600)


async def test_endless_rollouts_leave_nothing_behind_r72() -> None:
    churning = Churning()
    for _ in range(PODS):
        churning.add()
    sizes = []
    for _ in range(3):
        for _ in range(PODS // CHURN):
            await churning.loop()
        sizes.append(entries(churning.updater))
    churning.updater.stop()
    assert len(churning.updater.attempts.unfinished()) == PODS, "all wait for room"
    assert sizes[0] > 9 * PODS
    assert max(sizes) <= 1.1 * min(sizes)


async def test_a_pod_that_goes_with_its_node_is_no_failed_resize_r75() -> None:
    async with World() as world:
        await world.node("spot", cpu="2")
        owner = await world.deployment()
        await world.pod("web-a", owner, node="spot")
        await world.autoscaler(cpu="1")
        await world.run(kubelet=False)
        assert len(world.connection.resizes) == 1
        await world.delete("web-a")
        await world.connection.delete(NODES, None, "spot")
        await world.node("next", cpu="96")
        await world.pod("web-b", owner, node="next")
        await world.run(2)
        told = {metric.labels["outcome"] for one in outcomes(world) for metric in one.samples if metric.value}
        assert told <= {"OutsideBounds", "Done"}
        assert (await world.requests("web-b"))["cpu"] == "1"
        assert "spot" not in world.updater.fleet.ledger.nodes


def outcomes(world: World) -> Any:
    return world.updater._outcomes.collect()
