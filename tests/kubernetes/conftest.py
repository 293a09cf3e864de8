"""Real clusters for tests, one of each level for a whole run; where their logs are is told with each failure."""

import tempfile
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest

from tests.kubernetes.apiserver import ApiServer
from tests.kubernetes.cluster import Cluster
from tests.kubernetes.vm import VmCluster
from tests.node.debian import NoMachine


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder for clusters of a test's own, with a path that is short enough for sockets."""
    with tempfile.TemporaryDirectory(prefix="own-") as found:
        yield Path(found)


@pytest.fixture(scope="session")
def api_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    """A real API server, shared: a test names what it makes for itself alone."""
    with ApiServer(tmp_path_factory.mktemp("apiserver-logs")) as found:
        yield found


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A whole cluster with a node on this machine, shared."""
    with Cluster(tmp_path_factory.mktemp("cluster-logs")) as found:
        yield found


@pytest.fixture(scope="session")
def vm_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[VmCluster]:
    """A whole cluster with a node on cgroup v2 in a virtual machine, shared; tests run one after the other."""
    try:
        with VmCluster(tmp_path_factory.mktemp("vm-cluster-logs")) as found:
            yield found
    except NoMachine as error:
        pytest.skip(f"vmcluster: {error}")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.failed and isinstance(item, pytest.Function):
        for name, cluster in item.funcargs.items():
            if isinstance(cluster, ApiServer):
                report.sections.append((f"logs of {name}", str(cluster.logs)))
    return report
