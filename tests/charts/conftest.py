"""The clusters that the chart is tried on; tests/kubernetes has the fixtures."""

from tests.kubernetes.conftest import api_server, cluster, pytest_runtest_makereport, vm_cluster

__all__ = ["api_server", "cluster", "pytest_runtest_makereport", "vm_cluster"]
