"""What a container uses, as metrics.k8s.io tells it after a resize."""

from elastipod.quantities import parse_memory
from tests.contract_node.nodes import METRICS, Json, Node
from tests.contract_node.workers import MIB, grows, worker


def test_usage_after_a_resize_is_that_of_the_same_run(node: Node) -> None:
    node.start_metrics()
    web = node.run("web", worker(work=grows(150, after=1), memory="32Mi", memory_limit="200Mi"))
    web.resize(limits={"memory": "300Mi"})
    web.until_settled()

    def told() -> list[Json]:
        code, json = node.call("GET", f"{METRICS}/web")
        return json["containers"] if code == 200 else []

    def is_seen(found: list[Json]) -> bool:
        return bool(found) and parse_memory(found[0]["usage"]["memory"]) >= 140 * MIB

    [app] = node.until(told, is_seen, "150 MiB are told")
    assert app["name"] == "app"
    assert parse_memory(app["usage"]["memory"]) < 300 * MIB
    assert web.app().restart_count == 0
