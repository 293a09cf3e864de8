"""Measurements in trouble say nothing that could be believed, and honest ones again afterwards."""

import random
from typing import Any

import pytest

from elastipod.localcluster.api.failures import ApiFailure
from elastipod.localcluster.simulation.meterfaults import Meter, MeterTrouble

ITEMS = [
    {"metadata": {"name": f"p-{number}"}, "containers": [{"name": "main", "usage": {"cpu": "5m", "memory": "64Mi"}}]}
    for number in range(40)
]


def told(trouble: MeterTrouble) -> list[dict[str, Any]]:
    meter = Meter(random.Random(1))
    meter.fail(trouble, 7.0)
    assert meter.lost_since == (None if trouble is MeterTrouble.PARTIAL else 7.0)
    found = list(meter.answer(ITEMS))
    meter.recover()
    assert (meter.lost_since, list(meter.answer(ITEMS))) == (None, ITEMS)
    return found


def test_silence_is_an_error() -> None:
    with pytest.raises(ApiFailure, match="does not answer"):
        told(MeterTrouble.SILENT)


def test_an_empty_answer_names_no_pod() -> None:
    assert told(MeterTrouble.EMPTY) == []


@pytest.mark.parametrize(("trouble", "text"), [(MeterTrouble.NAN, "NaN"), (MeterTrouble.NEGATIVE, "-64Mi")])
def test_nonsense_stands_in_every_amount(trouble: MeterTrouble, text: str) -> None:
    usages = [one["usage"] for item in told(trouble) for one in item["containers"]]
    assert usages == [{"cpu": text, "memory": text}] * len(ITEMS)


def test_a_partial_answer_lacks_pods_containers_and_amounts_and_changes_none() -> None:
    found = told(MeterTrouble.PARTIAL)
    usages = [one["usage"] for item in found for one in item["containers"]]
    assert len(ITEMS) > len(found) > len(usages) > 0
    assert {frozenset(usage) for usage in usages} == {
        frozenset(names) for names in (["cpu", "memory"], ["cpu"], ["memory"])
    }
    assert all(usage.items() <= {"cpu": "5m", "memory": "64Mi"}.items() for usage in usages)
