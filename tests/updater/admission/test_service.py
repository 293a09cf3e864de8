"""What becomes of a pod that is created, from the review to the patched pod."""

import asyncio
import json
from pathlib import Path

import pytest

from elastipod.kube.calls import Call, InterceptedConnection
from elastipod.kube.errors import NotServed
from elastipod.kube.resources import AUTOSCALERS, ELASTIC_POLICIES, JOBS
from elastipod.optout import EXCLUDED_ANNOTATION, SIZING_ANNOTATION
from elastipod.owners import Owned
from elastipod.pods import OwnerReference
from tests import build
from tests.updater.admission.world import Json, World, new_pod, patched, review_json


def resources(pod: Json, number: int = 0, place: str = "containers") -> Json:
    found: Json = pod["spec"][place][number]["resources"]
    return found


async def test_a_pod_of_a_deployment_gets_the_target_of_its_autoscaler(world: World) -> None:
    owner = await world.deployment()
    await world.autoscaler(cpu="250m", memory="200Mi")
    pod = new_pod(owner)
    made = patched(pod, await world.ask(pod))
    assert resources(made) == {"requests": {"cpu": "250m", "memory": "200Mi"}}
    assert world.count("admissions_total", outcome="SizedAtCreation") == 1


async def test_a_limit_keeps_its_proportion_and_other_resources_stay(world: World) -> None:
    await world.autoscaler(cpu="250m")
    container = build.container_json(cpu="100m", cpu_limit="200m")
    container["resources"]["limits"]["example.com/gpu"] = "1"
    container["resources"]["claims"] = [{"name": "gpu"}]
    pod = new_pod(await world.deployment(), containers=[container])
    assert resources(patched(pod, await world.ask(pod))) == {
        "requests": {"cpu": "250m", "memory": "128Mi"},
        "limits": {"cpu": "500m", "example.com/gpu": "1"},
        "claims": [{"name": "gpu"}],
    }


@pytest.mark.parametrize("mode", ["Initial", "Recreate", "InPlaceOrRecreate", "InPlace", "Auto"])
async def test_every_mode_but_off_sizes_at_creation(world: World, mode: str) -> None:
    await world.autoscaler(updatePolicy={"updateMode": mode})
    pod = new_pod(await world.deployment())
    assert resources(patched(pod, await world.ask(pod)))["requests"]["cpu"] == "250m"


async def test_under_mode_off_a_pod_keeps_its_size(world: World) -> None:
    await world.autoscaler(updatePolicy={"updateMode": "Off"})
    response = await world.ask(new_pod(await world.deployment()))
    assert "patch" not in response
    assert response["auditAnnotations"] == {"outcome": "ModeOff"}


async def test_another_recommenders_autoscaler_is_not_ours(world: World) -> None:
    await world.autoscaler(recommenders=[])
    response = await world.ask(new_pod(await world.deployment()))
    assert "patch" not in response
    assert response["auditAnnotations"] == {"outcome": "NotOurs"}


async def test_where_two_autoscalers_claim_a_pod_none_sizes_it_and_the_creator_is_told(world: World) -> None:
    await world.autoscaler(name="one")
    await world.autoscaler(name="two")
    response = await world.ask(new_pod(await world.deployment()))
    assert "patch" not in response
    assert "Conflict" in response["warnings"][0]


async def test_a_pod_of_a_cron_jobs_job_is_found_by_its_topmost_controller(world: World) -> None:
    await world.autoscaler(kind="CronJob", target="nightly")
    job = build.job_json("nightly-1")
    job["metadata"]["ownerReferences"] = [build.owner_json("CronJob", "nightly", "uid-cron", "batch/v1")]
    made = await world.create(JOBS, job)
    pod = new_pod(build.owner_json("Job", "nightly-1", made["metadata"]["uid"], "batch/v1"))
    assert resources(patched(pod, await world.ask(pod)))["requests"]["cpu"] == "250m"


