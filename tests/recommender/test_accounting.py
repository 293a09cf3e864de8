"""Accounts of a live recommender: what /metrics and /savings tell, through restarts, resizes and replaced pods."""

import json
from functools import partial
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from elastipod.api import BOOST_ANNOTATION, AutoscalerStatus, ContainerRecommendation, Recommendation
from elastipod.clock import ManualClock
from elastipod.kube.connection import PatchType
from elastipod.kube.resources import AUTOSCALERS, CHECKPOINTS, POD_DISRUPTION_BUDGETS, PODS
from elastipod.pods import Node
from recommender.accounting import SAVINGS_PATH, Accounting, Seldom
from recommender.annotation import HISTORY_ANNOTATION
from recommender.exposition import accounts_text
from recommender.prices import ON_DEMAND, PriceTable, read_prices
from recommender.report.told import NO_COST, NUMBERS, Over, Paid, Savings, Told, read_savings
from recommender.savings import Direction, accounts
from recommender.snapshots import Snapshots, take_down
from tests import build
from tests.recommender import world as worlds
from tests.recommender.world import MI, Json, World

GI = 1024 * MI
GAUGES = {"before": "requests_before", "requested": "requests", "limit": "limits", "used": "usage"}


started = partial(worlds.started, cpu="2", memory="1Gi", memory_limit="2Gi")


def savings(world: World) -> Savings:
    answer = world.recommender.accounting.answer(SAVINGS_PATH)
    assert answer is not None
    return read_savings(answer)


def account(world: World, resource: str = "cpu", workload: str = "web") -> Told:
    [found] = [one for one in savings(world).accounts if (one.workload, one.resource) == (workload, resource)]
    return found


def gauges(world: World) -> dict[str, list[tuple[Json, float]]]:
    families = text_string_to_metric_families(world.recommender.accounting.text.decode())
    return {one.name: [(sample.labels, sample.value) for sample in one.samples] for one in families}


async def resize(world: World, pod: str, **requests: str) -> None:
    body = json.dumps({"spec": {"containers": [{"name": "app", "resources": {"requests": requests}}]}}).encode()
    await world.connection.patch(PODS, "default", pod, body, subresource="resize")
    await world.set_status(pod, build.running_status(json.loads(await world.connection.get(PODS, "default", pod))))


async def replace(world: World, **container: Any) -> None:
    """A successor runs while the first pod is still told to end."""
    owner = json.loads(await world.connection.get(PODS, "default", "web-a"))["metadata"]["ownerReferences"][0]
    await world.connection.delete(PODS, "default", "web-a")
    await world.pod("web-b", owner["uid"], **container)


async def test_metrics_and_savings_agree_to_the_last_digit() -> None:
    async with await started() as world:
        await world.run(cpu=0.1 + 0.2, memory=700 * MI / 3)
        await world.run(cpu=0.1, memory=100 * MI / 3)
        told, read = savings(world), gauges(world)
        assert [str(one.resource) for one in told.accounts] == ["cpu", "memory"]
        for one in told.accounts:
            labels = {"namespace": "default", "workload_kind": "Deployment", "workload": "web", "container": "app"}
            for name in NUMBERS:
                paid = getattr(one, name)
                series = dict.fromkeys(("amount",), f"elastipod_workload_{GAUGES.get(name, name)}")
                if name in ("requested", "waste", "lacking", "applied"):
                    series["per_hour"] = f"{series['amount']}_cost_per_hour"
                for part, metric in series.items():
                    found = [
                        value
                        for shown, value in read[metric]
                        if shown == {**labels, "resource": one.resource}
                        or shown == {**labels, "resource": one.resource, "currency": "USD"}
                    ]
                    assert found == ([] if paid is None else [getattr(paid, part)])
        target = await world.target()
        [cpu] = [value for shown, value in read["elastipod_workload_target"] if shown["resource"] == "cpu"]
        assert f"{cpu * 1000:.0f}m" == target["cpu"]


