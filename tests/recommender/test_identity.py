"""Whose history is whose: every kind of owner, runs of jobs, names that resemble each other."""

import json
from typing import Any

import pytest
from msgspec import structs

from elastipod.api import ElasticPolicy, ElasticPolicySpec, ObjectMeta, WorkloadSelector
from elastipod.kube.resources import CHECKPOINTS, ELASTIC_POLICIES, PODS
from elastipod.owners import Owned
from elastipod.pods import Container, ContainerKey, OwnerReference, Pod, Workload
from elastipod.quantities import Resources, parse_cpu
from recommender.claims import Claim
from recommender.recommending import Recommendations
from recommender.samples import UsageSample
from recommender.settings import RecommenderSettings
from recommender.sources.metrics_api import UsageReading, read_pod_metrics
from tests import build
from tests.recommender.world import MI, World

START = 1.8e9


def claimed(*targets: Workload, **settings: Any) -> Recommendations:
    """Recommendations that are asked for these workloads."""
    known = Recommendations(RecommenderSettings(**settings))
    for number, target in enumerate(targets):
        claim = Claim(target.namespace, f"vpa-{number}", f"u{number}", 1, "elastipod", target)
        known.set_claim(claim.key, claim)
        known.loaded(claim.key, {}, {})
    return known


def run_pod(
    known: Recommendations,
    name: str,
    owner: OwnerReference | None,
    *,
    namespace: str = "ns",
    containers: tuple[str, ...] = ("app",),
) -> None:
    shown = tuple(Container(one, requests=Resources(100, 64 * MI), is_running=True) for one in containers)
    pod = Pod(namespace, name, f"{namespace}-{name}", phase="Running", owner=owner, created_at=START, containers=shown)
    known.members.set_pod(pod.key, pod)


def use(known: Recommendations, pod: str, at: float, memory: float = 100.0 * MI, namespace: str = "ns") -> None:
    known.learn([UsageSample(namespace, pod, "app", at, 0.1, memory)], at)


def samples(known: Recommendations, target: Workload) -> int:
    row = known.history.row(ContainerKey(target, "app"))
    return 0 if row is None else int(known.history.samples[row])


@pytest.mark.parametrize(
    ("kind", "between"),
    [
        ("Deployment", "ReplicaSet"),
        ("StatefulSet", None),
        ("DaemonSet", None),
        ("Job", None),
        ("CronJob", "Job"),
        ("ReplicationController", None),
        ("Rollout", "ReplicaSet"),
        ("StrimziPodSet", None),
        ("Pod", ""),
    ],
)
def test_pods_of_every_kind_of_owner_belong_to_what_is_named(kind: str, between: str | None) -> None:
    target = Workload("ns", kind, "it")
    known = claimed(target)
    owner: OwnerReference | None = OwnerReference(kind, "it", "top")
    if between == "":
        owner = None
    elif between is not None:
        known.members.set_owned(None, Owned(between, "ns", "it-1", "mid", owner=owner))
        owner = OwnerReference(between, "it-1", "mid")
    name = "it" if between == "" else "it-1-a"
    run_pod(known, name, owner)
    use(known, name, START)
    assert samples(known, target) == 1
    assert known.members.exists(target) == (kind == "Pod")


KRUISE = "apps.kruise.io/v1beta1"


async def test_two_workloads_of_one_kind_and_name_in_two_groups_are_kept_apart() -> None:
    async with World() as world:
        await world.node(cpu="8", memory="32Gi")
        for pod, version in (("db-0", "apps/v1"), ("db-k-0", KRUISE)):
            owner = build.owner_json("StatefulSet", "db", f"uid-{pod}") | {"apiVersion": version}
            body = build.pod_json(pod, containers=[build.container_json()], node="n1", owner=owner)
            await world.create(PODS, body)
            await world.set_status(pod, build.running_status(body))
        for name, version in (("vpa", "apps/v1"), ("of-kruise", KRUISE)):
            await world.autoscaler(name, targetRef={"apiVersion": version, "kind": "StatefulSet", "name": "db"})
        for _ in range(10):
            await world.settle()
            world.clock.advance(60)
            at = world.clock.now()
            world.usage.samples = [
                UsageSample("default", pod, "app", at, cores, 1e9) for pod, cores in (("db-0", 3.0), ("db-k-0", 0.05))
            ]
            await world.recommender.run_once()
            await world.settle()
        targets = [(await world.target(name))["cpu"] for name in ("vpa", "of-kruise")]
        assert [parse_cpu(str(one)) > 1000 for one in targets] == [True, False]
        known = world.recommender.explain("default/db-k-0") or {}
        assert known["workload"] == "default/StatefulSet.apps.kruise.io/db"