async def test_a_pod_that_comes_before_the_news_of_its_owner_is_sized_all_the_same(tmp_path: Path) -> None:
    async with World(tmp_path, owner_wait_seconds=0.9) as world:
        await world.autoscaler()
        pod = new_pod(build.owner_json("ReplicaSet", "web-1", "uid-late"))
        asking = asyncio.create_task(world.ask(pod))
        await world.settle()
        assert not asking.done()
        deployment = OwnerReference("Deployment", "web", "uid-web")
        world.admission._fleet.put_owned(None, Owned("ReplicaSet", "default", "web-1", "uid-late", owner=deployment))
        world.admission._fleet.put_owned(None, Owned("Deployment", "default", "web", "uid-web"))
        assert resources(patched(pod, await asking))["requests"]["cpu"] == "250m"


async def test_an_owner_that_nobody_knows_is_not_waited_for_long(world: World) -> None:
    response = await world.ask(new_pod(build.owner_json("ReplicaSet", "web-1", "uid-nobody")))
    assert response["auditAnnotations"] == {"outcome": "NoRecommendation"}


async def test_an_owner_of_a_kind_that_we_do_not_watch_counts_by_its_name(world: World) -> None:
    await world.autoscaler(kind="Rollout")
    pod = new_pod(build.owner_json("Rollout", "web", "uid-rollout", "argoproj.io/v1alpha1"))
    assert resources(patched(pod, await world.ask(pod)))["requests"]["cpu"] == "250m"


async def test_a_custom_owner_that_is_named_as_one_of_kubernetes_own_is_not_waited_for(tmp_path: Path) -> None:
    async with World(tmp_path, owner_wait_seconds=25.0, request_seconds=28.0) as world:
        version = "apps.kruise.io/v1beta1"
        await world.autoscaler(targetRef={"apiVersion": version, "kind": "StatefulSet", "name": "db"})
        before = world.clock.now()
        pod = new_pod(build.owner_json("StatefulSet", "db", "uid-kruise", version))
        assert resources(patched(pod, await world.ask(pod)))["requests"]["cpu"] == "250m"
        assert world.clock.now() - before < 20.0


async def test_a_bare_pod_gets_the_target_of_the_group_that_a_policy_makes_r43(world: World) -> None:
    await world.autoscaler(kind="ElasticPolicy", target="runners")
    spec = {"selector": {"matchLabels": {"pool": "ci"}}}
    metadata = {"name": "runners", "namespace": "default"}
    kind = {"apiVersion": "elastipod.io/v1alpha1", "kind": "ElasticPolicy"}
    await world.create(ELASTIC_POLICIES, kind | {"metadata": metadata, "spec": spec})
    pod = new_pod(labels={"pool": "ci"})
    assert resources(patched(pod, await world.ask(pod)))["requests"]["cpu"] == "250m"
    assert "patch" not in await world.ask(new_pod(labels={"pool": "other"}))


async def test_a_new_pod_that_opts_out_keeps_its_templates_size_and_one_that_does_not_gets_its_target_r45(
    world: World,
) -> None:
    await world.autoscaler()
    owner = await world.deployment()
    for key, word in ((SIZING_ANNOTATION, "Off"), (EXCLUDED_ANNOTATION, "app")):
        assert "patch" not in await world.ask(new_pod(owner, annotations={key: word}))
    for key, word in ((SIZING_ANNOTATION, "Auto"), (EXCLUDED_ANNOTATION, "proxy")):
        pod = new_pod(owner, annotations={key: word})
        assert resources(patched(pod, await world.ask(pod)))["requests"]["cpu"] == "250m"


async def test_a_new_pod_has_no_limit_where_a_policy_wants_none(world: World) -> None:
    await world.autoscaler(memory="200Mi")
    kind = {"apiVersion": "elastipod.io/v1alpha1", "kind": "ElasticPolicy"}
    metadata = {"name": "apart", "namespace": "default"}
    await world.create(ELASTIC_POLICIES, kind | {"metadata": metadata, "spec": {"limitModes": {"cpu": "Unset"}}})
    container = build.container_json(cpu="100m", memory="64Mi", cpu_limit="1", memory_limit="128Mi")
    pod = new_pod(await world.deployment(), containers=[container])
    made = patched(pod, await world.ask(pod))
    assert resources(made)["limits"] == {"memory": "400Mi"}
    assert "cpu limit 1 -> none" in made["metadata"]["annotations"]["elastipod.io/sized"]


