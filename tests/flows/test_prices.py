"""What a node costs is what the leading recommender's price table says of its labels, everywhere it tells of money."""

import json
import uuid
from pathlib import Path

from elastipod.cli.demo.manifests import container, deployment
from elastipod.cli.parts import NoAnswerError, ask_savings
from elastipod.cli.running import Wanted, running_cluster
from elastipod.kube.connection import Connection, PatchType
from elastipod.kube.resources import DEPLOYMENTS, NODES
from recommender.ranges import Resource
from recommender.report.told import Savings, read_savings
from tests.flows.test_new_pods import CLOCK, MIB, create
from tests.flows.test_savings import metrics

TABLE = """instance_type,capacity_type,region,core_hour,gib_hour,currency
big,,,0.1,0.01,EUR
big,spot,,0.02,0.002,EUR
,,,0.05,0.005,EUR
"""
BIG, SPOT = {"node.kubernetes.io/instance-type": "big"}, {"karpenter.sh/capacity-type": "spot"}
PRICES = {"dear": (BIG, 0.1), "spot": ({**BIG, **SPOT}, 0.02), "web": ({}, 0.05)}
"""By Deployment: what its node says of itself, and what a core costs there."""


async def spread(connection: Connection) -> None:
    """Each Deployment has a node of its own."""
    listed = json.loads(await connection.list(NODES))["items"]
    for node, (name, (labels, _)) in zip(listed, PRICES.items(), strict=True):
        of_node = node["metadata"]["name"]
        patch = json.dumps({"metadata": {"labels": labels}}).encode()
        await connection.patch(NODES, None, of_node, patch, patch_type=PatchType.MERGE)
        app = container("app", ["sleep", "3600"], {"cpu": "1", "memory": "1Gi"})
        made = deployment(name, app, {}, {"cpu": "300m", "memory": "200Mi"})
        made["spec"]["template"]["spec"]["nodeSelector"] = {"kubernetes.io/hostname": of_node}
        await create(connection, DEPLOYMENTS, made)


async def told(connection: Connection) -> Savings:
    while True:
        try:
            found = read_savings(await ask_savings(connection))
        except NoAnswerError:
            pass
        else:
            if len(found.accounts) == 2 * len(PRICES):
                return found
        await CLOCK.sleep(0.1)


async def test_money_is_what_the_table_says_of_each_node(tmp_path: Path) -> None:
    prices = tmp_path / "prices.csv"
    prices.write_text(TABLE)
    name, folder = f"t{uuid.uuid4().hex[:8]}", str(tmp_path / "cluster")
    wanted = Wanted(
        name, folder, simulated=True, nodes=len(PRICES), cpu_millicores=2_000, memory_bytes=4_096 * MIB,
        with_parts=False, usage_seconds=0.5,
    )  # fmt: skip
    async with running_cluster(wanted) as running:
        connection = running.connection()
        try:
            await spread(connection)
            running.start_parts({"ELASTIPOD_PRICES_FILE": str(prices)})
            found = await told(connection)
            shown = await metrics(connection)
        finally:
            await connection.close()
    paid = {(one.workload, one.resource): one.requested.per_hour for one in found.accounts if one.requested}
    for workload, (_, core_hour) in PRICES.items():
        assert (paid[workload, Resource.CPU], paid[workload, Resource.MEMORY]) == (core_hour, core_hour / 10)
    assert (found.currency, shown["requests_cost_per_hour", "cpu"]) == ("EUR", 0.05)
    assert found.prices.startswith("a price table of 3 rows, and elsewhere 0.05 EUR for a core")
