"""Memory that is in use when its limit changes, and what is killed for want of it."""

from elastipod.pods import Pod
from elastipod.quantities import Resources
from tests.contract_node.nodes import Node, OnePod
from tests.contract_node.workers import MIB, Work, grows, holds, shrinks, worker

HOLDS = holds(60)


def is_refused(one: Pod) -> bool:
    progress = one.resize_in_progress
    return progress is not None and progress.reason == "Error" and "below current usage" in progress.message


def full(node: Node, work: Work = HOLDS) -> OnePod:
    """A pod that holds 60 of its 100 MiB, once that is seen."""
    web = node.run("web", worker(work=work, memory="32Mi", memory_limit="100Mi"))
    node.until_used(web, 55 * MIB)
    return web


def test_a_limit_is_not_lowered_under_what_is_used(node: Node) -> None:
    web = full(node)
    web.resize(limits={"memory": "40Mi"})
    told = web.until(is_refused, "it is refused").resize_in_progress
    assert told is not None
    # Of pod and container, a kubelet names those whose usage it knows by now.
    assert told.message.startswith("cannot decrease memory limits: ")
    assert f"memory limit ({40 * MIB}) below current usage (" in told.message
    assert told.observed_generation == 2
    app = web.app()
    assert (app.actual_limits, app.restart_count) == (Resources(None, 100 * MIB), 0)
    event = web.until_told("ResizeError")
    assert event.type == "Warning"
    assert "below current usage" in event.message


def test_a_limit_is_lowered_as_far_as_what_is_used_allows(node: Node) -> None:
    web = full(node)
    web.resize(limits={"memory": "80Mi"})
    web.until_settled()
    assert (web.app().actual_limits, web.app().restart_count) == (Resources(None, 80 * MIB), 0)


def test_a_refused_limit_is_in_force_once_less_is_used(node: Node) -> None:
    web = full(node, work=shrinks(60, after=node.notice_seconds))
    web.resize(limits={"memory": "40Mi"})
    web.until(is_refused, "it is refused")
    web.until_settled()
    assert (web.app().actual_limits, web.app().restart_count) == (Resources(None, 40 * MIB), 0)


def test_a_refused_limit_that_is_put_back_is_forgotten(node: Node) -> None:
    web = full(node)
    web.resize(limits={"memory": "40Mi"})
    web.until(is_refused, "it is refused")
    web.resize(limits={"memory": "100Mi"})
    assert web.until_settled().observed_generation == 3
    assert (web.app().actual_limits, web.app().restart_count) == (Resources(None, 100 * MIB), 0)
    assert '"generation":3' in web.until_told("ResizeCompleted").message


def test_a_refused_limit_holds_up_what_was_asked_for_with_it(node: Node) -> None:
    web = full(node)
    web.resize(requests={"cpu": "250m"}, limits={"memory": "40Mi"})
    web.until(is_refused, "it is refused")
    app = web.app()
    assert app.allocated == Resources(250, 32 * MIB)
    assert app.actual_requests == Resources(100, 32 * MIB)
    web.resize(limits={"memory": "90Mi"})
    web.until_settled()
    assert web.app().actual_requests == Resources(250, 32 * MIB)
    assert web.app().actual_limits == Resources(None, 90 * MIB)


def test_one_resize_may_be_refused_while_a_later_one_waits(node: Node) -> None:
    node.run("neighbour", worker(cpu=f"{node.size.cpu - 200}m", memory="16Mi"))
    web = full(node)
    web.resize(limits={"memory": "40Mi"})
    web.until(is_refused, "it is refused")
    web.resize(requests={"cpu": "300m"})
    web.until_waiting()
    pod = web.read()
    assert pod.resize_in_progress is not None
    assert pod.resize_pending is not None
    assert (pod.resize_in_progress.observed_generation, pod.resize_pending.observed_generation) == (2, 3)
    assert pod.containers[0].actual_requests == Resources(100, 32 * MIB)


def test_what_wants_more_than_its_limit_is_killed(node: Node) -> None:
    web = node.make("web", worker(work=holds(200), memory="32Mi", memory_limit="100Mi"), restartPolicy="Never")
    pod = web.until(lambda one: one.phase == "Failed", "it is killed")
    ended = pod.containers[0].termination
    assert ended is not None
    assert (ended.reason, ended.exit_code, pod.containers[0].restart_count) == ("OOMKilled", 137, 0)


def test_what_was_killed_runs_again_with_the_same_size(node: Node) -> None:
    web = node.run("web", worker(work=grows(200, after=4), memory="32Mi", memory_limit="100Mi"))
    pod = web.until(lambda one: one.containers[0].restart_count > 0 and one.is_ready, "it runs again")
    ended = pod.containers[0].last_termination
    assert ended is not None
    assert (ended.reason, ended.exit_code) == ("OOMKilled", 137)
    assert ended.container_id != pod.containers[0].container_id
    assert pod.containers[0].actual_limits == Resources(None, 100 * MIB)


def test_a_limit_that_is_raised_in_time_keeps_what_grows(node: Node) -> None:
    web = node.run("web", worker(work=grows(150, after=node.notice_seconds), memory="32Mi", memory_limit="100Mi"))
    web.resize(limits={"memory": "300Mi"})
    web.until_settled()
    node.until_used(web, 140 * MIB)
    app = web.app()
    assert (app.is_running, app.restart_count, app.actual_limits) == (True, 0, Resources(None, 300 * MIB))


def test_what_is_killed_while_its_resize_waits_runs_again_with_what_is_allocated(node: Node) -> None:
    node.run("neighbour", worker(cpu=f"{node.size.cpu - 200}m", memory="16Mi"))
    web = node.run("web", worker(work=grows(200, after=node.notice_seconds), memory="32Mi", memory_limit="100Mi"))
    web.resize(requests={"cpu": "300m"}, limits={"memory": "400Mi"})
    web.until(lambda one: one.containers[0].restart_count > 0, "it runs again")
    pod = web.until_waiting()
    app = pod.containers[0]
    assert app.last_termination is not None
    assert app.last_termination.reason == "OOMKilled"
    assert app.allocated == Resources(100, 32 * MIB)
    assert app.actual_limits == Resources(None, 100 * MIB)


def test_what_is_killed_while_its_limit_is_refused_runs_again_with_the_new_one(node: Node) -> None:
    web = full(node, work=Work(held=((0, 60), (node.notice_seconds, 200))))
    web.resize(limits={"memory": "40Mi"})
    web.until(is_refused, "it is refused")
    web.until(lambda one: one.containers[0].restart_count > 0, "it is killed")
    web.until_settled()
    assert web.app().actual_limits == Resources(None, 40 * MIB)
