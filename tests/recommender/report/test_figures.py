"""Figures are read with their unit and their direction, and what is not known is no zero."""

import math

import pytest

from recommender.ranges import Resource
from recommender.report.figures import amount, cells, flat, largest_first, money, reasons, sum_lines, total, window
from recommender.report.told import AnswerError, Over, Paid, read_savings, within
from recommender.savings import Direction
from tests.recommender.report.build import GIB, account, savings


@pytest.mark.parametrize(
    ("resource", "value", "text"),
    [
        (Resource.CPU, 1.5, "1.500 cores"),
        (Resource.CPU, 0.0, "0.000 cores"),
        (Resource.CPU, 0.0001, "0.0001 cores"),
        (Resource.CPU, 12345.6789, "12,345.679 cores"),
        (Resource.MEMORY, 0.0, "0 B"),
        (Resource.MEMORY, 100.0, "100 B"),
        (Resource.MEMORY, 300 * 1024.0, "300.00 KiB"),
        (Resource.MEMORY, 1e6, "976.56 KiB"),
        (Resource.MEMORY, 1.5 * GIB, "1.50 GiB"),
        (Resource.MEMORY, -1.5 * GIB, "-1.50 GiB"),
        (Resource.MEMORY, 2048 * GIB, "2.00 TiB"),
        (Resource.MEMORY, math.nan, "-"),
        (Resource.CPU, math.inf, "-"),
        (Resource.CPU, None, "-"),
    ],
)
def test_an_amount_has_its_unit_and_is_never_rounded_to_nothing(
    resource: Resource, value: float | None, text: str
) -> None:
    assert amount(resource, value) == text


def test_a_month_has_730_hours_whatever_the_window_of_usage_is() -> None:
    assert money(0.1, "EUR") == "73.00 EUR"
    assert money(0.1, "EUR", signed=True) == "+73.00 EUR"
    assert money(-0.1, "EUR", signed=True) == "-73.00 EUR"
    assert money(1e-6, "EUR") == "0.00073 EUR"
    assert money(None, "EUR") == money(math.nan, "EUR") == "-"
    days, instant = (savings(account(), window_seconds=seconds) for seconds in (8 * 86_400.0, 0.0))
    assert total(days, "waste") == total(instant, "waste")


def test_what_needs_more_is_shown_as_needing_more_and_lowers_no_waste() -> None:
    less, more = account(2.0, 0.5), account(1.0, 4.0, Resource.MEMORY)
    shown = [cells(one, "EUR") for one in (less, more)]
    assert [(one.direction, one.change, one.month) for one in shown] == [
        ("less", "-1.500 cores", "-109.50 EUR"),
        ("more", "+3.00 GiB", "+219.00 EUR"),
    ]
    assert total(savings(less, more), "waste") == ("1.500 cores and 0 B", "109.50 EUR")
    assert total(savings(less, more), "lacking") == ("0.000 cores and 3.00 GiB", "219.00 EUR")


def test_without_a_recommendation_nothing_is_promised() -> None:
    shown = cells(account(recommended=None), "EUR")
    assert (shown.recommended, shown.direction, shown.change, shown.month, shown.days) == (
        "-",
        "unknown",
        "-",
        "-",
        "-",
    )


def test_a_missing_limit_is_no_limit_of_nothing_and_no_request() -> None:
    assert cells(account(limit=None), "EUR").limit == "-"
    shown = cells(account(2.0, limit=Paid(4.0, 0.4)), "EUR")
    assert (shown.requested, shown.limit) == ("2.000 cores", "4.000 cores")


def test_usage_over_a_window_has_one_unit() -> None:
    over = Over(200.0 * 1024**2, 0.5 * GIB, 2 * GIB, 600.0)
    assert cells(account(resource=Resource.MEMORY, usage=over), "EUR").used == "0.20 / 0.50 / 2.00 GiB"
    assert cells(account(usage=Over(0.1, 0.25, 1.0, 600.0)), "EUR").used == "0.100 / 0.250 / 1.000 cores"
    # What is beside it is of all pods.
    assert cells(account(pods=3, usage=Over(0.1, 0.25, 1.0, 600.0)), "EUR").used == "0.100 / 0.250 / 1.000 cores each"
    assert cells(account(used=None), "EUR").used == "-"


