"""How pods begin and end: admission, exits, crashes, jobs, sidecars and init containers."""

from typing import Any

from elastipod.quantities import Resources
from tests.build import job_json
from tests.contract_node.nodes import JOBS, Node
from tests.contract_node.workers import MIB, USAGE_MODEL, ends, pod, worker
from tests.localcluster.served import PODS

Json = dict[str, Any]


def test_a_pod_that_does_not_fit_is_turned_away(node: Node) -> None:
    most = node.size.cpu
    node.run("neighbour", worker(cpu=f"{most - 200}m", memory="16Mi"))
    status = node.make("web", worker(cpu="300m")).until_failed()
    assert status["reason"] == "OutOfcpu"
    asked = f"requested: 300, used: {most - 200}, capacity: {most}"
    assert status["message"] == f"Pod was rejected: Node didn't have enough resource: cpu, {asked}"
    assert "containerStatuses" not in status


def test_a_pod_with_too_much_memory_is_turned_away(node: Node) -> None:
    status = node.make("web", worker(memory=str(node.size.memory + MIB))).until_failed()
    assert status["reason"] == "OutOfmemory"


def test_a_resize_that_was_given_counts_when_pods_are_admitted(node: Node) -> None:
    web = node.run("web", worker(cpu="100m"))
    web.resize(requests={"cpu": f"{node.size.cpu - 100}m"})
    web.until_settled()
    assert node.make("next", worker(cpu="200m")).until_failed()["reason"] == "OutOfcpu"
    web.resize(requests={"cpu": "100m"})
    web.until_settled()
    node.run("again", worker(cpu="200m"))


def test_a_resize_that_waits_takes_no_room_from_pods_that_come(node: Node) -> None:
    node.run("neighbour", worker(cpu=f"{node.size.cpu - 300}m", memory="16Mi"))
    web = node.run("web", worker(cpu="100m"))
    web.resize(requests={"cpu": "500m"})
    web.until_waiting()
    assert node.run("next", worker(cpu="200m")).app().allocated == Resources(200, 128 * MIB)


def test_a_pod_whose_containers_all_end_well_succeeds(node: Node) -> None:
    web = node.make("web", worker(work=ends(1)), worker("other", work=ends(2)), restartPolicy="OnFailure")
    ended = web.until(lambda one: one.phase == "Succeeded", "it succeeds").containers
    assert [(one.termination.reason, one.termination.exit_code) for one in ended if one.termination] == [
        ("Completed", 0)
    ] * 2


def test_a_pod_with_a_container_that_ends_badly_fails(node: Node) -> None:
    web = node.make("web", worker(work=ends(1, exit_code=3)), worker("other", work=ends(1)), restartPolicy="Never")
    pod = web.until(lambda one: one.phase == "Failed", "it fails")
    ended = pod.containers[0].termination
    assert ended is not None
    assert (ended.reason, ended.exit_code, pod.containers[0].restart_count) == ("Error", 3, 0)


def test_a_pod_that_ended_gives_its_room_back(node: Node) -> None:
    web = node.make("web", worker(work=ends(1), cpu=f"{node.size.cpu}m"), restartPolicy="Never")
    web.until(lambda one: one.phase == "Succeeded", "it succeeds")
    node.run("next", worker(cpu=f"{node.size.cpu}m"))


def test_who_crashes_again_and_again_is_kept_waiting(node: Node) -> None:
    web = node.make("web", worker(work=ends(0, exit_code=1)))
    pod = web.until(lambda one: one.containers[0].waiting_reason == "CrashLoopBackOff", "it is kept waiting")
    app = pod.containers[0]
    assert (app.is_ready, app.is_running, pod.phase) == (False, False, "Running")
    assert app.last_termination is not None
    assert (app.last_termination.reason, app.last_termination.exit_code) == ("Error", 1)
    assert app.last_termination.container_id == app.container_id
    [status] = web.json()["status"]["containerStatuses"]
    # The first end is followed by a start at once, and by the wait for ten seconds the next, which is soon over.
    seconds = 10 * 2 ** (status["restartCount"] - 1)
    assert status["state"]["waiting"]["message"].startswith(f"back-off {seconds}s restarting failed container=app")
    later = web.until(lambda one: one.containers[0].restart_count > app.restart_count, "it is tried again")
    assert later.containers[0].container_id != app.container_id


