"""Resizes that want a restart of their container: one, with the new size."""

from elastipod.pods import Pod
from elastipod.quantities import Resources
from tests.contract_node.nodes import Json, Node
from tests.contract_node.workers import MIB, ends, holds, restarts_for, worker


def restarted(pod: Pod) -> bool:
    return pod.is_ready and pod.containers[0].restart_count > 0


def test_memory_may_be_resized_by_restart(node: Node) -> None:
    web = node.run("web", worker(memory="32Mi", memory_limit="64Mi", resizePolicy=restarts_for("memory")))
    before = web.app()
    web.resize(requests={"memory": "48Mi"}, limits={"memory": "96Mi"})
    web.until(restarted, "it runs again")
    web.until_settled()
    after = web.app()
    assert after.restart_count == 1
    assert after.container_id != before.container_id
    assert after.last_termination is not None
    assert after.last_termination.container_id == before.container_id
    assert after.allocated == after.actual_requests == Resources(100, 48 * MIB)
    assert after.actual_limits == Resources(None, 96 * MIB)
    assert "resize requires restart" in web.until_told("Killing").message


def test_cpu_is_resized_without_the_restart_that_memory_wants(node: Node) -> None:
    web = node.run("web", worker(memory="32Mi", memory_limit="64Mi", resizePolicy=restarts_for("memory")))
    before = web.app()
    web.resize(requests={"cpu": "250m"})
    web.until_settled()
    assert (web.app().container_id, web.app().restart_count) == (before.container_id, 0)
    assert web.app().actual_requests == Resources(250, 32 * MIB)


def test_cpu_may_be_resized_by_restart(node: Node) -> None:
    web = node.run("web", worker(cpu="200m", cpu_limit="400m", resizePolicy=restarts_for("cpu")))
    web.resize(requests={"cpu": "50m"}, limits={"cpu": "100m"})
    web.until(restarted, "it runs again")
    web.until_settled()
    assert web.app().restart_count == 1
    assert web.app().actual_requests == Resources(50, 128 * MIB)
    assert web.app().actual_limits == Resources(100, None)


def test_both_resized_by_restart_are_one_restart(node: Node) -> None:
    policy = restarts_for("cpu", "memory")
    web = node.run("web", worker(cpu="200m", memory="32Mi", memory_limit="64Mi", resizePolicy=policy))
    web.resize(requests={"cpu": "300m", "memory": "48Mi"}, limits={"memory": "96Mi"})
    web.until(restarted, "it runs again")
    web.until_settled()
    assert web.app().restart_count == 1
    assert web.app().actual_requests == Resources(300, 48 * MIB)


def test_only_the_container_that_wants_it_is_restarted(node: Node) -> None:
    sizes: Json = {"memory": "32Mi", "memory_limit": "64Mi"}
    web = node.run("web", worker(**sizes, resizePolicy=restarts_for("memory")), worker("other", **sizes))
    other = web.app("other")
    bigger = {"requests": {"memory": "48Mi"}, "limits": {"memory": "96Mi"}}
    web.resize_all({"app": bigger, "other": bigger})
    web.until(restarted, "it runs again")
    web.until_settled()
    assert web.app().restart_count == 1
    assert (web.app("other").restart_count, web.app("other").container_id) == (0, other.container_id)
    for name in ("app", "other"):
        assert web.app(name).actual_limits == Resources(None, 96 * MIB)


def test_two_resizes_by_restart_are_two_restarts(node: Node) -> None:
    web = node.run("web", worker(memory="32Mi", memory_limit="64Mi", resizePolicy=restarts_for("memory")))
    for count, mib in ((1, 96), (2, 80)):
        web.resize(limits={"memory": f"{mib}Mi"})
        web.until(lambda one: one.is_ready and one.containers[0].restart_count >= count, "it runs again")  # noqa: B023
        web.until_settled()
        assert web.app().restart_count == count
        assert web.app().actual_limits == Resources(None, mib * MIB)


def test_a_container_that_does_not_run_takes_its_size_when_it_starts(node: Node) -> None:
    web = node.make("web", worker(work=ends(0, exit_code=1), memory="32Mi", memory_limit="64Mi"))
    web.until(lambda one: one.containers[0].waiting_reason == "CrashLoopBackOff", "it crashes again and again")
    web.resize(limits={"memory": "96Mi"})
    web.until_settled()
    app = web.app()
    assert app.allocated == Resources(100, 32 * MIB)
    assert app.actual_limits == Resources(None, 96 * MIB)


def test_memory_in_use_is_no_hindrance_to_a_restart(node: Node) -> None:
    policy = restarts_for("memory")
    web = node.run("web", worker(work=holds(60), memory="32Mi", memory_limit="100Mi", resizePolicy=policy))
    web.resize(limits={"memory": "80Mi"})
    web.until(restarted, "it runs again")
    web.until_settled()
    assert web.app().actual_limits == Resources(None, 80 * MIB)
