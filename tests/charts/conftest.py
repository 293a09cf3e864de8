"""The clusters that the chart is tried on; tests/kubernetes has the fixtures."""

from tests.kubernetes.conftest import api_server, cluster, pytest_runtest_makereport

__all__ = ["api_server", "cluster", "pytest_runtest_makereport"]
