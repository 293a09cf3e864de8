"""An ElasticPolicy lets the best estimator speak, as statuses and explanations show it; without one nothing moves."""

import json
from typing import Any

import numpy as np
import pytest

from elastipod.kube.resources import ELASTIC_POLICIES, PODS
from elastipod.quantities import parse_cpu, parse_memory
from elastipod.settings import SettingsError, load_settings
from recommender.estimators.histogram import estimate
from recommender.settings import RecommenderSettings
from tests.recommender.world import MI, World, killed_status

IN_PLACE = {"updateMode": "InPlaceOrRecreate"}
RECORD = 345
"""As many intervals of five minutes as make a day's record: an hour is not counted, and what is old counts less."""


async def started(mode: dict[str, str] | None = None, settings: dict[str, Any] | None = None, **policy: Any) -> World:
    """A world with one running pod, an autoscaler for its Deployment and an ElasticPolicy for all."""
    world = World(
        interval_seconds=300.0, metrics_resolution_seconds=300.0, metrics_lost_seconds=3600.0, **(settings or {})
    )
    await world.node(cpu="8", memory="32Gi")
    await world.pod("web-a", await world.deployment(), cpu="1", memory="512Mi", memory_limit="1Gi")
    await world.autoscaler(updatePolicy=mode or IN_PLACE)
    await state(world, **policy)
    return world


async def state(world: World, name: str = "all", **spec: Any) -> None:
    metadata = {"name": name, "namespace": "default"}
    body = {"apiVersion": "elastipod.io/v1alpha1", "kind": "ElasticPolicy", "metadata": metadata, "spec": spec}
    await world.create(ELASTIC_POLICIES, body)


async def runs(world: World, count: int, cpu: float = 0.5, memory: float = 200 * MI) -> None:
    for _ in range(count):
        await world.run(cpu=cpu, memory=memory)


async def targets(world: World) -> tuple[int, int]:
    found = await world.target()
    return parse_cpu(str(found["cpu"])), parse_memory(str(found["memory"]))


def speakers(world: World, resource: str, estimator: str) -> float | None:
    labels = {"resource": resource, "estimator": estimator}
    return world.metrics.registry.get_sample_value("elastipod_recommender_speakers", labels)


async def provided(world: World) -> str:
    status = (await world.read()).status
    [found] = [one for one in (status and status.conditions) or [] if one.type == "RecommendationProvided"]
    return found.message


def explained(world: World) -> dict[str, Any]:
    facts = world.recommender.explain("default/web-a")
    assert facts is not None
    [container] = facts["containers"]
    return dict(container)


async def test_what_wins_speaks_after_a_days_record_and_is_taken_back_when_it_does_harm() -> None:
    async with await started() as world:
        await runs(world, 5)
        told = explained(world)["estimators"]["cpu"]
        assert (told["speaks"], told["reason"]) == ("histogram", "TooLittleRecord")
        await runs(world, RECORD)
        assert await targets(world) == (525, 204 * MI)
        assert await provided(world) == "app: cpu by peaks; app: memory by peaks"
        assert [speakers(world, "memory", one) for one in ("histogram", "peaks", "quantile")] == [0, 1, 0]
        told = explained(world)["estimators"]["memory"]
        assert (told["speaks"], told["reason"], told["how"]) == ("peaks", "Admitted", "the last hour's peak +2%")
        assert 230 * MI < told["histogram_says"] < 242 * MI
        # The histogram would have served this.
        await runs(world, 1, cpu=0.57, memory=228 * MI)
        await runs(world, 1)
        cpu, memory = await targets(world)
        assert cpu >= 575
        assert memory >= 230 * MI
        assert await provided(world) == ""
        assert explained(world)["estimators"]["memory"]["reason"] == "NoBetterEstimator"


async def test_what_a_kill_has_proven_holds_whoever_speaks() -> None:
    async with await started() as world:
        await runs(world, RECORD)
        assert (await targets(world))[1] == 204 * MI
        pod = json.loads(await world.connection.get(PODS, "default", "web-a"))
        await world.set_status("web-a", killed_status(pod))
        await runs(world, 30)
        assert (await targets(world))[1] >= 1.2 * 1024 * MI
        assert explained(world)["estimators"]["memory"]["speaks"] == "peaks"


async def test_a_policy_that_goes_away_gives_the_histogram_the_word_at_once() -> None:
    async with await started() as world:
        await runs(world, RECORD)
        await world.connection.delete(ELASTIC_POLICIES, "default", "all")
        await runs(world, 1)
        assert (await targets(world))[0] >= 575
        assert explained(world)["estimators"]["cpu"]["reason"] == "NoElasticPolicy"
        await state(world)
        await runs(world, 1)
        assert explained(world)["estimators"]["cpu"]["reason"] == "TooLittleRecord"


async def test_metrics_that_fail_change_nothing() -> None:
    async with await started() as world:
        await runs(world, RECORD)
        before = await targets(world)
        world.usage.is_down = True
        await runs(world, 40)
        assert await targets(world) == before
        world.usage.is_down = False
        await runs(world, 1)
        assert await targets(world) == before


