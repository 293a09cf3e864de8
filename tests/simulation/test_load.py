"""What people wish for reaches the cluster, and a script that it does not understand is an error, not a quiet run."""

import asyncio
import random
from typing import Any

import pytest

from elastipod.clock import ManualClock
from elastipod.kube.errors import BadRequest, Invalid, StatusError
from elastipod.kube.resources import AUTOSCALERS, DEPLOYMENTS, JOBS, NAMESPACES, PODS
from elastipod.localcluster.api.apiserver import ApiServer
from elastipod.localcluster.api.direct import DirectConnection
from elastipod.localcluster.api.kinds import kind_of
from elastipod.localcluster.api.store import Store
from elastipod.localcluster.simulation.load import NAMESPACE, Act, LoadSettings, draw_script, perform


def performed(*acts: Act) -> Store:
    store, clock = Store(), ManualClock()
    connection = DirectConnection(ApiServer(clock, store, spread=random.Random(1)), clock)

    async def main() -> None:
        for act in acts:
            await perform(act, connection)

    asyncio.run(main())
    return store


@pytest.mark.parametrize("seed", range(20))
def test_each_workload_and_each_autoscaler_of_a_script_comes_to_be(seed: int) -> None:
    acts = [act for act in draw_script(random.Random(seed), LoadSettings()).acts if not act.delete]
    store = performed(*acts)
    for resource in (AUTOSCALERS, DEPLOYMENTS, JOBS):
        wished = {act.create["metadata"]["name"] for act in acts if act.resource is resource and act.create}
        assert {entry.name for entry in store.of_kind(kind_of(resource))} == wished != set()


@pytest.mark.parametrize(("change", "error"), [({"apiVersion": "v0"}, BadRequest), ({"spec": []}, Invalid)])
def test_an_act_that_is_not_understood_is_an_error(change: dict[str, Any], error: type[StatusError]) -> None:
    namespace = Act(0.0, NAMESPACES, create={"metadata": {"name": NAMESPACE}})
    with pytest.raises(error):
        performed(namespace, Act(0.0, AUTOSCALERS, create={"metadata": {"name": "one"}, **change}))


def test_people_may_come_too_late() -> None:
    namespace = Act(0.0, NAMESPACES, create={"metadata": {"name": NAMESPACE}})
    assert not performed(namespace, Act(1.0, PODS, "gone", delete=True)).of_kind(kind_of(PODS))
