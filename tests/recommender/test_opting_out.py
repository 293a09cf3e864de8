"""Whoever opted a namespace in: the nearest word that a workload is not to be sized counts, and what stood goes."""

import json

import pytest

from elastipod.kube.connection import PatchType
from elastipod.kube.resources import (
    AUTOSCALERS,
    CRON_JOBS,
    DAEMON_SETS,
    DEPLOYMENTS,
    JOBS,
    PODS,
    STATEFUL_SETS,
    ResourceType,
)
from elastipod.optout import EXCLUDED_ANNOTATION, SIZING_ANNOTATION
from elastipod.reasons import Reason
from recommender.samples import UsageSample
from tests import build
from tests.recommender.world import MI, Json, World, autoscaler_json

KINDS = {"Deployment": DEPLOYMENTS, "StatefulSet": STATEFUL_SETS, "DaemonSet": DAEMON_SETS, "CronJob": CRON_JOBS}
NAMES = ("app", "proxy")
BOTH = set(NAMES)


def body_of(kind: str) -> Json:
    template = build.template_json({"app": "web"}, containers=[build.container_json(name) for name in NAMES])
    meta = build.metadata_json("web")
    if kind == "CronJob":
        template["spec"]["restartPolicy"] = "Never"
        spec = {"schedule": "* * * * *", "jobTemplate": {"spec": {"template": template}}}
        return {"apiVersion": "batch/v1", "kind": kind, "metadata": meta, "spec": spec}
    spec = {"selector": {"matchLabels": {"app": "web"}}, "template": template}
    if kind == "StatefulSet":
        spec["serviceName"] = "web"
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": meta, "spec": spec}