async def test_what_was_requested_first_outlives_a_resize_and_a_crash_that_follows() -> None:
    async with await started() as world:
        await world.run(cpu=0.1, memory=100 * MI)
        assert account(world).applied == NO_COST
        await resize(world, "web-a", cpu="500m")
        await world.run(cpu=0.1, memory=100 * MI)
        applied = account(world).applied
        assert applied == Paid(1.5, 1.5 * ON_DEMAND.core_hour)
        await world.restart()
        await world.run()
        assert account(world).applied == applied


async def test_usage_over_the_window_is_told_as_long_as_it_is_and_never_of_what_was_not_seen() -> None:
    async with await started() as world:
        await world.run(cpu=1.5, memory=300 * MI)
        assert (savings(world).window_seconds, account(world).usage) == (0.0, None)
        await world.run(cpu=0.5, memory=100 * MI)
        found, read = savings(world), gauges(world)
        assert account(world).usage == Over(1.0, 1.5, 1.5, 60.0)
        assert account(world, "memory").usage == Over(200 * MI, 300 * MI, 300 * MI, 60.0)
        assert read["elastipod_usage_window_seconds"] == [({}, found.window_seconds)]
        assert account(world).used == Paid(0.5, 0.5 * ON_DEMAND.core_hour)
        await world.restart()
        await world.run(cpu=0.5, memory=100 * MI)
        assert (savings(world).window_seconds, account(world).usage) == (0.0, None)
        assert gauges(world)["elastipod_workload_usage_mean"] == []


async def test_what_is_scraped_is_of_the_accounts_that_are_told_and_written_once_for_them() -> None:
    async with await started() as world:
        for cores in (0.1, 0.2, 0.3):
            await world.run(cpu=cores, memory=100 * MI)
            text = world.recommender.accounting.text
            used = account(world).used
            assert used is not None
            assert next(value for _, value in gauges(world)["elastipod_workload_usage"]) == used.amount == cores
            assert world.recommender.accounting.text == text


async def test_growth_counts_against_what_is_applied_in_metrics_too() -> None:
    async with await started() as world:
        await world.run(cpu=0.1, memory=100 * MI)
        await resize(world, "web-a", memory="2Gi")
        await world.run(cpu=0.1, memory=100 * MI)
        read = gauges(world)["elastipod_workload_applied_cost_per_hour"]
        assert [value for shown, value in read if shown["resource"] == "memory"] == [-0.004237]


async def test_while_a_pod_is_replaced_nothing_doubles() -> None:
    async with await started() as world:
        await world.run(cpu=0.1, memory=100 * MI)
        before = account(world)
        await replace(world, cpu="2", memory="1Gi", memory_limit="2Gi")
        await world.run(cpu=0.1, memory=100 * MI, pods=("web-a", "web-b"))
        shown = json.loads(await world.connection.get(PODS, "default", "web-a"))
        assert "deletionTimestamp" in shown["metadata"]
        after = account(world)
        assert (after.pods, after.requested, after.before) == (1, before.requested, before.before)
        assert (after.used, after.applied) == (before.used, before.applied)


async def test_a_pod_that_is_recreated_smaller_has_saved_and_counts_once() -> None:
    async with await started() as world:
        await world.run(cpu=0.1, memory=100 * MI)
        await replace(world, cpu="1", memory="1Gi", memory_limit="2Gi")
        await world.run(cpu=0.1, memory=100 * MI, pods=("web-b",))
        found = account(world)
        assert found.applied is not None
        assert (found.pods, found.applied.amount) == (1, 1.0)


async def test_a_limit_is_no_request_and_what_is_not_measured_is_not_nought() -> None:
    async with World() as world:
        await world.node()
        uid = await world.deployment()
        await world.pod("web-a", uid, cpu=None, memory=None, cpu_limit=None, memory_limit="2Gi")
        await world.autoscaler()
        await world.run()
        found = account(world, "memory")
        assert found.limit is not None
        assert (found.limit.amount, found.used, found.recommended) == (2.0 * GI, None, None)
        assert account(world, "cpu").limit is None
        assert gauges(world)["elastipod_workload_usage"] == []


