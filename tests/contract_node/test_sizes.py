"""What is desired, allocated and in force: of a pod that starts, and of one that is resized where it runs."""

from elastipod.pods import QosClass
from elastipod.quantities import Resources
from tests.contract_node.nodes import Json, Node, is_settled
from tests.contract_node.workers import MIB, worker


def test_a_new_pod_runs_with_what_it_asks_for(node: Node) -> None:
    web = node.run("web", worker(cpu="200m", memory="32Mi", cpu_limit="400m", memory_limit="64Mi"))
    app = web.app()
    assert app.allocated == app.actual_requests == Resources(200, 32 * MIB)
    assert app.actual_limits == Resources(400, 64 * MIB)
    assert is_settled(web.read())
    assert app.container_id.startswith("containerd://")


def test_a_pod_without_limits_has_none_in_force(node: Node) -> None:
    web = node.run("web", worker(cpu="150m", memory="16Mi"))
    [status] = web.json()["status"]["containerStatuses"]
    assert status["allocatedResources"] == status["resources"]["requests"] == {"cpu": "150m", "memory": "16Mi"}
    assert "limits" not in status["resources"]


def test_a_pod_that_asks_for_nothing_has_an_empty_size(node: Node) -> None:
    web = node.run("web", worker(cpu=None, memory=None))
    [status] = web.json()["status"]["containerStatuses"]
    assert status["resources"] == {}
    assert "allocatedResources" not in status
    assert web.read().qos_class is QosClass.BEST_EFFORT


def test_a_resize_up_reaches_the_same_run(node: Node) -> None:
    web = node.run("web", worker(cpu="100m", memory="32Mi", cpu_limit="200m", memory_limit="64Mi"))
    before = web.app()
    web.resize(requests={"cpu": "300m", "memory": "48Mi"}, limits={"cpu": "600m", "memory": "96Mi"})
    assert web.until_settled().observed_generation == 2
    app = web.app()
    assert (app.container_id, app.restart_count) == (before.container_id, 0)
    assert app.allocated == app.actual_requests == Resources(300, 48 * MIB)
    assert app.actual_limits == Resources(600, 96 * MIB)


def test_a_resize_down_reaches_the_same_run(node: Node) -> None:
    web = node.run("web", worker(cpu="500m", memory="64Mi", cpu_limit="1", memory_limit="128Mi"))
    before = web.app()
    web.resize(requests={"cpu": "200m", "memory": "32Mi"}, limits={"cpu": "300m", "memory": "80Mi"})
    web.until_settled()
    app = web.app()
    assert (app.container_id, app.restart_count) == (before.container_id, 0)
    assert app.allocated == app.actual_requests == Resources(200, 32 * MIB)
    assert app.actual_limits == Resources(300, 80 * MIB)


def test_a_resize_is_told_when_it_begins_and_when_it_is_over(node: Node) -> None:
    web = node.run("web", worker())
    web.resize(requests={"cpu": "200m"})
    web.until_settled()
    web.until_told("ResizeCompleted")
    told = [one for one in web.events() if one.reason.startswith("Resize")]
    assert [(one.type, one.reason) for one in told] == [("Normal", "ResizeStarted"), ("Normal", "ResizeCompleted")]
    for one, verb in zip(told, ("started", "completed"), strict=True):
        assert one.message.startswith(f"Pod resize {verb}: {{")
        assert '"generation":2' in one.message
        assert '"cpu":"200m"' in one.message


def test_a_guaranteed_pod_is_resized_and_stays_one(node: Node) -> None:
    size = {"cpu": "200m", "memory": "64Mi"}
    web = node.run("web", worker(cpu="200m", memory="64Mi", cpu_limit="200m", memory_limit="64Mi"))
    for size in ({"cpu": "400m", "memory": "96Mi"}, {"cpu": "100m", "memory": "48Mi"}):
        web.resize(requests=size, limits=size)
        web.until_settled()
        [status] = web.json()["status"]["containerStatuses"]
        assert status["resources"] == {"requests": size, "limits": size}
        assert status["allocatedResources"] == size
    assert web.read().qos_class is QosClass.GUARANTEED
    assert web.app().restart_count == 0


