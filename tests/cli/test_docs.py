"""The docs say what is so: examples are accepted, names are the code's, links lead somewhere, commands exist."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from elastipod.api import RESOURCES_ANNOTATION, SPIKE_ANNOTATION
from elastipod.cli.verbs import command
from elastipod.kube import resources
from elastipod.kube.resources import ResourceType
from elastipod.localcluster.node.manifests import USAGE_MODEL
from elastipod.localcluster.node.usagemodel import parse_usage_model
from elastipod.policy import DONATE_ANNOTATION
from tests import metricspage
from tests.docs import DOCS, operating_page, settings_page
from tests.localcluster.served import Served
from updater.sizes import stated_sizes

ROOT = DOCS.parent
OPERATING = DOCS / "operating.md"
PAGES = sorted([ROOT / "README.md", *DOCS.rglob("*.md")])
EXAMPLES = sorted((DOCS / "examples").iterdir())
KINDS = {one.kind: one for one in vars(resources).values() if isinstance(one, ResourceType)}
METRIC = re.compile(r"metrics\.(counter|gauge|histogram)\(\s*\"([a-z_]+)\"")


def manifests(path: Path) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all(path.read_text("utf-8")))


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_an_example_is_accepted_as_it_is(path: Path) -> None:
    served = Served()
    for body in manifests(path):
        served.post(KINDS[body["kind"]].path("default"), body, fieldValidation="Strict")


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_an_examples_annotations_can_be_understood(path: Path) -> None:
    for body in manifests(path):
        stated = body["metadata"].get("annotations", {})
        assert set(stated) <= {RESOURCES_ANNOTATION}
        if stated:
            stated_sizes(stated[RESOURCES_ANNOTATION])
        template = body["spec"].get("template", {})
        model = template.get("metadata", {}).get("annotations", {}).get(USAGE_MODEL, "")
        for container in template.get("spec", {}).get("containers", []):
            used = parse_usage_model(model, container["name"])
            assert model
            assert used != parse_usage_model("", container["name"])


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_an_example_is_told_of(path: Path) -> None:
    assert any(f"examples/{path.name}" in page.read_text("utf-8") for page in PAGES)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_link_leads_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", page.read_text("utf-8")):
        assert "://" in target or (page.parent / target).exists(), target


def test_the_metrics_to_watch_are_some_of_those_that_exist() -> None:
    found = {one.name for those in metricspage.families().values() for one in those}
    assert set(re.findall(r"`(elastipod_[a-z_]+)`", OPERATING.read_text("utf-8"))) <= found


def test_every_metric_that_is_made_is_told_once_and_as_it_is() -> None:
    told = [one for those in metricspage.families().values() for one in those]
    names = {one.name for one in told}
    assert len(names) == len(told)
    for folder in ("elastipod", "recommender", "updater", "actuator"):
        for path in (ROOT / folder).rglob("*.py"):
            for kind, name in METRIC.findall(path.read_text("utf-8")):
                assert f"elastipod_{name}{'_total' if kind == 'counter' else ''}" in names
    assert metricspage.PAGE.read_text("utf-8") == metricspage.page()


def test_each_reason_is_told_and_no_other() -> None:
    page = OPERATING.read_text("utf-8")
    assert page == operating_page(page)


def test_the_settings_are_told_as_they_are() -> None:
    assert (DOCS / "settings.md").read_text("utf-8") == settings_page()


def test_the_annotations_are_those_that_count() -> None:
    page = OPERATING.read_text("utf-8")
    for name in (SPIKE_ANNOTATION, DONATE_ANNOTATION, RESOURCES_ANNOTATION, USAGE_MODEL):
        assert f"`{name}`" in page


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_each_command_told_of_exists(page: Path) -> None:
    verbs = set(re.findall(r"(?:`|bin/)elastipod ((?:local )?[a-z]+)", page.read_text("utf-8")))
    for verb in verbs:
        assert CliRunner().invoke(command(), [*verb.split(), "--help"]).exit_code == 0, verb
    targets = set(re.findall(r"(?:^|`)make ([a-z]+)", page.read_text("utf-8"), re.MULTILINE))
    makefile = (ROOT / "Makefile").read_text("utf-8")
    assert all(re.search(rf"^{target}:", makefile, re.MULTILINE) for target in targets)