def test_a_sum_of_which_nothing_is_known_is_no_zero() -> None:
    nothing = savings(account(used=None), account(used=None, resource=Resource.MEMORY))
    assert nothing.totals[Resource.CPU].used is None
    assert total(nothing, "used") == ("not known", "")
    one = savings(account(used=Paid(0.5, 0.1)), account(used=None), account(used=None, resource=Resource.MEMORY))
    assert total(one, "used") == ("0.500 cores and not known", "73.00 EUR")
    assert total(savings(), "used") == ("0.000 cores and 0 B", "0.00 EUR")


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0.0, "usage of that instant"),
        (40.0, "usage of the last 40 seconds"),
        (90.0, "usage of the last 1.5 minutes"),
        (5400.0, "usage of the last 1.5 hours"),
        (8 * 86_400.0, "usage of the last 8.0 days"),
    ],
)
def test_a_window_is_told_as_long_as_it_is(seconds: float, words: str) -> None:
    found = savings(account(), window_seconds=seconds, usage="as the test says")
    assert window(found) == words
    assert f"Used: {words}" in "\n".join(sum_lines(found))


def test_the_largest_change_is_first_either_way_and_what_is_not_known_last() -> None:
    saved, needed, unknown = account(2.0, 0.5), account(0.5, 4.5), account(9.0, None)
    assert largest_first(savings(unknown, saved, needed)) == [needed, saved, unknown]


def test_only_reasons_that_are_named_are_explained() -> None:
    found = savings(account(reason="OomKilled"), account(reason="Something new"))
    assert reasons(found) == [("OomKilled", "a container was killed at its memory limit")]


def test_the_three_numbers_stand_beside_each_other_and_are_never_added_up() -> None:
    lines = sum_lines(savings(account(2.0, 0.5, applied=Paid(-1.0, -0.1))))
    assert lines[:4] == [
        "Waste (reserved and not needed): 1.500 cores and 0 B, 109.50 EUR a month",
        "Needed more: 0.000 cores and 0 B, 0.00 EUR a month",
        "Applied (reserved less than before): -1.000 cores and 0 B, -73.00 EUR a month",
        "Realisable (nodes that would be empty): 1 node with 8.000 cores and 32.00 GiB, 876.00 EUR a month",
    ]
    unknown = sum_lines(savings(account(), realisable=None))
    assert "Realisable (nodes that would be empty): not known" in unknown


def test_plain_facts_keep_every_digit_and_name_their_unit() -> None:
    found = flat(account(2.0, 1 / 3), "EUR")
    assert (found["unit"], found["recommended"], found["currency"]) == ("cores", 1 / 3, "EUR")
    assert found["change"] == -1.667
    assert found["change_per_month"] == 730 * -((2.0 - 1 / 3) / 10)
    assert found["limit"] is None


def test_one_namespace_has_sums_of_its_own_and_no_nodes() -> None:
    found = within(savings(account(), account(8.0, namespace="bank")), "bank")
    assert [one.namespace for one in found.accounts] == ["bank"]
    assert found.totals[Resource.CPU].requested == found.accounts[0].requested
    assert found.realisable is None


ANSWER = b"""{"at": 1800000000.5, "currency": "USD", "prices": "defaults", "accounts": [{"namespace": "shop",
"workloadKind": "Deployment", "workload": "web", "container": "app", "resource": "cpu", "pods": 2, "direction": "less",
"confidenceDays": 1.5, "reason": "Capped", "before": {"amount": 4, "perHour": 0.4}, "requested": {"amount": 2.0,
"perHour": 0.2}, "allocated": null, "limit": null, "used": null, "recommended": {"amount": 0.5, "perHour": 0.05},
"waste": {"amount": 1.5, "perHour": 0.15}, "lacking": {"amount": 0, "perHour": 0}, "applied": {"amount": 2.0,
"perHour": 0.2}, "more": 1}], "totals": {"cpu": {"requested":
{"amount": 2, "perHour": 0.2}, "used": {"amount": 0, "perHour": 0}, "waste": {"amount": 1.5, "perHour": 0.15},
"lacking": {"amount": 0, "perHour": 0}, "applied": {"amount": 0, "perHour": 0}}},
"realisable": {"nodes": [], "cores": 0, "memoryBytes": 0, "perHour": 0}, "later": true}"""


def test_a_recommenders_answer_is_read_and_what_is_new_in_it_passed_over() -> None:
    found = read_savings(ANSWER)
    [one] = found.accounts
    assert (one.resource, one.direction, one.confidence_days, one.allocated) == (
        Resource.CPU,
        Direction.LESS,
        1.5,
        None,
    )
    assert one.change == Paid(-1.5, -0.15)
    assert found.totals[Resource.CPU].waste == Paid(1.5, 0.15)


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (b"", "truncated"),
        (b"[]", "object"),
        (ANSWER.replace(b'"pods": 2', b'"pods": "2"'), "pods"),
        (ANSWER.replace(b'"less"', b'"down"'), "direction"),
        (ANSWER.replace(b'"amount": 4,', b""), "before"),
        (ANSWER.replace(b'"amount": 4', b'"amount": NaN'), "malformed"),
    ],
)
def test_an_answer_of_another_shape_is_refused_by_its_field(answer: bytes, told: str) -> None:
    with pytest.raises(AnswerError, match=told):
        read_savings(answer)
