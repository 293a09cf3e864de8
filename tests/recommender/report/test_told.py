"""What is told is what was added up, to the last digit, in metrics, JSON and report."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from elastipod.quantities import Resources
from recommender.exposition import accounts_text, realisable_text
from recommender.prices import HOURS_A_MONTH
from recommender.ranges import Resource
from recommender.realisable import realisable
from recommender.report.figures import flat
from recommender.report.told import NO_COST, Savings, read_savings, sums, told, within
from recommender.savings import Usage, accounts, totals
from tests.recommender.report.build import account, savings
from tests.recommender.test_savings import APP, GI, TABLE, pod, snapshot

METRICS = {
    "before": "requests_before", "requested": "requests", "allocated": "allocated", "limit": "limits", "used": "usage",
    "recommended": "recommended", "waste": "waste", "lacking": "lacking", "applied": "applied",
}  # fmt: skip
COSTS = {"requested": "requests", "waste": "waste", "lacking": "lacking", "applied": "applied"}

amounts = st.integers(0, 10**12)


def answered(*pods: Any, **more: Any) -> tuple[Savings, dict[tuple[str, str], float]]:
    """What one snapshot comes to: as a reader of the answer has it, and as one of the metrics."""
    taken = snapshot(*pods, **more)
    those, spare = accounts(taken, TABLE), realisable(taken, TABLE, is_protected=lambda _: False)
    text = (accounts_text(those, 0, "USD") + realisable_text(spare, "USD")).decode()
    metrics = {
        (one.name, one.labels.get("resource", "")): one.value
        for family in text_string_to_metric_families(text)
        for one in family.samples
    }
    return read_savings(msgspec.json.encode(told(1.0, "USD", "as said", those, spare))), metrics


@given(amounts, amounts, amounts, amounts)
def test_metrics_answer_and_report_agree_to_the_last_digit(cpu: int, memory: int, target: int, before: int) -> None:
    found, metrics = answered(
        pod("a", cpu % 10**6, memory, limits=Resources(cpu % 10**6 + 1, None)),
        pod("b", cpu % 10**6, memory, at="dear", limits=Resources(cpu % 10**6 + 1, None)),
        target=Resources(target % 10**6, target),
        before={APP: Resources(before % 10**6, before)},
        used={("ns", "a", "app"): (0.1, 5.0)},
        usage={(APP, Resource.CPU): Usage(cpu / 3, cpu / 7, cpu / 1.7, 600.0)},
    )
    for one in found.accounts:
        row = flat(one, "USD")
        for name, metric in METRICS.items():
            assert metrics.get((f"elastipod_workload_{metric}", one.resource)) == row[name]
        for name in ("mean", "p95", "peak"):
            assert metrics.get((f"elastipod_workload_usage_{name}", one.resource)) == row[f"used_{name}"]
        for name, metric in COSTS.items():
            cost = metrics[f"elastipod_workload_{metric}_cost_per_hour", one.resource]
            assert (row[f"{name}_per_hour"], row[f"{name}_per_month"]) == (cost, HOURS_A_MONTH * cost)
    assert found.realisable is not None
    assert metrics["elastipod_realisable_cost_per_hour", ""] == found.realisable.per_hour


@given(st.lists(st.tuples(st.integers(0, 4000), st.integers(0, 4 * GI)), max_size=5))
def test_the_sums_of_what_is_told_are_the_sums_of_what_was_added_up(pods: list[tuple[int, int]]) -> None:
    taken = snapshot(*(pod(f"p{number}", *sizes) for number, sizes in enumerate(pods)), target=Resources(100, GI))
    those = accounts(taken, TABLE)
    found = told(1.0, "USD", "", those, None).totals
    for resource, of in totals(those).items():
        for name in ("requested", "used", "waste", "lacking", "applied"):
            has, is_told = getattr(of, name), getattr(found[resource], name)
            if name == "used":
                # None is measured, and of nothing nothing is used.
                assert (has, is_told) == (None, None if pods else NO_COST)
            else:
                assert (is_told.amount, is_told.per_hour) == (has.amount, has.per_hour)


def test_what_is_not_known_stays_unknown_on_its_way() -> None:
    found, _ = answered(pod("a", limits=Resources(None, None)))
    for one in found.accounts:
        assert (one.limit, one.used, one.recommended, one.change) == (None, None, None, None)


def test_of_one_namespace_no_node_is_promised_and_that_is_said() -> None:
    found = within(savings(account(), account(namespace="bank")), "bank")
    assert found.realisable is None
    assert found.totals == sums(found.accounts)
    assert any("of the whole cluster" in note for note in found.notes)
    assert not any("nothing is told" in note for note in found.notes)
    requested = found.totals[Resource.CPU].requested
    assert requested is not None
    assert requested.amount == pytest.approx(2.0)


def test_of_a_namespace_that_may_be_left_out_in_part_that_is_said_and_nothing_is_a_zero() -> None:
    found = told(1.0, "USD", "", [], None, left_out=700)
    whole = msgspec.structs.replace(found, accounts=[account()])
    assert whole.notes == ["Not listed, but in the cluster's totals: 700 more containers."]
    for namespace, said in (
        ("shop", "Of namespace shop not all may be told"),
        ("bank", "Of namespace bank nothing is"),
    ):
        notes = within(whole, namespace).notes
        assert any(note.startswith(said) and "700 more containers" in note for note in notes)
        assert not any("totals" in note or "no pod of it" in note for note in notes)
    assert within(whole, "shop").totals == sums(whole.accounts)
    assert {of.requested for of in within(whole, "bank").totals.values()} == {None}


def test_of_a_namespace_that_is_not_there_it_is_said_that_nothing_is_told() -> None:
    assert any("Of namespace bnak nothing is told" in note for note in within(savings(account()), "bnak").notes)
