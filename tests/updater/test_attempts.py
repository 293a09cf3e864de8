import msgspec

from elastipod.backoff import Backoff
from elastipod.pods import Pod, ResizeCondition
from elastipod.reasons import Reason
from tests.updater.build import NOW, amounts, container, pod, size
from updater.attempt import (
    Accepted,
    Failed,
    Found,
    Gone,
    LookAgainAt,
    PlanAgain,
    PutBack,
    RoomFreed,
    RulesChanged,
    Seen,
    Send,
    State,
    Tell,
    TimeCame,
    Wanted,
)
from updater.attempts import Patience, ResizeAttempts
from updater.facts import Urgency
from updater.plan import Resize
from updater.sizes import size_of

KEY = "shop/web-0"
PATIENCE = Patience(Backoff(5.0, 300.0), deferred_seconds=600.0, in_progress_seconds=3600.0)


def resize(cpu: str = "2", *, urgency: Urgency = Urgency.STARVED) -> Resize:
    sizes = {"app": size(amounts(cpu, "512Mi"))}
    return Resize(KEY, "uid-web-0", sizes, sizes, Reason.OUTSIDE_BOUNDS, urgency)


def wanted(cpu: str = "2", *, fits: bool = True, refusal: Reason | None = None, name: str = "web-0") -> Wanted:
    one = msgspec.structs.replace(resize(cpu), key=f"shop/{name}", uid=f"uid-{name}")
    return Wanted(one, "node-a", 1, fits, refusal)


def answered(cpu: str = "2", *, generation: int = 2, pending: str = "", observed: int = 1) -> Pod:
    """The pod after a request: the spec is the new one, the kubelet has seen generation `observed`."""
    found = pod(container(requests=amounts(cpu, "512Mi")), generation=generation)
    condition = ResizeCondition(pending, "no room", observed, NOW) if pending else None
    return msgspec.structs.replace(found, observed_generation=observed, resize_pending=condition)


def accepted(pod: Pod) -> Accepted:
    return Accepted(pod.key, pod.uid, pod.generation, {one.name: size_of(one) for one in pod.containers})


def asked() -> ResizeAttempts:
    attempts = ResizeAttempts(PATIENCE)
    assert attempts.handle(wanted(), NOW) == [Send(KEY)]
    attempts.handle(accepted(answered()), NOW)
    return attempts


def state(attempts: ResizeAttempts) -> tuple[State, Reason] | None:
    attempt = attempts.get(KEY)
    return None if attempt is None else (attempt.state, attempt.reason)


def test_no_condition_is_no_success_before_the_kubelet_has_looked() -> None:
    attempts = asked()
    assert state(attempts) == (State.REQUESTED, Reason.OUTSIDE_BOUNDS)
    assert attempts.handle(Seen(answered(observed=2)), NOW + 1) == [Tell(KEY, Reason.DONE), PlanAgain(KEY)]
    assert state(attempts) == (State.DONE, Reason.DONE)


def test_a_resize_that_had_to_wait_says_so_when_it_is_done() -> None:
    attempts = asked()
    attempts.handle(Seen(answered(pending="Deferred", observed=2)), NOW + 1)
    told, _ = attempts.handle(Seen(answered(observed=2)), NOW + 61)
    assert told == Tell(KEY, Reason.DONE, "was Deferred for 61 s")


def test_one_request_of_a_pod_at_a_time() -> None:
    attempts = asked()
    assert attempts.handle(wanted("3"), NOW + 1) == []


def test_a_deferred_resize_is_put_back_after_its_time_and_asked_again_when_room_frees() -> None:
    attempts = asked()
    deferred = answered(pending="Deferred", observed=2)
    told = attempts.handle(Seen(deferred), NOW + 1)
    assert told == [Tell(KEY, Reason.DEFERRED, "no room"), LookAgainAt(KEY, NOW + 600)]
    assert PutBack(KEY) in attempts.handle(TimeCame(KEY), NOW + 600)
    assert attempts.handle(wanted(), NOW + 601) != [Send(KEY)]
    assert attempts.handle(RoomFreed("node-a", by="shop/other"), NOW + 602) == [PlanAgain(KEY)]
    assert attempts.handle(wanted(), NOW + 602) == [Send(KEY)]