def test_runs_of_one_cron_job_are_one_history_and_outlive_the_gap_between_them_r10() -> None:
    target = Workload("ns", "CronJob", "nightly")
    known = claimed(target)
    for run in range(3):
        at = START + run * 86_400
        job = Owned("Job", "ns", f"nightly-{run}", f"job-{run}", owner=OwnerReference("CronJob", "nightly", "c"))
        known.members.set_owned(None, job)
        run_pod(known, f"run-{run}", OwnerReference("Job", job.name, job.uid))
        for minute in range(5):
            use(known, f"run-{run}", at + minute * 60)
        known.members.set_pod(f"ns/run-{run}", None)
        known.members.set_owned(job, None)
        assert known.expire(at + 80_000) == []
        assert list(known.members.containers(target)) == ["app"]
    assert samples(known, target) == 15


def test_pods_of_one_name_in_two_namespaces_are_kept_apart_r36() -> None:
    targets = [Workload(namespace, "StatefulSet", "db") for namespace in ("ns1", "ns2")]
    known = claimed(*targets)
    for target in targets:
        run_pod(
            known, "db-0", OwnerReference("StatefulSet", "db", f"{target.namespace}-db"), namespace=target.namespace
        )
    known.learn(
        [
            UsageSample("ns1", "db-0", "app", START, 1.0, 1e9),
            UsageSample("ns2", "db-0", "app", START, 2.0, 4e9),
        ],
        START,
    )
    rows = [known.history.row(ContainerKey(target, "app")) for target in targets]
    assert [int(known.history.samples[row]) for row in rows if row is not None] == [1, 1]
    first, second = (known.history.memory.percentile(row, 0.9) for row in rows if row is not None)
    assert first is not None
    assert second is not None
    assert first < 1.1e9 < 3.9e9 < second


def test_what_is_told_of_a_whole_pod_is_added_to_no_container_r30() -> None:
    amounts = {"": 346_714_112, "POD": 1, "a": 200_000_000, "b": 146_714_112}
    told = [{"name": name, "usage": {"cpu": "1m", "memory": str(amount)}} for name, amount in amounts.items()]
    body = {"metadata": {"name": "web-a", "namespace": "ns"}, "timestamp": "2026-11-29T12:00:00Z", "containers": told}
    reading = UsageReading()
    read_pod_metrics(json.dumps(body).encode(), reading)
    found = {one.container: one.memory_bytes for one in reading.samples}
    assert found == {"a": 200_000_000, "b": 146_714_112}
    assert sum(one for one in found.values() if one) == 346_714_112


@pytest.mark.parametrize("others", [0, 2])
def test_the_floor_is_each_containers_own_however_many_there_were_r10(others: int) -> None:
    target = Workload("ns", "Deployment", "web")
    known = claimed(target, floor_memory_bytes=250 * MI, floor_cpu_millicores=25)
    owner = OwnerReference("Deployment", "web", "d")
    run_pod(known, "web-old", owner, containers=("gone", *(f"more-{one}" for one in range(others))))
    known.members.set_pod("ns/web-old", None)
    run_pod(known, "web-a", owner)
    use(known, "web-a", START, memory=4.0 * MI)
    known.decide(START)
    status = known.status("ns/vpa-0", START)
    assert status.recommendation is not None
    [one] = status.recommendation.container_recommendations or []
    assert (one.container_name, one.target) == ("app", {"cpu": "116m", "memory": "250Mi"})


LONG = [f"{'w' * 63}{letter * 190}" for letter in "ab"]


async def test_names_that_are_equal_in_their_first_63_characters_clash_nowhere_r46() -> None:
    container = "c" * 63
    async with World() as world:
        await world.node(cpu="8", memory="32Gi")
        for number, name in enumerate(LONG):
            uid = await world.deployment(f"web{number}")
            await world.pod(f"web-{number}", uid, workload=f"web{number}", name=container)
            await world.autoscaler(name, f"web{number}")
        await world.settle()
        world.clock.advance(60)
        at = world.clock.now()
        world.usage.samples = [
            UsageSample("default", f"web-{number}", container, at, 0.1, (number + 1) * 1e9) for number in range(2)
        ]
        await world.recommender.run_once()
        await world.recommender.save()
        targets = [(await world.target(name))["memory"] for name in LONG]
        assert targets[0] != targets[1]
        saved = json.loads(await world.connection.list(CHECKPOINTS))["items"]
        assert sorted(one["spec"]["vpaObjectName"] for one in saved) == LONG
        assert len({one["metadata"]["name"] for one in saved}) == 2
        assert all(len(one["metadata"]["name"]) <= 253 for one in saved)


async def test_a_container_that_is_left_out_later_leaves_the_status_r45() -> None:
    async with World() as world:
        await world.node(cpu="8", memory="32Gi")
        await world.pod("web-a", await world.deployment())
        out = {"containerName": "app", "mode": "Off"}
        everything = {"containerName": "*", "maxAllowed": {"memory": "1Gi"}}
        await world.autoscaler(resourcePolicy={"containerPolicies": [everything]})
        await world.run(cpu=0.1, memory=100 * MI)
        assert await world.target()
        await world.change(spec={"resourcePolicy": {"containerPolicies": [everything, out]}})
        await world.run(cpu=0.1, memory=100 * MI)
        status = (await world.read()).status
        assert status is not None
        assert status.recommendation is None
        assert (await world.conditions())["RecommendationProvided"] == "False ModeOff"


