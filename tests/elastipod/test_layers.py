"""The list down which imports go names every module, and people read of it, and of the ways through it, as they are."""

import re
import tomllib
from pathlib import Path

import elastipod

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "architecture.md").read_text("utf-8")
PACKAGES = ("elastipod", "recommender", "updater", "actuator")
KUBERNETES_OWN = {"AdmissionReview"}
CONTRACTS = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["importlinter"]["contracts"]
LAYERS: list[str] = CONTRACTS[0]["layers"]


def test_every_module_of_what_the_parts_share_has_its_layer() -> None:
    package = Path(elastipod.__file__).parent
    modules = {file.stem for file in package.glob("*.py")} | {file.parent.name for file in package.glob("*/*.py")}
    named = {name for layer in LAYERS for name in layer.split(" | ")}
    assert {f"elastipod.{name}" for name in modules - {"__init__"}} == {one for one in named if "." in one}


def test_the_architecture_page_shows_the_same_list() -> None:
    assert "```\n" + "\n".join(LAYERS) + "\n```" in PAGE


def test_the_architecture_page_names_what_is_there() -> None:
    ways = " ".join(re.findall(r"```\n(.*?)```", PAGE, re.DOTALL)[2:])
    named = set(re.findall(r"\b(?:[A-Z][a-z]+){2,}\b|\b[a-z]+(?:_[a-z]+)+\b", ways))
    sources = [path.read_text("utf-8") for package in PACKAGES for path in (ROOT / package).rglob("*.py")]
    defined = {
        name for text in sources for name in re.findall(r"^ *(?:class|(?:async )?def) (\w+)", text, re.MULTILINE)
    }
    assert len(named) > 20
    assert named - defined - KUBERNETES_OWN == set()