@pytest.mark.parametrize(
    ("mode", "policy", "reason"),
    [
        (IN_PLACE, {"estimator": "Histogram"}, "HistogramStated"),
        ({"updateMode": "Recreate"}, {}, "SizedForLong"),
        ({"updateMode": "Off"}, {}, "SizedForLong"),
        (IN_PLACE, {"selector": {"name": "other"}}, "NoElasticPolicy"),
    ],
)
async def test_only_the_histogram_speaks_where_no_policy_wants_another_or_sizes_do_not_move_in_place(
    mode: dict[str, str], policy: dict[str, Any], reason: str
) -> None:
    async with await started(mode, **policy) as world:
        await runs(world, 3)
        told = explained(world)["estimators"]
        assert {one["reason"] for one in told.values()} == {reason}
        assert all(one["why"] and one["changes_with"] for one in told.values())
        known = world.recommender.recommendations
        assert len(known.estimating.speaking) == 0
        raw = estimate(known.history, world.settings)
        assert known.judgement.estimates is not None
        np.testing.assert_array_equal(known.judgement.estimates.cpu.values, raw.cpu.values)
        np.testing.assert_array_equal(known.judgement.estimates.memory.values, raw.memory.values)


async def test_the_narrowest_statement_about_the_estimator_counts() -> None:
    async with await started(estimator="Histogram") as world:
        await state(world, "web", selector={"name": "web"}, donate=False)
        await runs(world, 1)
        assert explained(world)["estimators"]["cpu"]["reason"] == "HistogramStated"
        await state(world, "web-auto", selector={"name": "web"}, estimator="Auto")
        await runs(world, 1)
        assert explained(world)["estimators"]["cpu"]["reason"] == "TooLittleRecord"


async def test_what_is_over_is_forgotten_by_every_estimator() -> None:
    async with await started() as world:
        await runs(world, 2)
        known = world.recommender.recommendations
        assert len(known.estimating.speaking) == 1
        await world.connection.delete(PODS, "default", "web-a", body=b'{"gracePeriodSeconds": 0}')
        await world.run()
        # Between two runs of a job all stays as it was.
        assert len(known.estimating.speaking) == 1
        known.expire(world.clock.now() + 2 * world.settings.history_seconds)
        assert len(known.estimating.speaking) == 0


async def upper(world: World) -> int:
    status = (await world.read()).status
    assert status is not None
    assert status.recommendation is not None
    [one] = status.recommendation.container_recommendations or []
    return parse_memory(str((one.upper_bound or {})["memory"]))


async def test_an_independent_limit_is_a_third_above_the_most_that_is_remembered_and_a_restart_keeps_it() -> None:
    async with await started(limitModes={"memory": "Independent"}) as world:
        await runs(world, 1, memory=700 * MI)
        await runs(world, RECORD)
        assert (await targets(world))[1] == 204 * MI
        before = await upper(world)
        assert 700 * 1.3 * MI <= before <= 700 * 1.05 * 1.3 * MI
        assert explained(world)["limit_modes"] == {"cpu": "Proportional", "memory": "Independent"}
        await world.recommender.save()
        await world.restart()
        await runs(world, 2)
        assert await upper(world) >= before
        # Nothing is stored of what else was admitted: the histogram speaks, and others are learned anew.
        assert (await targets(world))[0] >= 575
        assert explained(world)["estimators"]["cpu"]["reason"] == "TooLittleRecord"


async def test_an_independent_limit_stays_within_what_is_allowed() -> None:
    async with await started(limitModes={"memory": "Independent"}) as world:
        most = {"containerName": "*", "maxAllowed": {"memory": "400Mi"}}
        await world.change(spec={"resourcePolicy": {"containerPolicies": [most]}})
        await runs(world, 1, memory=700 * MI)
        await runs(world, 50)
        assert await upper(world) == 400 * MI


async def test_a_guaranteed_pods_limits_are_its_requests() -> None:
    async with await started(limitModes={"memory": "Independent"}) as world:
        uid = await world.deployment("api")
        await world.pod("api-a", uid, workload="api", cpu="1", cpu_limit="1", memory="1Gi", memory_limit="1Gi")
        await world.autoscaler("api", "api", updatePolicy=IN_PLACE)
        await world.run(cpu=0.5, memory=100 * MI, pods=("web-a", "api-a"))
        facts = world.recommender.explain("default/api-a")
        assert facts is not None
        assert facts["containers"][0]["limit_modes"]["memory"] == "Proportional"


async def test_a_misspelt_estimator_is_refused_by_the_api_server() -> None:
    async with await started() as world:
        with pytest.raises(Exception, match="estimator"):
            await state(world, "wrong", estimator="auto")
        with pytest.raises(Exception, match=r"limitModes\.memory"):
            await state(world, "wrong", limitModes={"memory": "Free"})


async def test_the_administrator_may_keep_upstreams_rule_for_all() -> None:
    async with await started(settings={"estimator": "Histogram"}, estimator="Auto") as world:
        await runs(world, 1)
        assert {one["reason"] for one in explained(world)["estimators"].values()} == {"HistogramStated"}
    with pytest.raises(SettingsError, match="'auto' can not be used: it can be Auto or Histogram"):
        load_settings(RecommenderSettings, ["--estimator", "auto"], {})