async def test_a_boost_is_given_in_any_mode_and_the_pod_says_what_it_has_without_it_r29(world: World) -> None:
    boost = {"cpu": {"type": "Factor", "factor": 3, "durationSeconds": 10}}
    await world.autoscaler(updatePolicy={"updateMode": "Off"}, startupBoost=boost)
    pod = new_pod(await world.deployment(), cpu="100m", memory="64Mi")
    made = patched(pod, await world.ask(pod))
    assert resources(made)["requests"] == {"cpu": "300m", "memory": "64Mi"}
    given = json.loads(made["metadata"]["annotations"]["elastipod.io/startup-boost"])
    without, with_it = ({"requests": {"cpu": cpu}, "limits": {}} for cpu in ("100m", "300m"))
    assert given == {"app": {"had": without, "got": with_it, "seconds": 10.0}}
    assert "patch" not in await world.ask(made)


async def test_a_size_stated_on_the_workload_goes_before_the_recommendation(world: World) -> None:
    stated = json.dumps({"app": {"requests": {"cpu": "700m"}}})
    await world.autoscaler(cpu="250m", memory="200Mi")
    pod = new_pod(await world.deployment(annotations={"elastipod.io/resources": stated}))
    assert resources(patched(pod, await world.ask(pod)))["requests"] == {"cpu": "700m", "memory": "128Mi"}


async def test_a_stated_size_that_can_not_be_understood_is_told_and_changes_nothing(world: World) -> None:
    pod = new_pod(annotations={"elastipod.io/resources": "{\u202e\n"})
    response = await world.ask(pod)
    assert "patch" not in response
    assert "elastipod.io/resources is not JSON" in response["warnings"][0]
    assert response["warnings"][0].isprintable()
    assert response["auditAnnotations"] == {"outcome": "BadValue"}


async def test_native_sidecars_are_sized_and_init_containers_left_alone_r76(world: World) -> None:
    await world.autoscaler(cpu="70m", containers=("proxy", "migrate", "app"))
    init = [build.container_json("migrate"), build.container_json("proxy", restartPolicy="Always")]
    pod = new_pod(await world.deployment(), initContainers=init)
    made = patched(pod, await world.ask(pod))
    assert resources(made, 0, "initContainers") == init[0]["resources"]
    assert resources(made, 1, "initContainers")["requests"]["cpu"] == "70m"
    assert resources(made)["requests"]["cpu"] == "70m"


async def test_the_annotations_tell_upstreams_users_and_ours_what_was_set(world: World) -> None:
    await world.autoscaler(cpu="250m", memory="200Mi")
    containers = [build.container_json(cpu="100m", cpu_limit="200m"), build.container_json("mesh")]
    pod = new_pod(await world.deployment(), containers=containers, annotations={"kept": "yes"})
    assert patched(pod, await world.ask(pod))["metadata"]["annotations"] == {
        "kept": "yes",
        "vpaUpdates": "Pod resources updated by web: container 0: cpu request, memory request, cpu limit",
        "vpaObservedContainers": "app, mesh",
        "elastipod.io/sized": "app: cpu request 100m -> 250m, memory request 128Mi -> 200Mi, cpu limit 200m -> 500m",
    }


async def test_asked_again_about_its_own_answer_it_adds_nothing(world: World) -> None:
    owner = await world.deployment()
    await world.autoscaler(cpu="250m", memory="200Mi")
    pod = new_pod(owner, cpu_limit="150m")
    once = patched(pod, await world.ask(pod))
    again = await world.ask(once)
    assert "patch" not in again
    assert again["auditAnnotations"] == {"outcome": "Done"}


async def test_a_pod_without_any_resources_gets_requests(world: World) -> None:
    await world.autoscaler(cpu="250m", memory="200Mi")
    pod = new_pod(await world.deployment(), containers=[{"name": "app", "image": "x"}])
    assert resources(patched(pod, await world.ask(pod))) == {"requests": {"cpu": "250m", "memory": "200Mi"}}