def test_the_room_that_a_pod_frees_by_giving_up_does_not_wake_itself() -> None:
    attempts = asked()
    attempts.handle(Seen(answered(pending="Deferred", observed=2)), NOW + 1)
    attempts.handle(TimeCame(KEY), NOW + 601)
    assert attempts.handle(RoomFreed("node-a", by=KEY), NOW + 602) == []


def test_an_infeasible_size_is_remembered_for_pod_node_and_size() -> None:
    attempts = asked()
    assert PutBack(KEY) in attempts.handle(Seen(answered(pending="Infeasible", observed=2)), NOW + 1)
    attempts.handle(accepted(answered("500m", generation=3, observed=3)), NOW + 2)
    assert attempts.handle(wanted(), NOW + 100) != [Send(KEY)]
    assert state(attempts) == (State.INFEASIBLE, Reason.INFEASIBLE)
    assert attempts.handle(wanted("1"), NOW + 100) == [Send(KEY)]


def test_an_infeasible_size_is_asked_again_when_the_node_grew() -> None:
    attempts = asked()
    attempts.handle(Seen(answered(pending="Infeasible", observed=2)), NOW + 1)
    assert attempts.handle(RoomFreed("node-a"), NOW + 100) == []
    assert attempts.handle(RoomFreed("node-a", node_grew=True), NOW + 100) == [PlanAgain(KEY)]
    assert attempts.handle(wanted(), NOW + 100) == [Send(KEY)]


def test_without_room_the_waits_double() -> None:
    attempts = ResizeAttempts(PATIENCE)
    now, waits = NOW, []
    for _ in range(4):
        [*_, look] = attempts.handle(wanted(fits=False), now)
        assert isinstance(look, LookAgainAt)
        waits.append(look.at - now)
        now = look.at
    assert waits == [5, 10, 20, 40]


def test_asking_again_before_its_time_does_not_change_the_pace() -> None:
    attempts = ResizeAttempts(PATIENCE)
    attempts.handle(wanted(fits=False), NOW)
    assert attempts.handle(wanted(fits=False), NOW + 1) == [LookAgainAt(KEY, NOW + 5)]


def test_waiting_pods_are_woken_in_the_order_in_which_they_began_to_wait() -> None:
    for _ in range(20):
        attempts = ResizeAttempts(PATIENCE)
        for index, name in enumerate(("c", "a", "b")):
            attempts.handle(wanted(fits=False, name=name), NOW + index)
        woken = attempts.handle(RoomFreed("node-a"), NOW + 9)
        assert woken == [PlanAgain("shop/c"), PlanAgain("shop/a"), PlanAgain("shop/b")]


def test_retry_after_is_a_lower_bound_that_freed_room_does_not_break() -> None:
    attempts = ResizeAttempts(PATIENCE)
    attempts.handle(wanted(), NOW)
    attempts.handle(Failed(KEY, Reason.REFUSED, "slow down", retry_after_seconds=40.0), NOW)
    attempts.handle(RoomFreed("node-a"), NOW + 1)
    assert attempts.handle(wanted(), NOW + 39) != [Send(KEY)]
    assert attempts.handle(wanted(), NOW + 45) == [Send(KEY)]


def test_a_refusal_for_good_is_asked_again_only_when_the_rules_change_or_another_size_is_wanted() -> None:
    attempts = ResizeAttempts(PATIENCE)
    attempts.handle(wanted(), NOW)
    attempts.handle(Failed(KEY, Reason.REFUSED, "policy says no", is_permanent=True), NOW)
    assert attempts.handle(wanted(), NOW + 600) != [Send(KEY)]
    assert attempts.handle(RulesChanged("elsewhere"), NOW + 601) == []
    assert attempts.handle(RulesChanged("shop"), NOW + 601) == [PlanAgain(KEY)]
    assert attempts.handle(wanted(), NOW + 601) == [Send(KEY)]


