"""What a LabelSelector may say, wherever it stands."""

from typing import Any

import pytest

from elastipod.kube import resources as kube
from tests.build import template_json
from tests.contract.servers import FORBIDDEN, INVALID, REQUIRED, Server

Json = dict[str, Any]
TERM = "matchExpressions[0]"


def term(**one: Any) -> Json:
    return {"matchExpressions": [one]}


WRONG: dict[str, tuple[Json, tuple[str, str]]] = {
    "no values": (term(key="app", operator="In"), (f"{TERM}.values", REQUIRED)),
    "values of what exists": (term(key="app", operator="Exists", values=["a"]), (f"{TERM}.values", FORBIDDEN)),
    "unknown operator": (term(key="app", operator="Near"), (f"{TERM}.operator", INVALID)),
    "no operator": (term(key="app"), (f"{TERM}.operator", INVALID)),
    "no key": (term(operator="Exists"), (f"{TERM}.key", INVALID)),
    "bad key": (term(key="a b", operator="Exists"), (f"{TERM}.key", INVALID)),
    "bad value": (term(key="app", operator="In", values=["web", "a b"]), (f"{TERM}.values[1]", INVALID)),
    "bad label": ({"matchLabels": {"a b": "c"}}, ("matchLabels", INVALID)),
    "bad value of a label": ({"matchLabels": {"app": "a b"}}, ("matchLabels", INVALID)),
}


@pytest.mark.parametrize("case", WRONG)
async def test_a_budget_s_selector_is_checked(server: Server, case: str) -> None:
    selector, (field, reason) = WRONG[case]
    wanted = {"metadata": {"name": "it"}, "spec": {"minAvailable": 1, "selector": selector}}
    refused = await server.refused("POST", server.path(kube.POD_DISRUPTION_BUDGETS), wanted)
    assert (refused.code, refused.causes) == (422, {(f"spec.selector.{field}", reason)})


@pytest.mark.parametrize("case", WRONG)
@pytest.mark.parametrize("resource", [kube.DEPLOYMENTS, kube.DAEMON_SETS], ids=str)
async def test_a_workload_s_selector_is_checked(server: Server, resource: kube.ResourceType, case: str) -> None:
    selector, (field, reason) = WRONG[case]
    spec = {"selector": selector, "template": template_json({"app": "web"})}
    refused = await server.refused("POST", server.path(resource), {"metadata": {"name": "it"}, "spec": spec})
    # Some kinds say that it is none at all, too.
    whole = {("spec.selector", INVALID)} if resource is kube.DEPLOYMENTS else set()
    assert (refused.code, refused.causes) == (422, {(f"spec.selector.{field}", reason), *whole})


async def test_a_workload_without_a_selector_selects_nothing(server: Server) -> None:
    wanted = {"metadata": {"name": "it"}, "spec": {"template": template_json({"app": "web"})}}
    refused = await server.refused("POST", server.path(kube.DEPLOYMENTS), wanted)
    assert refused.causes == {("spec.selector", REQUIRED), ("spec.template.metadata.labels", INVALID)}
