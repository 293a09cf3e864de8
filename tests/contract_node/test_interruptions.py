"""Pods that are deleted and kubelets that are killed while a resize is under way."""

from elastipod.pods import Pod
from elastipod.quantities import Resources
from tests.contract_node.nodes import Node, OnePod
from tests.contract_node.workers import MIB, ends, restarts_for, worker


def restart_kubelet(node: Node) -> None:
    node.kill_kubelet()
    node.start_kubelet()


def waiting(node: Node) -> tuple[OnePod, OnePod]:
    """A neighbour, and a pod that waits for 300m of what it has."""
    neighbour = node.run("neighbour", worker(cpu=f"{node.size.cpu - 200}m", memory="16Mi"))
    web = node.run("web", worker(cpu="100m"))
    web.resize(requests={"cpu": "300m"})
    web.until_waiting()
    return neighbour, web


def test_a_pod_that_waits_is_deleted_and_its_room_is_free(node: Node) -> None:
    _, web = waiting(node)
    web.delete()
    again = node.run("web", worker(cpu="200m"))
    assert again.uid != web.uid
    assert again.app().allocated == Resources(200, 128 * MIB)


def test_a_pod_is_deleted_right_after_its_resize(node: Node) -> None:
    web = node.run("web", worker(memory="32Mi", memory_limit="64Mi"))
    web.resize(requests={"cpu": f"{node.size.cpu - 200}m"}, limits={"memory": "96Mi"})
    web.delete()
    assert node.run("next", worker(cpu=f"{node.size.cpu}m")).read().is_running


def test_a_pod_is_resized_right_after_its_deletion(node: Node) -> None:
    web = node.run("web", worker(memory="32Mi", memory_limit="64Mi"))
    node.done("DELETE", web.path)
    code, _ = web.try_resize({"app": {"limits": {"memory": "96Mi"}}})
    assert code in (200, 404)
    web.until_gone()


def test_a_pod_is_deleted_while_its_container_is_restarted_for_a_resize(node: Node) -> None:
    web = node.run("web", worker(memory="32Mi", memory_limit="64Mi", resizePolicy=restarts_for("memory")))
    web.resize(limits={"memory": "96Mi"})
    web.until_told("ResizeStarted")
    web.delete()
    assert node.run("next", worker(cpu=f"{node.size.cpu}m")).read().is_running


def test_containers_outlive_the_kubelet(node: Node) -> None:
    web = node.run("web", worker(memory_limit="200Mi"), worker("other"))
    before = web.read()
    restart_kubelet(node)
    # A pod that is made now is looked at after those that were there.
    node.run("next", worker())
    after = web.read()
    assert [(one.container_id, one.restart_count) for one in after.containers] == [
        (one.container_id, 0) for one in before.containers
    ]
    assert [one.allocated for one in after.containers] == [one.allocated for one in before.containers]
    assert after.is_ready


def test_what_is_asked_for_while_the_kubelet_is_away_is_done_when_it_is_back(node: Node) -> None:
    web = node.run("web", worker(cpu="100m", memory="32Mi", memory_limit="64Mi"))
    before = web.app()
    node.kill_kubelet()
    web.resize(requests={"cpu": "300m"}, limits={"memory": "96Mi"})
    assert web.app().allocated == before.allocated
    node.start_kubelet()
    web.until_settled()
    after = web.app()
    assert (after.container_id, after.restart_count) == (before.container_id, 0)
    assert after.allocated == after.actual_requests == Resources(300, 32 * MIB)
    assert after.actual_limits == Resources(None, 96 * MIB)


def test_a_kubelet_that_is_killed_in_the_middle_ends_what_it_began(node: Node) -> None:
    web = node.run("web", worker(cpu="100m", memory="32Mi", memory_limit="64Mi"))
    before = web.app()
    web.resize(requests={"cpu": "300m"}, limits={"memory": "96Mi"})
    restart_kubelet(node)
    web.until_settled()
    after = web.app()
    assert (after.container_id, after.restart_count) == (before.container_id, 0)
    assert after.allocated == after.actual_requests == Resources(300, 32 * MIB)
    assert after.actual_limits == Resources(None, 96 * MIB)


def test_a_kubelet_that_is_killed_in_a_restart_for_a_resize_ends_it(node: Node) -> None:
    web = node.run("web", worker(memory="32Mi", memory_limit="64Mi", resizePolicy=restarts_for("memory")))
    web.resize(limits={"memory": "96Mi"})
    web.until_told("Killing")
    restart_kubelet(node)

    def restarted(one: Pod) -> bool:
        return one.is_ready and one.containers[0].restart_count > 0

    web.until(restarted, "it runs again")
    web.until_settled()
    assert web.app().restart_count in node.restarts_when_killed
    assert web.app().actual_limits == Resources(None, 96 * MIB)


def test_what_waits_waits_on_after_a_restart_of_the_kubelet(node: Node) -> None:
    neighbour, web = waiting(node)
    restart_kubelet(node)
    node.run("next", worker(cpu="50m"))
    pod = web.until_waiting()
    assert pod.containers[0].allocated == Resources(100, 128 * MIB)
    neighbour.delete()
    web.until_settled()
    assert web.app().actual_requests == Resources(300, 128 * MIB)
    assert web.app().restart_count == 0


def test_room_that_comes_while_the_kubelet_is_away_is_given_when_it_is_back(node: Node) -> None:
    neighbour, web = waiting(node)
    node.kill_kubelet()
    node.done("DELETE", neighbour.path)
    node.start_kubelet()
    neighbour.until_gone()
    web.until_settled()
    assert (web.app().allocated, web.app().restart_count) == (Resources(300, 128 * MIB), 0)


def test_an_end_that_no_kubelet_saw_is_told_when_it_is_back(node: Node) -> None:
    web = node.run("web", worker(work=ends(4, exit_code=3)), restartPolicy="Never")
    node.kill_kubelet()
    group = web.container_group("app")
    node.until(lambda: node.has_processes(group), lambda left: not left, "it has ended")
    node.start_kubelet()
    pod = web.until(lambda one: one.phase == "Failed", "its end is told")
    ended = pod.containers[0].termination
    assert ended is not None
    assert (ended.reason, ended.exit_code) == ("Error", 3)


def test_a_pod_that_is_deleted_while_the_kubelet_is_away_goes_when_it_is_back(node: Node) -> None:
    web = node.run("web", worker())
    node.kill_kubelet()
    web.resize(requests={"cpu": "300m"})
    node.done("DELETE", web.path)
    node.start_kubelet()
    web.until_gone()
