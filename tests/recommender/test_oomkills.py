"""OOM kills from pod states: each once, with the limit it was killed at."""

from typing import Any

import pytest
from msgspec import structs

from elastipod.pods import Container, Pod, Termination, Workload
from elastipod.quantities import Resources
from recommender.oomkills import oom_kills, shows_new_kill
from recommender.samples import OomKill

MI = 1024**2
WEB = Workload("ns", "Deployment", "web")
NOW = 1.8e9
OOM = Termination("OOMKilled", 137, "containerd://aaa", 1.7e9, 1.7e9 + 60)


def pod(**container: Any) -> Pod:
    given: dict[str, Any] = {
        "name": "app",
        "limits": Resources(None, 100 * MI),
        "container_id": "containerd://aaa",
    } | container
    return Pod("ns", "web-0", "uid-1", containers=(Container(**given),))


def kills(*states: Pod) -> list[OomKill]:
    """What is told over a series of states, each kill once."""
    found: dict[str, OomKill] = {}
    old: Pod | None = None
    for state in states:
        if shows_new_kill(old, state):
            for one in oom_kills(old, state, WEB, NOW):
                found.setdefault(one.kill_id, one)
        old = state
    return list(found.values())


def test_a_kill_that_ends_the_pod_counts_once_r05() -> None:
    [found] = kills(pod(is_running=True), pod(termination=OOM), pod(termination=OOM))
    assert found.limit_bytes == 100 * MI


def test_a_kill_seen_through_crash_loop_and_restart_counts_once_r05() -> None:
    states = (
        pod(is_running=True),
        pod(waiting_reason="CrashLoopBackOff", last_termination=OOM),
        pod(is_running=True, last_termination=OOM, restart_count=1, container_id="containerd://bbb"),
    )
    assert len(kills(*states)) == 1
    assert len(kills(pod(is_running=True), pod(termination=OOM), *states[1:])) == 1


def test_a_kill_without_a_container_id_counts_once_r05() -> None:
    bare = structs.replace(OOM, container_id="")
    states = (pod(is_running=True), pod(termination=bare), pod(last_termination=bare, restart_count=1))
    assert len(kills(*states)) == 1


def test_the_limit_is_the_one_the_killed_run_had_r05() -> None:
    before = pod(is_running=True, actual_limits=Resources(None, 80 * MI))
    raised = pod(
        is_running=True,
        last_termination=OOM,
        container_id="containerd://bbb",
        limits=Resources(None, 400 * MI),
        actual_limits=Resources(None, 400 * MI),
    )
    [found] = kills(before, raised)
    assert found.limit_bytes == 80 * MI


def test_two_kills_are_two() -> None:
    second = structs.replace(OOM, container_id="containerd://bbb")
    states = (
        pod(is_running=True),
        pod(termination=OOM),
        pod(termination=second, last_termination=OOM, container_id="containerd://bbb"),
    )
    assert len(kills(*states)) == 2


@pytest.mark.parametrize("reason", ["Error", "Completed", "ContainerStatusUnknown", ""])
def test_an_end_that_is_no_oom_kill_is_none_r75(reason: str) -> None:
    ended = structs.replace(OOM, reason=reason)
    assert kills(pod(is_running=True), pod(termination=ended)) == []


def test_a_kill_is_not_later_than_now() -> None:
    [found] = kills(pod(termination=structs.replace(OOM, finished_at=NOW + 7200)))
    assert found.at == NOW


@pytest.mark.parametrize("finished_at", [0.0, NOW - 9 * 86_400, NOW + 7200, None])
def test_a_kill_that_is_seen_to_happen_happens_now_whatever_the_nodes_clock_says_r74_r26(
    finished_at: float | None,
) -> None:
    ended = structs.replace(OOM, finished_at=finished_at)
    assert [one.at for one in kills(pod(is_running=True), pod(termination=ended))] == [NOW]
    [found] = kills(pod(is_running=True), pod(is_running=True, last_termination=ended, container_id="containerd://bbb"))
    assert found.at == NOW


def test_a_kill_from_before_we_looked_is_not_older_than_its_pod_r74() -> None:
    made = structs.replace(pod(termination=structs.replace(OOM, finished_at=0.0)), created_at=NOW - 600)
    assert [one.at for one in kills(made)] == [NOW - 600]
    later = structs.replace(made, containers=pod(termination=structs.replace(OOM, finished_at=NOW - 60)).containers)
    assert [one.at for one in kills(later)] == [NOW - 60]
