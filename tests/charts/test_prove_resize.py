"""The program that `helm test` runs, in a cluster in process."""

import asyncio
import runpy

from tests.build import container_json
from tests.charts.pages import CHART
from tests.charts.rendering import needs_helm, render
from tests.localcluster.onenode import OneNode, in_one_node

PROGRAM = runpy.run_path(str(CHART / "files" / "prove_resize.py"))


def _prove(*, restarts: bool = False, node_acts: bool = True) -> str:
    """What came of it on one simulated node."""
    found: list[str] = []

    async def within(world: OneNode) -> None:
        policy = [{"resourceName": "cpu", "restartPolicy": "RestartContainer" if restarts else "NotRequired"}]
        await world.run_pod("elastipod-test", [container_json("prove", cpu="10m", memory="64Mi", resizePolicy=policy)])
        while (await world.pod_json("elastipod-test"))["status"].get("phase") != "Running":
            await asyncio.sleep(0.1)
        if not node_acts:
            await world.close()
        found.append(await PROGRAM["prove"](world.connection, "default", "elastipod-test"))

    in_one_node(within)
    return found[0]


def test_a_pod_that_is_resized_in_place_proves_it() -> None:
    assert _prove() == ""


def test_a_restart_is_no_resize_in_place() -> None:
    assert "restarted" in _prove(restarts=True)


def test_a_node_that_does_nothing_is_told_after_a_while() -> None:
    assert "not in force after" in _prove(node_acts=False)


@needs_helm
def test_the_pod_runs_that_program_with_rights_to_itself_alone() -> None:
    manifests = render()
    pod = manifests.pods()["test"]
    assert pod["metadata"]["annotations"]["helm.sh/hook"] == "test"
    (container,) = pod["spec"]["containers"]
    assert container["command"] == ["python", "-c"]
    assert container["args"][0].strip() == (CHART / "files" / "prove_resize.py").read_text("utf-8").strip()
    for rule in manifests.one("Role", "-test")["rules"]:
        assert rule["resourceNames"] == [pod["metadata"]["name"]]