def test_a_new_size_ends_the_wait_of_who_crashes_and_waits_begin_anew(node: Node) -> None:
    web = node.make("web", worker(work=ends(0, exit_code=1)))
    web.until(
        lambda one: one.containers[0].restart_count > 0 and one.containers[0].waiting_reason == "CrashLoopBackOff"
    )
    before = web.app()
    web.resize(requests={"cpu": "200m"})
    resized_at = node.now()
    web.until(lambda one: one.containers[0].restart_count >= before.restart_count + 2, "it started twice")
    # Two more waits would have been ten seconds and twenty, or longer.
    assert node.now() - resized_at < 20
    after = web.until(lambda one: one.containers[0].waiting_reason == "CrashLoopBackOff", "it waits again")
    assert after.containers[0].allocated == Resources(200, 128 * MIB)


def test_a_job_of_a_pod_is_complete_when_it_ends(node: Node) -> None:
    body = pod("unused", [worker(work=ends(2))], node=node.name, restartPolicy="Never")
    job = job_json("genome", backoffLimit=0)
    job["spec"]["template"] = {"metadata": {"annotations": body["metadata"]["annotations"]}, "spec": body["spec"]}
    node.done("POST", JOBS, job)

    def conditions() -> dict[str, str]:
        status = node.done("GET", f"{JOBS}/genome").get("status") or {}
        return {one["type"]: one["status"] for one in status.get("conditions") or ()}

    node.until(conditions, lambda found: found.get("Complete") == "True", "the job is complete")
    [made] = node.done("GET", PODS)["items"]
    assert made["metadata"]["annotations"][USAGE_MODEL]
    assert made["status"]["phase"] == "Succeeded"


def test_init_containers_end_before_the_others_begin(node: Node) -> None:
    inits = [worker("first", work=ends(1)), worker("second", work=ends(1))]
    web = node.run("web", worker(), inits=inits)
    first, second = (web.app(name).termination for name in ("first", "second"))
    assert first is not None
    assert second is not None
    assert first.finished_at is not None
    assert second.started_at is not None
    assert second.finished_at is not None
    assert first.finished_at <= second.started_at
    started_at = web.app().started_at
    assert started_at is not None
    assert second.finished_at <= started_at


def test_a_pod_whose_init_container_fails_never_begins(node: Node) -> None:
    web = node.make("web", worker(), inits=[worker("setup", work=ends(0, exit_code=2))], restartPolicy="Never")
    web.until(lambda one: one.phase == "Failed", "it fails")
    assert web.app("setup").termination is not None
    assert not web.app().container_id


def test_the_larger_of_init_and_app_is_what_a_pod_counts_for(node: Node) -> None:
    web = node.run("web", worker(cpu="100m"), inits=[worker("setup", work=ends(0), cpu=f"{node.size.cpu - 200}m")])
    web.resize(requests={"cpu": "400m"})
    web.until_settled()
    node.run("next", worker(cpu="200m"))
    assert node.make("more", worker(cpu="100m")).until_failed()["reason"] == "OutOfcpu"


def test_a_sidecar_runs_before_the_app_and_ends_after_it(node: Node) -> None:
    proxy = worker("proxy", restartPolicy="Always")
    web = node.make("web", worker(work=ends(3)), inits=[proxy], restartPolicy="Never")
    web.until(lambda one: one.is_ready, "it runs")
    proxy_started, app_started = web.app("proxy").started_at, web.app().started_at
    assert proxy_started is not None
    assert app_started is not None
    assert proxy_started <= app_started
    web.until(lambda one: one.phase == "Succeeded", "it succeeds")
    done = web.until(lambda one: all(container.termination for container in one.containers), "all has ended")
    app, sidecar = done.container("app"), done.container("proxy")
    assert app is not None
    assert sidecar is not None
    assert app.termination is not None
    assert sidecar.termination is not None
    assert (app.termination.reason, app.termination.exit_code) == ("Completed", 0)
    assert (app.termination.finished_at or 0) <= (sidecar.termination.finished_at or 0)


def test_a_sidecar_that_ends_runs_again(node: Node) -> None:
    proxy = worker("proxy", work=ends(2), restartPolicy="Always")
    web = node.run("web", worker(), inits=[proxy], restartPolicy="Never")
    web.until(lambda one: any(container.restart_count for container in one.containers), "it runs again")
    assert web.app().restart_count == 0


def test_a_pod_is_told_of_as_it_begins_and_ends(node: Node) -> None:
    web = node.run("web", worker())
    web.until_told("Started")
    node.done("DELETE", web.path)
    assert web.until_told("Killing").message == "Stopping container app"
    web.until_gone()
    assert [one.reason for one in web.events() if one.reason in ("Started", "Killing")] == ["Started", "Killing"]