def test_one_of_several_containers_is_resized_alone(node: Node) -> None:
    web = node.run("web", worker(memory_limit="200Mi"), worker("other", cpu="50m", memory="16Mi"))
    before = web.app("other")
    web.resize(requests={"cpu": "250m"}, limits={"memory": "250Mi"})
    web.until_settled()
    assert web.app().actual_requests == Resources(250, 128 * MIB)
    assert web.app().actual_limits == Resources(None, 250 * MIB)
    assert web.app("other") == before


def test_one_container_grows_while_the_other_shrinks(node: Node) -> None:
    sizes: Json = {"cpu": "300m", "memory": "64Mi", "cpu_limit": "500m", "memory_limit": "100Mi"}
    web = node.run("web", worker(**sizes), worker("other", **sizes))
    up = {"requests": {"cpu": "400m", "memory": "96Mi"}, "limits": {"cpu": "700m", "memory": "150Mi"}}
    down = {"requests": {"cpu": "200m", "memory": "32Mi"}, "limits": {"cpu": "300m", "memory": "50Mi"}}
    web.resize_all({"app": up, "other": down})
    web.until_settled()
    assert web.app().actual_requests == Resources(400, 96 * MIB)
    assert web.app().actual_limits == Resources(700, 150 * MIB)
    assert web.app("other").actual_requests == Resources(200, 32 * MIB)
    assert web.app("other").actual_limits == Resources(300, 50 * MIB)
    assert {web.app(name).restart_count for name in ("app", "other")} == {0}


def test_a_limit_is_added_where_there_was_none(node: Node) -> None:
    web = node.run("web", worker(cpu="100m", memory="32Mi"))
    web.resize(limits={"cpu": "300m", "memory": "90Mi"})
    web.until_settled()
    assert web.app().actual_limits == Resources(300, 90 * MIB)
    assert web.app().restart_count == 0


def test_of_several_quick_resizes_the_last_wins(node: Node) -> None:
    web = node.run("web", worker(cpu="100m", cpu_limit="200m"))
    for millicores in (300, 150, 500, 250, 350):
        web.resize(requests={"cpu": f"{millicores}m"}, limits={"cpu": f"{2 * millicores}m"})
    assert web.until_settled().observed_generation == 6
    assert web.app().allocated == web.app().actual_requests == Resources(350, 128 * MIB)
    assert web.app().actual_limits == Resources(700, None)
    assert web.app().restart_count == 0


def test_a_memory_request_changes_alone(node: Node) -> None:
    web = node.run("web", worker(memory="32Mi", memory_limit="64Mi"))
    web.resize(requests={"memory": "48Mi"})
    web.until_settled()
    assert web.app().allocated == web.app().actual_requests == Resources(100, 48 * MIB)
    assert web.app().actual_limits == Resources(None, 64 * MIB)


def test_amounts_under_the_kernels_least_are_told_as_asked(node: Node) -> None:
    web = node.run("web", worker(cpu="1m", cpu_limit="4m"))
    assert (web.app().actual_requests, web.app().actual_limits) == (Resources(1, 128 * MIB), Resources(4, None))
    web.resize(requests={"cpu": "2m"}, limits={"cpu": "9m"})
    web.until_settled()
    assert (web.app().actual_requests, web.app().actual_limits) == (Resources(2, 128 * MIB), Resources(9, None))


def test_a_sidecar_is_resized_where_it_runs(node: Node) -> None:
    proxy = worker("proxy", cpu="50m", memory="16Mi", memory_limit="32Mi", restartPolicy="Always")
    web = node.run("web", worker(), inits=[proxy])
    before = web.app("proxy")
    changes = {"requests": {"cpu": "80m"}, "limits": {"memory": "48Mi"}}
    path, body = f"{web.path}/resize", {"spec": {"initContainers": [{"name": "proxy", "resources": changes}]}}
    node.done("PATCH", path, body, "application/strategic-merge-patch+json")
    web.until_settled()
    after = web.app("proxy")
    assert (after.container_id, after.restart_count) == (before.container_id, 0)
    assert after.actual_requests == after.allocated == Resources(80, 16 * MIB)
    assert after.actual_limits == Resources(None, 48 * MIB)
