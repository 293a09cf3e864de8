"""One cluster and one release for all proofs, and what became of the same pods before it was installed."""

from collections.abc import Iterator

import pytest

from tests.kubernetes.binaries import why_missing
from tests.kubernetes.cluster import Cluster
from tests.kubernetes.proofs.installation import Elastipod
from tests.kubernetes.proofs.spikes import Outcome, run_job, run_spikes

_WEIGHT = 8192


@pytest.fixture(scope="session")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A cluster of its own, as what is installed here acts on all of it."""
    with Cluster(tmp_path_factory.mktemp("proofs-logs")) as cluster:
        # As much as eight programs beside it: a node shares its processors with no one.
        (cluster.cgroup("cpu") / "cpu.shares").write_text(str(_WEIGHT))
        yield cluster


@pytest.fixture(scope="session")
def metrics(bare: Cluster) -> None:
    """The metrics API, where its program is built."""
    if why := why_missing("metrics-server"):
        pytest.skip(f"cluster: {why}")
    bare.start_metrics()


@pytest.fixture(scope="session")
def alone(bare: Cluster) -> dict[str, list[Outcome]]:
    """What becomes of spikes without elastipod: of a Job within its limit, of one beyond it, of 40 pods at once."""
    return {
        "within": [run_job(bare, "within", "60M")],
        "beyond": [run_job(bare, "beyond", "200M")],
        "many": run_spikes(bare, lambda _: None),
    }


@pytest.fixture(scope="session")
def elastipod(bare: Cluster, alone: dict[str, list[Outcome]]) -> Elastipod:
    """Installed once all of that was seen."""
    installed = Elastipod(bare)
    installed.install()
    return installed
