"""The cluster that the verbs are tried on."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.cluster import Cluster


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    found = Cluster(tmp_path)
    found.add_node()
    yield found
    found.close()
