"""Each component makes use of each right that its service account has, and of no other, on a real API server."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from tests.charts.duties import DEFINITIONS, METRICS, serve_metrics
from tests.charts.releases import installed
from tests.charts.rendering import COMPONENTS, needs_helm
from tests.charts.test_rendering import BY_NAMESPACE
from tests.kubernetes.apiserver import ApiServer
from tests.kubernetes.processes import wait_for

Json = dict[str, Any]
pytestmark = [needs_helm, pytest.mark.apiserver]

REFUSALS: Final = (400, 403, 405, 415, 422)
"""No right, or not written as the API server wants it."""
CASES: Final[dict[str, tuple[str, Json]]] = {
    **{component: (component, {}) for component in COMPONENTS},
    "actuator in direct mode": ("actuator", {"actuator": {"settings": {"direct": True}}}),
    "recommender by namespace": ("recommender", BY_NAMESPACE),
    "updater by namespace": ("updater", BY_NAMESPACE),
}


@pytest.fixture(scope="module")
def measured(api_server: ApiServer) -> Iterator[ApiServer]:
    serve_metrics(api_server.calls)
    yield api_server
    api_server.calls.delete(f"{DEFINITIONS}/{METRICS}")


@pytest.mark.parametrize("case", CASES)
def test_a_component_uses_each_right_that_it_has_and_is_refused_nothing(
    measured: ApiServer, tmp_path: Path, case: str
) -> None:
    with installed(measured, tmp_path, *CASES[case]) as running:
        running.start()
        wait_for(lambda: running.granted() - running.used(), 60, "every right is used", lambda unused: not unused)
        assert not [one for one in measured.audited(running.user) if one.code in REFUSALS]
        assert running.used() == running.granted()
        assert running.stop() == 0
