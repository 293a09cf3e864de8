"""What docs/real-cluster.md tells people to apply is what was tried."""

from typing import Any

import pytest
import yaml

from elastipod.kube.resources import AUTOSCALERS, DEPLOYMENTS, JOBS
from tests.charts.pages import CHART
from tests.charts.rendering import needs_helm, render
from tests.kubernetes.proofs.installation import VALUES
from tests.localcluster.served import Served

FOLDER = CHART.parents[1] / "docs" / "real-cluster"
PAGE = (FOLDER.parent / "real-cluster.md").read_text("utf-8")
KINDS = {one.kind: one for one in (AUTOSCALERS, DEPLOYMENTS, JOBS)}


def loaded(name: str) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all((FOLDER / name).read_text("utf-8")))


@pytest.mark.parametrize("name", ["load.yaml", "spike.yaml"])
def test_an_example_is_accepted_as_it_is(name: str) -> None:
    served = Served()
    for body in loaded(name):
        served.post(KINDS[body["kind"]].path("default"), body, fieldValidation="Strict")


@needs_helm
def test_what_shows_in_minutes_is_set_as_in_the_tests() -> None:
    [values] = loaded("in-minutes.yaml")
    assert values == {part: {"settings": VALUES[part]["settings"]} for part in ("recommender", "updater")}
    assert render(values).pods()


def test_every_example_is_told_of() -> None:
    for path in FOLDER.iterdir():
        assert f"docs/real-cluster/{path.name}" in PAGE
