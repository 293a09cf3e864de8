"""Each class of nodes has a size of its own, where a policy asks for it, and outlives its nodes."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elastipod.api import ElasticPolicy, ElasticPolicySpec, ObjectMeta, WorkloadSelector, resources
from elastipod.limits import LimitRange, LimitRangeItem
from elastipod.nodeclass import class_key, node_class, parted, sized_by_class
from elastipod.pods import Node, Workload
from elastipod.quantities import Resources
from recommender.checkpoints import checkpoint_name, from_checkpoint, to_checkpoint
from recommender.classrows import MOST_CLASSES
from recommender.policies import SizePolicy
from recommender.samples import OomKill
from recommender.settings import RecommenderSettings
from tests.recommender.spotnodes import AGENT, CORES, Fleet
from tests.recommender.world import MI

SMALL, LARGE = "app.2-cpus-amd64", "app.96-cpus-amd64"


def cores(fleet: Fleet) -> dict[str, float]:
    return {name: resources(one).cpu / 1000 for name, one in fleet.targets.items()}


def test_each_class_of_nodes_has_its_own_size_and_the_one_size_for_all_stays_r75() -> None:
    fleet = Fleet(sizes="ByNodeClass").run(120, CORES)
    found = cores(fleet)
    assert found.keys() == {"app", SMALL, LARGE}
    assert 0.1 <= found[SMALL] <= 0.13
    assert 1.0 <= found[LARGE] <= 1.3
    assert found["app"] == found[LARGE]
    assert "DiffersByNodeClass" not in fleet.told
    shown = {one["container"]: one for one in fleet.known.explain(AGENT, fleet.now)["containers"]}
    assert shown[SMALL]["recommended"][0]["cpu_millicores"] == round(found[SMALL] * 1000)
    assert shown[SMALL]["cpu_samples"] == 4 * shown[LARGE]["cpu_samples"] > 400


def test_sizes_by_class_do_not_move_while_nodes_come_and_go_and_nothing_is_left_of_those_gone_r75() -> None:
    fleet = Fleet(sizes="ByNodeClass").run(240, CORES)
    before, fleet.writes = fleet.targets, 0
    fleet.run(60, CORES)
    assert fleet.targets == before
    assert fleet.writes <= 3
    assert fleet.known.history.open_instances == 2 * 5


@pytest.mark.parametrize("sizes", [None, "Same", "Nonsense"])
def test_without_a_policy_that_asks_for_it_there_is_one_size(sizes: str | None) -> None:
    fleet = Fleet(sizes=sizes).run(90, CORES)
    assert fleet.targets.keys() == {"app"}
    assert fleet.known.history.size == 1
    assert "DiffersByNodeClass" in fleet.told


def test_a_class_that_is_hardly_known_has_no_size_yet() -> None:
    fleet = Fleet(sizes="ByNodeClass").run(29, CORES)
    assert fleet.targets.keys() == {"app"}


def test_a_policy_that_is_taken_back_takes_the_sizes_with_it() -> None:
    fleet = Fleet(sizes="ByNodeClass").run(90, CORES)
    fleet.set_sizes(None)
    fleet.run(90, CORES)
    assert fleet.targets.keys() == {"app"}
    assert fleet.known.history.open_instances == 5


def test_a_policy_may_ask_for_it_for_any_workload() -> None:
    fleet = Fleet(Workload("ns", "StatefulSet", "agent"), sizes="ByNodeClass").run(90, CORES)
    assert fleet.targets.keys() == {"app", SMALL, LARGE}


def test_the_narrowest_policy_that_says_something_of_it_counts() -> None:
    def policy(called: str, sizes: str | None, **selector: Any) -> ElasticPolicy:
        chosen = WorkloadSelector(**selector) if selector else None
        return ElasticPolicy(
            metadata=ObjectMeta(name=called, namespace="ns"), spec=ElasticPolicySpec(selector=chosen, sizes=sizes)
        )

    wide, narrow, silent = (
        policy("a", "ByNodeClass"),
        policy("b", "Same", kind="DaemonSet"),
        policy("c", None, name="agent"),
    )
    assert sized_by_class(AGENT, {}, (wide, silent))
    assert not sized_by_class(AGENT, {}, (wide, narrow, silent))
    assert not sized_by_class(Workload("other", "DaemonSet", "agent"), {}, (wide,))


def test_a_class_is_known_again_after_a_restart_with_none_of_its_nodes_left_r75() -> None:
    fleet = Fleet(sizes="ByNodeClass").run(120, CORES)
    target, settings = cores(fleet)[LARGE], RecommenderSettings()
    saved = {}
    for key, row in fleet.known.history.rows():
        [history] = fleet.known.export([row]).values()
        checkpoint = to_checkpoint("ns", "vpa", key, history, fleet.now)
        saved[key.container] = from_checkpoint(checkpoint, settings, fleet.now, AGENT)
    again = Fleet(sizes="ByNodeClass")
    again.minute = fleet.minute
    again.known.set_claim("ns/vpa", None)
    again.known.set_claim("ns/vpa", again.claimed)
    again.known.loaded("ns/vpa", saved, {})
    again.classes = (2,)
    again.run(5, CORES)
    assert cores(again)[LARGE] == pytest.approx(target, rel=0.1)
    assert checkpoint_name("vpa", LARGE) == "vpa-app.96-cpus-amd64"


def test_a_class_that_was_not_heard_of_for_as_long_as_history_is_kept_is_forgotten_r75() -> None:
    fleet = Fleet(sizes="ByNodeClass").run(90, CORES)
    fleet.classes = (2, 2)
    kept = RecommenderSettings().history_seconds
    fleet.minute += round(kept / 60)
    fleet.run(2, CORES)
    assert LARGE in fleet.targets
    gone = fleet.known.expire(fleet.now)
    assert [key.container for key in gone] == [LARGE]
    fleet.run(1, CORES)
    assert fleet.targets.keys() == {"app", SMALL}


def test_a_class_whose_pods_are_not_heard_is_kept_while_they_are_there() -> None:
    """As a container is on all nodes: what is recommended outlives a source that tells nothing."""
    fleet = Fleet(sizes="ByNodeClass").run(90, CORES)
    assert fleet.known.expire(fleet.now + 2 * RecommenderSettings().history_seconds) == []


def test_a_kill_counts_for_its_class_and_not_for_the_others() -> None:
    fleet = Fleet(sizes="ByNodeClass").run(60, CORES)
    pod = next(name for name, node in fleet.nodes().items() if node.capacity.cpu == 96_000)
    assert fleet.known.learn_kill(OomKill(AGENT, "app", pod, "k", fleet.now, limit_bytes=800 * MI))
    fleet.run(1, CORES)
    memory = {name: resources(one).memory for name, one in fleet.targets.items()}
    assert memory[LARGE] >= 800 * MI
    assert memory["app"] >= 800 * MI
    assert memory[SMALL] < 400 * MI


def test_on_nodes_of_more_classes_than_are_kept_the_one_size_holds() -> None:
    fleet = Fleet(sizes="ByNodeClass")
    fleet.classes = tuple(range(1, MOST_CLASSES + 9))
    fleet.run(45, {f"{cpus} CPUs amd64": 0.1 for cpus in fleet.classes})
    assert len(fleet.targets) == 1 + MOST_CLASSES


def test_a_pod_of_a_class_fits_the_nodes_of_its_class() -> None:
    fleet = Fleet(sizes="ByNodeClass").run(90, {"2 CPUs amd64": 2.4, "96 CPUs amd64": 10.0})
    assert cores(fleet)[SMALL] == 2.0
    assert f"{SMALL.partition('.')[0]}.2-cpus-amd64: cpu CappedByNode" in fleet.told
    assert cores(fleet)[LARGE] >= 10.0


@given(
    least=st.integers(1, 4000),
    most=st.integers(1, 4000),
    low=st.integers(1, 4000),
    high=st.integers(1, 4000),
    used=st.floats(0.001, 2.4),
)
def test_what_policy_and_namespace_allow_holds_on_every_class(
    least: int, most: int, low: int, high: int, used: float
) -> None:
    least, most, low, high = *sorted((least, most)), *sorted((low, high))
    policies = {"app": SizePolicy(min_allowed=Resources(least), max_allowed=Resources(most))}
    fleet = Fleet(sizes="ByNodeClass", policies=policies)
    item = LimitRangeItem("Container", min=Resources(low), max=Resources(high))
    fleet.known.set_limits({"ns": (LimitRange("ns", "range", items=(item,)),)}, {"ns": ()})
    fleet.step = 15
    fleet.run(45, {"2 CPUs amd64": used, "96 CPUs amd64": 10 * used})
    found = fleet.status.recommendation
    assert found is not None
    for one in found.container_recommendations or []:
        _, of = parted(one.container_name)
        node = 2000 if of.startswith("2-") else 96_000
        lower, target = resources(one.lower_bound), resources(one.target)
        upper = resources(one.upper_bound) if one.upper_bound else target
        if target.cpu_millicores is None:
            continue
        assert lower.cpu <= target.cpu <= max(upper.cpu, target.cpu)
        assert low <= target.cpu <= min(high, node)
        if least <= high and most >= low:
            assert max(least, low) <= target.cpu or target.cpu == node
            assert target.cpu <= max(most, low)


@given(cpus=st.integers(1, 1000), arch=st.text(max_size=63))
def test_the_key_of_a_class_can_stand_in_any_name(cpus: int, arch: str) -> None:
    node = Node("n", capacity=Resources(cpus * 1000), labels={"kubernetes.io/arch": arch})
    key = class_key(node_class(node))
    assert key.startswith(f"{cpus}-cpus")
    assert set(key) <= set("abcdefghijklmnopqrstuvwxyz0123456789-")
    assert key[-1] != "-"
    assert parted(f"app.{key}") == ("app", key)