def test_nodes_that_come_and_go_all_the_time_leave_nothing_behind_r75() -> None:
    target = Workload("ns", "DaemonSet", "agent")
    known = claimed(target)
    for node in range(600):
        run_pod(known, f"agent-{node}", OwnerReference("DaemonSet", "agent", "d"))
        use(known, f"agent-{node}", START + node * 20)
        if node >= 3:
            known.members.set_pod(f"ns/agent-{node - 3}", None)
    assert known.history.open_instances == 3
    assert len(known.members.pods(target)) == 3
    assert samples(known, target) == 600


def step(number: int, template: str = "align") -> Pod:
    """A step of a workflow that is gone after it."""
    return Pod(
        "ns",
        f"wf-{number}",
        f"uid-{number}",
        phase="Running",
        labels={"template": template},
        owner=OwnerReference("Workflow", f"wf-{number}", f"w{number}", "argoproj.io/v1alpha1"),
        containers=(Container("main", requests=Resources(100, 64 * MI), is_running=True),),
    )


ALIGN = ElasticPolicy(
    metadata=ObjectMeta(name="align", namespace="ns"),
    spec=ElasticPolicySpec(selector=WorkloadSelector(match_labels={"template": "align"})),
)


def test_pods_that_no_controller_outlasts_are_advised_as_the_group_a_policy_selects_r43() -> None:
    group = Workload("ns", "ElasticPolicy", "align")
    known = claimed(group)
    known.set_policies({"ns": (ALIGN,)})
    for number in range(200):
        known.members.set_pod(f"ns/wf-{number}", step(number))
    known.members.set_pod("ns/wf-200", step(200, template="sort"))
    known.learn([UsageSample("ns", f"wf-{number}", "main", START, 0.1, 1e9) for number in range(201)], START)
    row = known.history.row(ContainerKey(group, "main"))
    assert row is not None
    assert known.history.samples[row] == 200
    assert known.learning.counts.unclaimed == 1
    known.decide(START)
    status = known.status("ns/vpa-0", START)
    assert status.recommendation is not None


def test_a_group_is_followed_when_its_policy_comes_changes_and_goes_r43() -> None:
    group = Workload("ns", "ElasticPolicy", "align")
    known = claimed(group)
    known.members.set_pod("ns/wf-0", step(0))
    assert not known.members.exists(group)
    known.set_policies({"ns": (ALIGN,)})
    assert known.members.exists(group)
    assert known.members.workload("ns/wf-0") == group
    other = WorkloadSelector(match_labels={"template": "sort"})
    known.set_policies({"ns": (structs.replace(ALIGN, spec=ElasticPolicySpec(selector=other)),)})
    assert known.members.workload("ns/wf-0") == Workload("ns", "Workflow", "wf-0")
    known.set_policies({"ns": (ALIGN,)})
    known.set_policies({"ns": ()})
    assert known.members.workload("ns/wf-0") == Workload("ns", "Workflow", "wf-0")


def test_a_controller_that_is_named_itself_counts_before_a_group_r43() -> None:
    own = Workload("ns", "Workflow", "wf-0")
    known = claimed(Workload("ns", "ElasticPolicy", "align"), own)
    known.set_policies({"ns": (ALIGN,)})
    for number in range(2):
        known.members.set_pod(f"ns/wf-{number}", step(number))
    assert known.members.workload("ns/wf-0") == own
    assert known.members.workload("ns/wf-1") == Workload("ns", "ElasticPolicy", "align")


async def test_bare_pods_are_sized_as_one_by_a_policy_r43() -> None:
    async with World() as world:
        await world.node(cpu="8", memory="32Gi")
        for number in range(3):
            pod = build.pod_json(f"runner-{number}", labels={"pool": "ci"}, node="n1")
            await world.create(PODS, pod)
            await world.set_status(f"runner-{number}", build.running_status(pod))
        await world.create(ELASTIC_POLICIES, elastic_policy("runners", {"selector": {"matchLabels": {"pool": "ci"}}}))
        target = {"apiVersion": "elastipod.io/v1alpha1", "kind": "ElasticPolicy", "name": "runners"}
        await world.autoscaler(targetRef=target)
        await world.run(cpu=0.2, memory=200 * MI, pods=("runner-0", "runner-1", "runner-2"))
        assert set(await world.target()) == {"cpu", "memory"}
        await world.autoscaler("none", targetRef=target | {"name": "nothing"})
        await world.run()
        assert (await world.conditions("none"))["TargetNotFound"] == "TargetNotFound"


def elastic_policy(name: str, spec: dict[str, Any]) -> dict[str, Any]:
    meta = {"name": name, "namespace": "default"}
    return {"apiVersion": "elastipod.io/v1alpha1", "kind": "ElasticPolicy", "metadata": meta, "spec": spec}