class Opted(World):
    """A workload with a pod of two containers, and an autoscaler that somebody made as for all of the namespace."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.kind, self.resource = kind, KINDS[kind]
        self.pods: list[str] = []

    async def begin(self) -> None:
        body = body_of(self.kind)
        uid = (await self.create(self.resource, body))["metadata"]["uid"]
        self.owner = build.owner_json(self.kind, "web", uid, body["apiVersion"])
        if self.kind == "CronJob":
            run = {"apiVersion": "batch/v1", "kind": "Job", "metadata": build.metadata_json("web-1", owner=self.owner)}
            made = await self.create(JOBS, run | {"spec": body["spec"]["jobTemplate"]["spec"]})
            self.owner = build.owner_json("Job", "web-1", made["metadata"]["uid"], "batch/v1")
        await self.add_pod("web-a")
        vpa = autoscaler_json()
        vpa["spec"]["targetRef"] |= {"kind": self.kind, "apiVersion": body["apiVersion"]}
        await self.create(AUTOSCALERS, vpa)
        await self.minutes()

    async def add_pod(self, name: str) -> None:
        pod = build.pod_json(name, containers=[build.container_json(one) for one in NAMES], node="n1", owner=self.owner)
        await self.create(PODS, pod)
        await self.set_status(name, build.running_status(pod))
        self.pods.append(name)

    async def say(self, resource: ResourceType, name: str, key: str, word: str | None) -> None:
        body = json.dumps({"metadata": {"annotations": {key: word}}}).encode()
        await self.connection.patch(resource, "default", name, body, patch_type=PatchType.MERGE)
        await self.minutes()

    async def minutes(self) -> None:
        for _ in range(3):
            await self.settle()
            self.clock.advance(self.settings.interval_seconds)
            at = self.clock.now()
            self.usage.samples = [
                UsageSample("default", pod, name, at, 0.2, 100 * MI) for pod in self.pods for name in NAMES
            ]
            await self.recommender.run_once()
            await self.settle()

    async def advised(self) -> set[str]:
        status = (await self.read()).status
        found = status.recommendation if status else None
        return {one.container_name for one in (found.container_recommendations if found else None) or ()}

    async def told(self) -> str:
        status = (await self.read()).status
        return next(
            f"{one.reason}: {one.message}"
            for one in (status.conditions if status else None) or ()
            if one.type == "RecommendationProvided"
        )


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("on_pod", [False, True], ids=["workload", "pods"])
async def test_what_opts_out_loses_its_advice_and_gets_it_again_at_once_when_it_opts_in_r45(
    kind: str, on_pod: bool
) -> None:
    world = Opted(kind)
    async with world:
        await world.begin()
        assert await world.advised() == BOTH
        place = (PODS, "web-a") if on_pod else (world.resource, "web")
        await world.say(*place, SIZING_ANNOTATION, "Off")
        assert await world.advised() == set()
        who = "its pods" if on_pod else f"{kind} web"
        assert await world.told() == f"OptedOut: {Reason.OPTED_OUT.explanation}: {who}: elastipod.io/sizing"
        await world.restart()
        await world.minutes()
        assert await world.advised() == set()
        await world.say(*place, SIZING_ANNOTATION, None)
        assert await world.advised() == BOTH


@pytest.mark.parametrize("kind", KINDS)
async def test_a_container_that_is_excluded_loses_its_advice_and_the_others_keep_theirs_r45(kind: str) -> None:
    world = Opted(kind)
    async with world:
        await world.begin()
        await world.say(world.resource, "web", EXCLUDED_ANNOTATION, "istio-proxy, proxy")
        assert await world.advised() == {"app"}
        assert f"proxy: cpu OptedOut ({kind} web: elastipod.io/exclude-containers)" in await world.told()
        # The nearer list counts, and an empty one excludes nobody.
        await world.say(PODS, "web-a", EXCLUDED_ANNOTATION, "")
        assert await world.advised() == BOTH


@pytest.mark.parametrize("kind", KINDS)
async def test_the_nearest_word_counts_r45(kind: str) -> None:
    world = Opted(kind)
    async with world:
        await world.begin()
        await world.say(world.resource, "web", SIZING_ANNOTATION, "Off")
        await world.say(PODS, "web-a", SIZING_ANNOTATION, "Auto")
        assert await world.advised() == BOTH


async def test_one_pod_that_is_marked_by_hand_speaks_for_itself_alone() -> None:
    world = Opted("StatefulSet")
    async with world:
        await world.begin()
        await world.add_pod("web-b")
        await world.say(PODS, "web-b", SIZING_ANNOTATION, "Off")
        assert await world.advised() == BOTH
        await world.say(PODS, "web-a", SIZING_ANNOTATION, "Off")
        assert await world.advised() == set()


async def test_a_word_that_can_not_be_understood_is_no_yes_and_is_named() -> None:
    world = Opted("Deployment")
    async with world:
        await world.begin()
        await world.say(DEPLOYMENTS, "web", SIZING_ANNOTATION, "never")
        assert await world.advised() == set()
        assert "elastipod.io/sizing is 'never', which is neither Auto nor Off" in await world.told()


@pytest.mark.parametrize("how", ["annotation", "excluded", "policy"])
async def test_a_cron_job_is_left_out_between_its_runs_too_r45(how: str) -> None:
    """What is said while nothing runs counts at once, and not from the next run on."""
    world = Opted("CronJob")
    async with world:
        await world.begin()
        for resource, name in ((PODS, "web-a"), (JOBS, "web-1")):
            await world.connection.delete(resource, "default", name, body=b'{"gracePeriodSeconds":0}')
        world.pods.clear()
        await world.minutes()
        assert await world.advised() == BOTH
        if how == "annotation":
            await world.say(CRON_JOBS, "web", SIZING_ANNOTATION, "Off")
            assert (await world.told()).startswith("OptedOut: ")
        elif how == "excluded":
            await world.say(CRON_JOBS, "web", EXCLUDED_ANNOTATION, "app,proxy")
        else:
            await world.change(spec={"resourcePolicy": {"containerPolicies": [{"containerName": "*", "mode": "Off"}]}})
            await world.minutes()
        assert await world.advised() == set()
