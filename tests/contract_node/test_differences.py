"""The differences that are meant to be are told to users, and name what is there."""

import importlib
from pathlib import Path

from tests.contract_node.differences import DIFFERENCES

_HERE = Path(__file__).parent
_PAGE = _HERE.parents[1] / "docs" / "local-cluster.md"


def test_each_difference_is_told_in_the_docs() -> None:
    told = " ".join(_PAGE.read_text("utf-8").split())
    for one in DIFFERENCES:
        assert f"| {one.what} | {one.why} |" in told


def test_each_case_of_a_difference_is_there() -> None:
    names = {path.stem for path in _HERE.glob("test_*.py")}
    cases = {name for module in names for name in vars(importlib.import_module(f"tests.contract_node.{module}"))}
    assert {one.case for one in DIFFERENCES if one.case} <= cases
