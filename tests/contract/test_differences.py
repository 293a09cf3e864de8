"""What the embedded server does not serve it refuses by name, and the documentation lists it."""

from pathlib import Path

import pytest

from tests.build import pod_json
from tests.contract.conftest import embedded
from tests.contract.differences import OTHERWISE, PROTOBUF, UNSERVED, Unserved

PAGE = Path(__file__).parents[2] / "docs" / "local-apiserver.md"


@pytest.mark.parametrize("one", UNSERVED, ids=lambda one: one.what)
async def test_what_is_not_served_is_refused_by_name(one: Unserved) -> None:
    async with embedded() as server:
        await server.post("/api/v1/namespaces/default/pods", pod_json())
        refused = await server.refused(
            one.method, one.path, one.body, content_type=one.content_type, accept=one.accept, **one.query
        )
    assert (refused.code, one.says in refused) == (one.code, True)


async def test_a_custom_kind_is_not_taken_as_protobuf() -> None:
    async with embedded() as server:
        path = "/apis/autoscaling.k8s.io/v1/namespaces/default/verticalpodautoscalers"
        refused = await server.refused("POST", path, b"k8s\x00", content_type=PROTOBUF)
    assert refused.code == 415


@pytest.mark.parametrize("what", [*(one.what for one in UNSERVED), *OTHERWISE.values()])
def test_the_documentation_lists_it(what: str) -> None:
    text = " ".join(PAGE.read_text("utf-8").split())
    assert what in text