async def test_what_a_pod_may_use_as_a_whole_is_its_containers_limit() -> None:
    async with World() as world:
        await world.node()
        owner = build.owner_json("ReplicaSet", "web-1", await world.deployment())
        whole = {"requests": {"cpu": "1"}, "limits": {"cpu": "2", "memory": "3Gi"}}
        alone = [build.container_json(cpu=None, memory=None)]
        pod = build.pod_json("web-a", containers=alone, node="n1", owner=owner, resources=whole)
        await world.create(PODS, pod)
        await world.set_status("web-a", build.running_status(pod))
        await world.run()
        cpu, memory = account(world), account(world, "memory")
        assert cpu.limit is not None
        assert memory.limit is not None
        assert (cpu.limit.amount, cpu.pod_limit) == (2.0, 2.0)
        assert (memory.limit.amount, memory.pod_limit) == (3.0 * GI, 3.0 * GI)
        assert [value for _, value in gauges(world)["elastipod_workload_limits"]] == [2.0, 3.0 * GI]


async def test_usage_that_is_no_longer_told_is_not_known_any_more() -> None:
    async with await started() as world:
        await world.run(cpu=0.1, memory=100 * MI)
        assert account(world).used is not None
        for _ in range(4):
            await world.run()
        assert account(world).used is None


async def test_a_target_that_makes_no_sense_promises_nothing_and_is_named() -> None:
    async with await started() as world:
        await world.run(cpu=0.1, memory=100 * MI)
        odd = ContainerRecommendation("app", target={"cpu": "0xFF", "memory": "12Zi"}, lower_bound={"cpu": "1m"})
        known = world.recommender.recommendations
        known.wrote("default/vpa", AutoscalerStatus(Recommendation([odd])))
        snapshot = Snapshots(world.settings).of(take_down(known, {}, world.clock.now()))
        for found in accounts(snapshot, PriceTable()):
            assert (found.recommended, found.direction, found.reason) == (None, Direction.UNKNOWN, "BadValue")
            assert b"workload_target{" not in accounts_text([found], 0, "USD")


async def test_a_workload_without_an_autoscaler_is_counted_and_nothing_is_promised_for_it() -> None:
    async with await started() as world:
        uid = await world.deployment("other")
        await world.pod("other-a", uid, workload="other", cpu="1", memory="1Gi")
        await world.run(cpu=0.1, memory=100 * MI)
        found = account(world, workload="other")
        assert (found.reason, str(found.direction)) == ("NoRecommendation", "unknown")
        requested = [sums.requested for sums in savings(world).totals.values()]
        assert [paid and paid.amount for paid in requested] == [3.0, 2.0 * GI]


async def test_what_cut_a_target_is_told_with_who_says_so() -> None:
    policy = {"containerPolicies": [{"containerName": "*", "maxAllowed": {"cpu": "50m"}}]}
    async with await started() as world:
        await world.change(spec={"resourcePolicy": policy})
        await world.run(cpu=0.3, memory=100 * MI)
        [(labels, amount)] = gauges(world)["elastipod_workload_capped"]
        assert (labels["reason"], labels["by"], labels["resource"], amount) == (
            *("CappedByMax", "containerPolicies", "cpu"),
            0.05,
        )
        assert account(world).reason == "CappedByMax"
        read = gauges(world)
        [uncapped] = [
            value for shown, value in read["elastipod_workload_uncapped_target"] if shown["resource"] == "cpu"
        ]
        assert uncapped > 0.3


async def test_a_pod_that_has_more_for_its_start_is_not_what_was_there_before() -> None:
    async with World() as world:
        await world.node()
        uid = await world.deployment()
        owner = build.owner_json("ReplicaSet", "web-1", uid)
        boosted = build.pod_json("web-a", cpu="3", node="n1", owner=owner, annotations={BOOST_ANNOTATION: "{}"})
        await world.create(PODS, boosted)
        await world.set_status("web-a", build.running_status(boosted))
        await world.autoscaler()
        await world.run(cpu=0.1, memory=100 * MI)
        await resize(world, "web-a", cpu="1")
        await world.run(cpu=0.1, memory=100 * MI)
        applied = account(world).applied
        assert applied is not None
        assert applied.amount == 0.0


