"""When containers are started, restarted, waited for and ended."""

import pytest

from elastipod.localcluster.node.lifecycle import Do, Ending, Track, note_end, phase, plan, plan_end
from elastipod.pods import Container, ContainerKind, Pod


def pod(*kinds: ContainerKind, policy: str = "Always") -> Pod:
    containers = tuple(Container(f"c{number}", kind) for number, kind in enumerate(kinds))
    return Pod("default", "web", "uid", restart_policy=policy, containers=containers)


def tracks(of: Pod) -> dict[str, Track]:
    return {one.name: Track(one.name) for one in of.containers}


def run(track: Track, at: float = 0.0) -> None:
    track.started_at, track.attempts, track.ended = at, track.attempts + 1, None


def end(track: Track, at: float, code: int = 0) -> None:
    note_end(track, Ending("", code, "id", track.started_at or 0.0, at), on_purpose=False)


APP, INIT, SIDECAR = ContainerKind.APP, ContainerKind.INIT, ContainerKind.SIDECAR


@pytest.mark.parametrize(
    ("policy", "code", "restarts", "then"),
    [
        ("Always", 0, True, "Running"),
        ("Always", 1, True, "Running"),
        ("OnFailure", 0, False, "Succeeded"),
        ("OnFailure", 1, True, "Running"),
        ("Never", 0, False, "Succeeded"),
        ("Never", 1, False, "Failed"),
    ],
)
def test_the_restart_policy_decides(policy: str, code: int, restarts: bool, then: str) -> None:
    one = pod(APP, policy=policy)
    known = tracks(one)
    run(known["c0"])
    end(known["c0"], 5.0, code)
    assert bool(plan(one, known, 5.0).actions) is restarts
    assert phase(one, known) == then


def test_what_was_ended_for_a_resize_runs_again_however_it_ended() -> None:
    one = pod(APP, policy="OnFailure")
    known = tracks(one)
    run(known["c0"])
    known["c0"].restarts_for_resize = True
    note_end(known["c0"], Ending("Completed", 0, "id", 0.0, 5.0), on_purpose=True)
    assert plan(one, known, 5.0).actions == [(Do.START, "c0")]
    assert phase(one, known) == "Running"


def test_crashes_wait_ten_seconds_doubling_to_five_minutes_and_a_long_run_clears_them() -> None:
    track = Track("c0")
    waits = []
    for _ in range(8):
        run(track, 0.0)
        end(track, 1.0, 1)
        waits.append(track.may_start_at - 1.0)
    assert waits == [0, 10, 20, 40, 80, 160, 300, 300]
    run(track, 0.0)
    end(track, 600.0, 1)
    assert track.may_start_at == 600.0


def test_a_container_that_backs_off_is_looked_at_when_its_time_has_come() -> None:
    one = pod(APP)
    known = tracks(one)
    for _ in range(2):
        run(known["c0"])
        end(known["c0"], 1.0, 1)
    waiting = plan(one, known, 5.0)
    assert waiting.actions == []
    assert waiting.look_again_at == 11.0
    assert plan(one, known, 11.0).actions == [(Do.START, "c0")]


def test_init_containers_come_one_after_the_other_and_sidecars_stay_beside() -> None:
    one = pod(INIT, SIDECAR, INIT, APP)
    known = tracks(one)
    assert plan(one, known, 0.0).actions == [(Do.START, "c0")]
    run(known["c0"])
    assert plan(one, known, 0.0).actions == []
    end(known["c0"], 1.0)
    assert plan(one, known, 1.0).actions == [(Do.START, "c1")]
    run(known["c1"])
    assert plan(one, known, 1.0).actions == [(Do.START, "c2")]
    run(known["c2"])
    end(known["c2"], 2.0)
    assert plan(one, known, 2.0).actions == [(Do.START, "c3")]


def test_a_failed_init_container_fails_a_pod_that_never_restarts() -> None:
    one = pod(INIT, APP, policy="Never")
    known = tracks(one)
    run(known["c0"])
    end(known["c0"], 1.0, 1)
    assert plan(one, known, 1.0).actions == []
    assert phase(one, known) == "Failed"


def test_apps_are_asked_to_end_then_killed_after_their_grace_and_sidecars_last() -> None:
    one = pod(SIDECAR, APP)
    known = tracks(one)
    for track in known.values():
        run(track)
    first = plan_end(one, known, 0.0, 30.0)
    assert first.actions == [(Do.STOP, "c1")]
    assert first.look_again_at == 30.0
    known["c1"].kill_at = first.kill_at["c1"]
    assert plan_end(one, known, 10.0, 20.0).actions == []
    assert plan_end(one, known, 30.0, 0.0).actions == [(Do.KILL, "c1")]
    end(known["c1"], 30.0, 137)
    assert plan_end(one, known, 30.0, 0.0).actions == [(Do.KILL, "c0")]


@pytest.mark.parametrize(("code", "then"), [(0, "Succeeded"), (1, "Failed")])
def test_a_pod_is_over_once_its_sidecars_have_ended_too(code: int, then: str) -> None:
    one = pod(SIDECAR, APP, policy="Never")
    known = tracks(one)
    run(known["c0"])
    run(known["c1"])
    end(known["c1"], 5.0, code)
    assert plan(one, known, 5.0).actions == [(Do.STOP, "c0")]
    assert phase(one, known) == "Running"
    end(known["c0"], 6.0, 143)
    assert phase(one, known) == then


def test_a_shorter_grace_that_is_asked_for_later_counts() -> None:
    one = pod(APP)
    known = tracks(one)
    run(known["c0"])
    known["c0"].kill_at = plan_end(one, known, 0.0, 30.0).kill_at["c0"]
    assert plan_end(one, known, 1.0, 0.0).actions == [(Do.KILL, "c0")]
