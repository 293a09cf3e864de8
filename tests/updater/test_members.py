"""The updater's pods belong where the recommender's do, in whatever order all of it becomes known."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elastipod.api import ElasticPolicy, ElasticPolicySpec, ObjectMeta, UpdateMode, WorkloadSelector
from elastipod.owners import Owned
from elastipod.pods import OwnerReference, Pod, Workload
from recommender.history import History
from recommender.membership import Membership
from recommender.settings import RecommenderSettings
from updater.fleet import Fleet
from updater.sizes import Advice

KAFKA = OwnerReference("Kafka", "k", "kafka", "kafka.example/v1")
OWNERS = {
    one.uid: one
    for one in (
        Owned("Deployment", "ns", "web", "d", owner=KAFKA),
        Owned("ReplicaSet", "ns", "web-1", "r", owner=OwnerReference("Deployment", "web", "d", "apps/v1")),
        Owned("CronJob", "ns", "night", "c"),
        Owned("Job", "ns", "night-1", "j", owner=OwnerReference("CronJob", "night", "c", "batch/v1")),
    )
}
REFERENCES = {
    "web-a": OwnerReference("ReplicaSet", "web-1", "r", "apps/v1"),
    "web-b": OwnerReference("ReplicaSet", "web-1", "r", "apps/v1"),
    "night-x": OwnerReference("Job", "night-1", "j", "batch/v1"),
    "step-0": OwnerReference("Workflow", "flow", "w", "argoproj.io/v1alpha1"),
    "bare": None,
}
TARGETS = [
    Workload("ns", kind, name)
    for kind, name in (
        *(("Kafka", "k"), ("Deployment", "web"), ("ReplicaSet", "web-1"), ("CronJob", "night"), ("Job", "night-1")),
        *(("Workflow", "flow"), ("Pod", "bare"), ("ElasticPolicy", "runners"), ("ElasticPolicy", "flows")),
    )
]
WEB, CUSTOM, GROUP = TARGETS[1], TARGETS[0], TARGETS[7]


def pod(name: str, labels: dict[str, str] | None = None, uid: str = "") -> Pod:
    return Pod("ns", name, uid or f"uid-{name}", labels=labels or {}, owner=REFERENCES[name])


def policy(name: str, **selector: Any) -> ElasticPolicy:
    return ElasticPolicy(
        metadata=ObjectMeta(name=name, namespace="ns"), spec=ElasticPolicySpec(WorkloadSelector(**selector))
    )


POLICIES = {
    "ns/runners": [policy("runners", match_labels={"pool": "ci"}), policy("runners", kind="Pod")],
    "ns/flows": [policy("flows", kind="Workflow"), policy("flows", match_labels={"pool": "ci"})],
}


def advice(name: str = "vpa", mode: UpdateMode = UpdateMode.IN_PLACE, recommender: str = "elastipod") -> Advice:
    return Advice(name, mode, recommender)


def claim(fleet: Fleet, target: Workload, **more: Any) -> None:
    fleet.put_advice(f"ns/{target.kind}-{target.name}-{more.get('name', '')}", target, advice(**more))


def unclaim(fleet: Fleet, target: Workload) -> None:
    fleet.put_advice(f"ns/{target.kind}-{target.name}-", None, None)


events = st.one_of(
    st.tuples(st.just("pod"), st.sampled_from(sorted(REFERENCES)), st.sampled_from([{}, {"pool": "ci"}, None])),
    st.tuples(st.just("owner"), st.sampled_from(sorted(OWNERS)), st.booleans()),
    st.tuples(st.just("claim"), st.sampled_from(TARGETS), st.booleans()),
    st.tuples(st.just("policy"), st.sampled_from(sorted(POLICIES)), st.sampled_from([0, 1, None])),
)


@given(st.lists(events, max_size=40))
def test_updater_and_recommender_never_differ_about_a_pod(told: list[Any]) -> None:
    fleet, members = Fleet(["elastipod"]), Membership(History(RecommenderSettings()))
    policies: dict[str, ElasticPolicy] = {}
    there: set[str] = set()
    deleted: set[str] = set()
    for kind, what, how in told:
        match kind:
            case "pod":
                found = None if how is None else pod(what, how)
                fleet.put_pod(f"ns/{what}", found)
                members.set_pod(f"ns/{what}", found)
            case "owner" if how and what not in deleted:
                there.add(what)
                fleet.put_owned(None, OWNERS[what])
                members.set_owned(None, OWNERS[what])
            case "owner" if not how and what in there:
                there.remove(what)
                deleted.add(what)
                fleet.put_owned(OWNERS[what], None)
                members.set_owned(OWNERS[what], None)
            case "claim":
                (claim if how else unclaim)(fleet, what)
                (members.claim if how else members.unclaim)(what)
            case "policy":
                policies.pop(what, None)
                if how is not None:
                    policies[what] = POLICIES[what][how]
                fleet.put_policy(what, policies.get(what))
                members.set_policies({"ns": tuple(policies[key] for key in sorted(policies))})
    for name in REFERENCES:
        assert fleet.workload(f"ns/{name}") == members.workload(f"ns/{name}")
    for target in TARGETS:
        assert {one.name for one in fleet.pods_of(target)} == {one.name for one in members.pods(target)}


def web(*claimed: Workload) -> Fleet:
    """A pod below a Deployment that a custom object controls, and who speaks for it."""
    fleet = Fleet(["elastipod"])
    for uid in ("d", "r"):
        fleet.put_owned(None, OWNERS[uid])
    fleet.put_pod("ns/web-a", pod("web-a"))
    for target in claimed:
        claim(fleet, target)
    fleet.dirty.clear()
    return fleet


@pytest.mark.parametrize("target", [WEB, CUSTOM])
def test_advice_for_a_custom_owner_or_what_it_controls_is_taken_and_let_go_r42(target: Workload) -> None:
    fleet = web()
    claim(fleet, target)
    assert (fleet.workload("ns/web-a"), fleet.claim("ns/web-a")[0], fleet.dirty) == (target, advice(), {"ns/web-a"})
    fleet.dirty.clear()
    unclaim(fleet, target)
    assert (fleet.claim("ns/web-a")[0], fleet.dirty) == (None, {"ns/web-a"})


def test_of_two_advised_owners_the_higher_counts_as_in_the_recommender_r42() -> None:
    fleet = web(WEB)
    claim(fleet, CUSTOM, mode=UpdateMode.OFF)
    assert fleet.facts("ns/web-a").advice == advice(mode=UpdateMode.OFF)
    unclaim(fleet, CUSTOM)
    assert fleet.facts("ns/web-a").advice == advice()


def test_two_on_one_workload_quarrel_and_are_named_r44() -> None:
    fleet = web(WEB)
    claim(fleet, WEB, name="second")
    assert (fleet.facts("ns/web-a").advice, fleet.facts("ns/web-a").conflict) == (None, "second, vpa")


@pytest.mark.parametrize("mode", UpdateMode)
def test_another_recommenders_autoscaler_on_another_owner_of_the_pod_quarrels_where_it_acts_r44(
    mode: UpdateMode,
) -> None:
    fleet = web(WEB)
    claim(fleet, CUSTOM, name="theirs", mode=mode, recommender="default")
    assert fleet.dirty == {"ns/web-a"}
    assert fleet.facts("ns/web-a").conflict == ("" if mode is UpdateMode.OFF else "theirs, vpa")
    unclaim(fleet, WEB)
    assert fleet.facts("ns/web-a").foreign == "default"


def test_a_pod_is_found_when_its_owners_become_known_later_and_kept_when_they_go_first() -> None:
    fleet = Fleet(["elastipod"])
    claim(fleet, WEB)
    fleet.put_pod("ns/web-a", pod("web-a"))
    assert fleet.claim("ns/web-a")[0] is None
    fleet.dirty.clear()
    fleet.put_owned(None, OWNERS["r"])
    assert (fleet.claim("ns/web-a")[0], fleet.dirty) == (advice(), {"ns/web-a"})
    fleet.put_owned(OWNERS["r"], None)
    assert fleet.claim("ns/web-a")[0] == advice()
    fleet.put_pod("ns/web-a", pod("web-a", uid="another"))
    assert fleet.claim("ns/web-a")[0] == advice()


def test_bare_pods_are_one_workload_while_a_policy_that_is_a_target_selects_them_r43() -> None:
    fleet = Fleet(["elastipod"])
    for name in ("bare", "step-0"):
        fleet.put_pod(f"ns/{name}", pod(name, {"pool": "ci"}))
    fleet.put_policy("ns/runners", POLICIES["ns/runners"][0])
    assert fleet.workload("ns/bare") == Workload("ns", "Pod", "bare")
    claim(fleet, GROUP)
    assert {one.name for one in fleet.pods_of(GROUP)} == {"bare", "step-0"}
    assert fleet.claim("ns/bare")[0] == advice()
    fleet.put_pod("ns/bare", pod("bare", {"pool": "other"}))
    assert fleet.claim("ns/bare")[0] is None
    fleet.put_policy("ns/runners", POLICIES["ns/runners"][1])
    assert {one.name for one in fleet.pods_of(GROUP)} == {"bare"}
    fleet.dirty.clear()
    fleet.put_policy("ns/runners", None)
    assert (fleet.claim("ns/bare")[0], fleet.dirty) == (None, {"ns/bare", "ns/step-0"})