@pytest.mark.parametrize(
    "before",
    [
        {"cpu_millicores": -1},
        {"memory_bytes": 2**63},
        {"cpu_millicores": "5"},
        {"cpu_millicores": 1.5},
        7,
    ],
)
async def test_a_forged_first_request_is_set_aside_by_name(before: Any) -> None:
    async with await started() as world:
        await world.run(cpu=0.1, memory=100 * MI)
        saved = await world.checkpoint()
        own = json.loads((saved.metadata.annotations or {})[HISTORY_ANNOTATION]) | {"before": before}
        body = json.dumps({"metadata": {"annotations": {HISTORY_ANNOTATION: json.dumps(own)}}}).encode()
        await world.connection.patch(CHECKPOINTS, "default", "vpa-app", body, patch_type=PatchType.MERGE)
        await world.restart()
        await world.run()
        told = json.loads(await world.connection.get(AUTOSCALERS, "default", "vpa"))["status"]["conditions"]
        messages = [one.get("message", "") for one in told]
        assert any(HISTORY_ANNOTATION in one and "before" in one for one in messages)
        applied = account(world).applied
        assert applied is not None
        assert applied.amount == 0.0


async def two_nodes(world: World, **budget: Any) -> None:
    """A pod on each, both of which would fit on one; all pods are under the budget, where there is one."""
    await world.node(name="n2", cpu="8", memory="32Gi")
    uid = await world.deployment("other")
    owner = build.owner_json("ReplicaSet", "other-1", uid)
    pod = build.pod_json("other-a", cpu="1", node="n2", owner=owner, labels={"app": "other"})
    await world.create(PODS, pod)
    await world.set_status("other-a", build.running_status(pod))
    if budget:
        meta = build.metadata_json("budget")
        spec = {"selector": {}, "minAvailable": 1}
        made = await world.create(
            POD_DISRUPTION_BUDGETS,
            {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": meta, "spec": spec},
        )
        body = json.dumps({"status": budget}).encode()
        await world.connection.patch(
            *(POD_DISRUPTION_BUDGETS, "default", made["metadata"]["name"], body),
            patch_type=PatchType.MERGE,
            subresource="status",
        )


async def test_a_node_that_would_be_empty_is_realisable_unless_a_budget_keeps_its_pods() -> None:
    async with await started() as world:
        await two_nodes(world)
        await world.run(cpu=0.1, memory=100 * MI)
        spare = savings(world).realisable
        assert spare is not None
        assert (spare.nodes, spare.cores) == (["n1"], 8.0)
        assert [value for _, value in gauges(world)["elastipod_realisable_cost_per_hour"]] == [spare.per_hour]
    async with await started() as world:
        await two_nodes(world, disruptionsAllowed=0)
        await world.run(cpu=0.1, memory=100 * MI)
        spare = savings(world).realisable
        assert spare is not None
        assert spare.nodes == []


async def test_a_node_that_a_pod_waits_for_is_not_realisable() -> None:
    async with await started() as world:
        await two_nodes(world)
        await world.create(PODS, build.pod_json("waiting", cpu="7"))
        await world.run(cpu=0.1, memory=100 * MI)
        spare = savings(world).realisable
        assert spare is not None
        assert spare.nodes == []


async def test_a_recommender_that_is_to_stop_goes_on_with_nothing_that_takes_long() -> None:
    async with await started() as world:
        await two_nodes(world)
        await world.recommender.save()
        await world.run(cpu=0.1, memory=100 * MI)
        found = savings(world)
        assert (len(found.accounts), found.realisable) == (4, None)


async def test_who_sees_one_namespace_does_not_know_which_nodes_would_be_empty() -> None:
    async with await started(namespace="default") as world:
        await two_nodes(world)
        await world.run(cpu=0.1, memory=100 * MI)
        found = savings(world)
        assert found.realisable is None
        assert [note for note in found.notes if "every PodDisruptionBudget, and the right to list them" in note]
        assert "elastipod_realisable_nodes" not in gauges(world)


async def test_what_can_not_be_known_is_told_with_why() -> None:
    async with World() as world:
        uid = await world.deployment()
        await world.pod("web-a", uid)
        await world.run()
        usage, nodes = savings(world).notes
        assert usage.startswith("What is used is not known: no pod is measured.")
        assert nodes.startswith("No node is known")
    async with await started() as world:
        await two_nodes(world)
        await world.run(cpu=0.1, memory=100 * MI)
        assert (savings(world).notes, savings(world).realisable is None) == ([], False)
        # What was worked out while it could be known is told no longer than that.
        await world.recommender.accounting.run({}, ())
        assert savings(world).realisable is None
        assert "elastipod_realisable_nodes" not in gauges(world)
        assert [note[:16] for note in savings(world).notes] == ["No node is known"]


async def test_nodes_that_the_price_table_has_no_row_for_are_told() -> None:
    async with await started() as world:
        await world.run(cpu=0.1, memory=100 * MI)
        for row, notes in (("m5,1,1", 1), (",1,1", 0)):
            table = read_prices(f"instance_type,core_hour,gib_hour\n{row}\n")
            made = Accounting(world.recommender.recommendations, world.clock, world.settings, table)
            await made.run({"n1": Node("n1")}, ())
            found = read_savings(made.answer(SAVINGS_PATH) or b"")
            assert len([one for one in found.notes if "no row for 1 node (1 on-demand)" in one]) == notes


async def test_of_too_many_the_dearest_are_told_and_the_totals_are_of_all() -> None:
    async with await started(most_accounted_containers=1) as world:
        await two_nodes(world)
        await world.run(cpu=0.1, memory=100 * MI)
        found = savings(world)
        assert {one.workload for one in found.accounts} == {"web"}
        requested = [sums.requested for sums in found.totals.values()]
        assert [paid and paid.amount for paid in requested] == [3.0, GI + 128.0 * MI]
        assert (found.left_out, found.notes) == (1, ["Not listed, but in the cluster's totals: 1 more container."])
        assert gauges(world)["elastipod_workload_series_left_out"] == [({}, 1.0)]


async def test_before_the_first_accounts_there_is_nothing_to_tell() -> None:
    async with await started() as world:
        assert (world.recommender.accounting.answer(SAVINGS_PATH), world.recommender.accounting.text) == (None, b"")
        await world.run(cpu=0.1, memory=100 * MI)
        assert world.recommender.accounting.answer("/other") is None


async def test_a_source_that_tells_nothing_grows_old() -> None:
    async with await started(usage_source="actuators,metrics") as world:

        def age() -> float | None:
            labels = {"source": "actuators,metrics"}
            return world.metrics.registry.get_sample_value("elastipod_source_age_seconds", labels)

        await world.run(cpu=0.1, memory=100 * MI)
        assert age() == 0.0
        world.usage.is_down = True
        await world.run(cpu=0.1, memory=100 * MI)
        assert age() == 60.0
        world.usage.is_down = False
        # It answers, and knows of no pod.
        await world.run()
        assert age() == 120.0
        await world.run(cpu=0.1, memory=100 * MI)
        assert age() == 0.0


async def test_what_takes_long_is_done_as_seldom_as_that_it_takes_a_hundredth_of_the_time() -> None:
    clock, done = ManualClock(0.0), list[float]()

    def work() -> float:
        clock.advance(3.0)
        return clock.monotonic()

    seldom = Seldom("a sum", clock, 60.0, done.append, in_thread=False)
    for _ in range(10_000):
        await seldom.run(lambda: work)
        clock.advance(1.0)
    assert 3.0 * len(done) / clock.monotonic() <= 0.0101
    assert len(done) == 34


async def test_what_can_not_be_worked_out_leaves_what_is_at_hand() -> None:
    clock, done = ManualClock(0.0), list[float]()
    seldom = Seldom("a sum", clock, 60.0, done.append, in_thread=False)
    await seldom.run(lambda: lambda: 1.0)
    clock.advance(60.0)
    await seldom.run(lambda: lambda: 1 / 0)
    clock.advance(60.0)
    await seldom.run(lambda: lambda: 2.0)
    assert done == [1.0, 2.0]
