"""The API server that the chart is tried on; tests/kubernetes has the fixture."""

from tests.kubernetes.conftest import api_server, pytest_runtest_makereport

__all__ = ["api_server", "pytest_runtest_makereport"]
