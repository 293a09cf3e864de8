"""The nodes of the contract, and how many cases each has stood."""

import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.contract_node.differences import DIFFERENCES
from tests.contract_node.embedded import process_node, simulated_node
from tests.contract_node.nodes import Node
from tests.contract_node.real import RealNode
from tests.kubernetes.cluster import Cluster

_stood: Counter[str] = Counter()


@pytest.fixture(scope="session")
def real_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """The real cluster of this run."""
    with Cluster(tmp_path_factory.mktemp("node-contract-logs")) as cluster:
        yield cluster


@pytest.fixture(
    params=[
        "simulated",
        pytest.param("processes", marks=pytest.mark.cgroups),
        pytest.param("real", marks=[pytest.mark.cluster, pytest.mark.timeout(900)]),
    ]
)
def node(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Node]:
    """A node with no pods on it."""
    request.node.user_properties.append(("node", request.param))
    if request.param == "simulated":
        with simulated_node(tmp_path) as found:
            yield found
    elif request.param == "processes":
        with process_node(tmp_path, f"elastipod-test-{os.getpid()}") as found_too:
            yield found_too
    else:
        real = RealNode(request.getfixturevalue("real_cluster"))
        try:
            yield real
        finally:
            real.clean()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    known = {(one.case, one.node): one.why for one in DIFFERENCES if one.case}
    for item in items:
        if isinstance(item, pytest.Function) and "node" in item.fixturenames and hasattr(item, "callspec"):
            why = known.get((item.originalname, str(item.callspec.params.get("node"))))
            if why is not None:
                item.add_marker(pytest.mark.xfail(raises=AssertionError, strict=True, reason=why))


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.when == "call" and report.passed:
        _stood.update(str(value) for name, value in report.user_properties if name == "node")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if _stood:
        shown = ", ".join(f"{count} {name}" for name, count in sorted(_stood.items()))
        terminalreporter.write_line(f"node contract, cases that hold: {shown}")
