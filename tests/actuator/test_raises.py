"""A raise until spec and cgroup agree, with a watcher to which nothing happens but what the test says."""

import asyncio
import json
import random
from pathlib import Path

import pytest

from actuator.asking import Asker
from actuator.journal import Journal
from actuator.leases import Leases
from actuator.protection import Protection
from actuator.raises import Raises
from actuator.settings import ActuatorSettings
from actuator.shrinking import Lower
from actuator.spikewords import AskApi, Tell
from actuator.telling import Numbers, Teller
from elastipod.backoff import Backoff
from elastipod.clock import ManualClock
from elastipod.kube.errors import Forbidden
from elastipod.kube.podrows import decode_pod
from elastipod.localcluster.api.apiserver import ApiServer
from elastipod.localcluster.api.direct import DirectConnection
from elastipod.localcluster.api.store import Store
from elastipod.pods import Pod
from elastipod.reasons import Reason
from elastipod.telemetry import Metrics
from tests import build
from tests.actuator.onnode import LIMITED, Silent, Still, at_work, with_still
from tests.localcluster.onenode import MIB, OneNode, in_one_node

RAISED = 200 * MIB


async def limit(here: OneNode) -> int:
    return (await here.pod("job")).containers[0].limits.memory


@pytest.mark.parametrize("dies", [False, True], ids=["it lives", "it dies"])
def test_on_v1_the_api_is_asked_when_the_leap_is_over_or_by_who_comes_after(tmp_path: Path, dies: bool) -> None:
    async def run(here: OneNode) -> None:
        await here.run_pod("job", [LIMITED])
        first, journal = Still(), Journal(tmp_path, "boot")
        async with at_work(with_still(here, first, journal), here):
            await asyncio.sleep(5)
            [key] = first.keys
            first.on_outcome(key, Tell(Reason.RAISED, limit_bytes=RAISED))
            await asyncio.sleep(5)
            assert await limit(here) == 100 * MIB
            assert "Raised" not in await here.events("job")
            if not dies:
                first.on_outcome(key, AskApi(RAISED))
            await asyncio.sleep(5)
        journal.close()
        if dies:
            assert await limit(here) == 100 * MIB
            journal = Journal(tmp_path, "boot")
            async with at_work(with_still(here, Still(), journal), here):
                await asyncio.sleep(10)
            journal.close()
        else:
            assert "Raised" in await here.events("job")
        assert await limit(here) == RAISED

    in_one_node(run)


def a_pod(memory_limit: str) -> Pod:
    body = build.pod_json("job", uid="1", memory_limit=memory_limit)
    return decode_pod(json.dumps(body | {"status": build.running_status(body)}).encode())


async def test_what_the_api_would_not_raise_goes_back_to_the_spec_as_it_stands_by_then() -> None:
    lowered: list[int] = []

    def lower(_pod_group: str, _group: str, wanted_bytes: int) -> Lower:
        lowered.append(wanted_bytes)
        return Lower(wanted_bytes)

    clock, settings, watcher = ManualClock(), ActuatorSettings(node_name="here"), Still()
    api = DirectConnection(ApiServer(clock, Store(), spread=random.Random(0)), clock)
    refusing = Silent(api, Forbidden(403, "Forbidden", "no"))
    leases = Leases(None, settings, clock, holds=False, release=lambda _: None)
    protection = Protection(settings, clock, watcher, leases, lambda *_: ("pods/1", "pods/1/c"), lambda: None)
    teller, asker = Teller(refusing, clock, "here"), Asker(refusing, clock, Backoff(), random.Random(0))
    raises = Raises(asker, protection, leases, watcher, teller, Numbers(Metrics()), clock, lower)

    before, after = a_pod("100Mi"), a_pod("150Mi")
    protection.note(None, before)
    protection.decide([])
    [key] = watcher.keys
    raises.ask(key, RAISED)
    while not watcher.answers:
        await asyncio.sleep(0)
    await raises.take_back()
    protection.note(before, after)
    protection.decide([])
    await raises.take_back()
    assert lowered == [100 * MIB, 150 * MIB]