def test_a_conflict_is_planned_again_at_once_but_not_for_ever() -> None:
    attempts = ResizeAttempts(PATIENCE)
    for _ in range(5):
        assert attempts.handle(wanted(), NOW) == [Send(KEY)]
        assert attempts.handle(Failed(KEY, Reason.SUPERSEDED, "moved", is_conflict=True), NOW) == [PlanAgain(KEY)]
    attempts.handle(wanted(), NOW)
    assert PlanAgain(KEY) not in attempts.handle(Failed(KEY, Reason.SUPERSEDED, "moved", is_conflict=True), NOW)


def test_no_pod_is_asked_more_than_twice_in_a_minute() -> None:
    attempts = ResizeAttempts(PATIENCE)
    for index in range(2):
        cpu = f"{index + 2}"
        assert attempts.handle(wanted(cpu), NOW + index) == [Send(KEY)]
        pod = answered(cpu, generation=2 + index, observed=2 + index)
        attempts.handle(accepted(pod), NOW + index)
        attempts.handle(Seen(pod), NOW + index)
    assert attempts.handle(wanted("9"), NOW + 5) == [Tell(KEY, Reason.COOLING_DOWN), LookAgainAt(KEY, NOW + 60)]
    assert attempts.handle(wanted("9"), NOW + 60) == [Send(KEY)]


def test_what_another_actor_wrote_is_left_alone_but_a_kill_is_answered() -> None:
    attempts = asked()
    attempts.handle(Seen(answered(observed=2)), NOW + 1)
    changed = answered("700m", generation=3, observed=3)
    told = attempts.handle(Seen(changed), NOW + 100)
    assert told[0] == Tell(KEY, Reason.OVERRIDDEN, "another actor changed the pod's resources")
    assert attempts.handle(wanted(), NOW + 200) != [Send(KEY)]
    killed = Wanted(resize("3", urgency=Urgency.KILLED), "node-a", 3)
    assert attempts.handle(killed, NOW + 201) == [Send(KEY)]


def test_a_pod_found_deferred_is_taken_up_with_the_time_it_has_waited() -> None:
    attempts = ResizeAttempts(PATIENCE)
    found = answered(pending="Deferred", observed=2)
    waiting = msgspec.structs.replace(found, resize_pending=ResizeCondition("Deferred", "full", 2, NOW - 500))
    attempts.handle(Found(waiting), NOW)
    assert state(attempts) == (State.DEFERRED, Reason.DEFERRED)
    assert PutBack(KEY) in attempts.handle(TimeCame(KEY), NOW + 101)


def test_a_pod_that_is_gone_leaves_nothing_behind() -> None:
    attempts = asked()
    assert attempts.handle(Gone(KEY, "uid-web-0"), NOW) == []
    assert (attempts.get(KEY), dict(attempts.unfinished())) == (None, {})


def test_every_waiting_attempt_has_a_reason_and_a_next_try() -> None:
    for event in (
        wanted(fits=False),
        wanted(refusal=Reason.QUOTA_EXCEEDED),
        wanted(refusal=Reason.INFEASIBLE),
        wanted(refusal=Reason.NODE_NOT_READY),
    ):
        attempts = ResizeAttempts(PATIENCE)
        attempts.handle(event, NOW)
        attempt = attempts.get(KEY)
        assert attempt is not None
        assert attempt.next_at is not None
        assert attempt.next_at > NOW
        assert attempt.reason.explanation


def unanswered() -> ResizeAttempts:
    """Asked before, and in force; then asked for more, and the answer was lost."""
    attempts = asked()
    attempts.handle(Seen(answered(observed=2)), NOW + 1)
    assert attempts.handle(wanted("3"), NOW + 70) == [Send(KEY)]
    attempts.handle(Failed(KEY, Reason.UNREACHABLE, "no answer"), NOW + 75)
    return attempts


def test_an_accepted_request_whose_answer_was_lost_is_no_change_by_another() -> None:
    attempts = unanswered()
    told = attempts.handle(Seen(answered("3", generation=3, observed=3)), NOW + 76)
    assert not any(isinstance(one, Tell) and one.reason is Reason.OVERRIDDEN for one in told)


def test_after_a_lost_answer_a_change_by_another_is_still_one() -> None:
    told = unanswered().handle(Seen(answered("4", generation=3, observed=3)), NOW + 76)
    assert any(isinstance(one, Tell) and one.reason is Reason.OVERRIDDEN for one in told)