async def test_a_limit_range_holds_for_what_is_set(world: World) -> None:
    await world.autoscaler(cpu="4")
    await world.limit_range(max={"cpu": "1"})
    pod = new_pod(await world.deployment(), cpu="100m", cpu_limit="500m")
    made = patched(pod, await world.ask(pod))
    assert resources(made) == {"requests": {"cpu": "1", "memory": "128Mi"}, "limits": {"cpu": "1"}}
    assert made["metadata"]["annotations"]["elastipod.io/sized"] == (
        "app: cpu request 100m -> 1, cpu limit 500m -> 1; CappedByLimitRange"
    )


async def test_a_pod_that_the_quota_would_refuse_at_its_new_size_keeps_its_own(world: World) -> None:
    await world.autoscaler(cpu="4")
    await world.quota(requests_cpu="2")
    response = await world.ask(new_pod(await world.deployment()))
    assert "patch" not in response
    assert "QuotaExceeded" in response["warnings"][0]
    assert "ResourceQuota share" in response["warnings"][0]


async def test_a_pod_with_resources_of_its_own_is_left_alone_and_its_creator_is_told(world: World) -> None:
    await world.autoscaler(cpu="4")
    pod = new_pod(await world.deployment())
    pod["spec"]["resources"] = {"requests": {"cpu": "1"}}
    response = await world.ask(pod)
    assert "patch" not in response
    assert response["auditAnnotations"] == {"outcome": "UnsupportedPod"}
    assert "UnsupportedPod, its resources are set for the pod as a whole" in response["warnings"][0]
    assert world.count("admissions_total", outcome="UnsupportedPod") == 1


async def test_a_dry_run_gets_the_same_answer(world: World) -> None:
    await world.autoscaler()
    pod = new_pod(await world.deployment())
    assert await world.ask(pod, dryRun=True) == await world.ask(pod)


async def test_before_all_is_known_of_the_cluster_pods_are_left_alone(tmp_path: Path) -> None:
    world = World(tmp_path)
    response = await world.ask(new_pod())
    assert "patch" not in response
    assert response["auditAnnotations"] == {"outcome": "StaleData"}


async def test_where_autoscalers_are_not_defined_pods_get_the_sizes_that_are_stated(tmp_path: Path) -> None:
    class Undefined(InterceptedConnection):
        async def handle(self, call: Call) -> bytes:
            if call.resource is AUTOSCALERS:
                raise NotServed(404, "NotFound", "no such path")
            return await super().handle(call)

    async with World(tmp_path, through=Undefined) as world:
        stated = json.dumps({"app": {"requests": {"cpu": "700m"}}})
        pod = new_pod(await world.deployment(annotations={"elastipod.io/resources": stated}))
        assert resources(patched(pod, await world.ask(pod)))["requests"]["cpu"] == "700m"


@pytest.mark.parametrize(
    "request_",
    [
        {"operation": "UPDATE"},
        {"subResource": "resize"},
        {"resource": {"group": "apps", "version": "v1", "resource": "deployments"}},
    ],
)
async def test_what_is_not_a_new_pod_passes(world: World, request_: Json) -> None:
    assert "patch" not in await world.ask(new_pod(), **request_)


@pytest.mark.parametrize("pod", [None, [], "pod", {"metadata": 5}, {"spec": {"containers": [{}]}}])
async def test_a_pod_that_can_not_be_read_passes_and_is_counted(world: World, pod: object) -> None:
    response = await world.ask(pod)
    assert "patch" not in response
    assert world.count("admissions_total", outcome="BadValue") == 1


async def test_a_review_of_another_version_is_answered_in_it(world: World) -> None:
    asked = {**review_json(new_pod()), "apiVersion": "admission.k8s.io/v1beta1"}
    told = json.loads(await world.admission.admit(json.dumps(asked).encode()))
    assert told["apiVersion"] == "admission.k8s.io/v1beta1"
    assert told["response"]["allowed"] is True
    assert "patch" not in told["response"]
