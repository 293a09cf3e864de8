"""Histories as checkpoints: ours come back the same, upstream's are understood, edited ones are refused by name."""

import copy
import json
import math
import random
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elastipod.api import AutoscalerStatus, Checkpoint, ContainerRecommendation, Recommendation
from elastipod.clock import to_rfc3339
from elastipod.owners import Owned
from elastipod.pods import Container, ContainerKey, OwnerReference, Pod, Workload
from elastipod.quantities import Resources
from recommender.annotation import HISTORY_ANNOTATION
from recommender.checkpoints import (
    LiesAhead,
    OtherWorkload,
    UnusableHistory,
    checkpoint_name,
    from_checkpoint,
    second_name,
    to_checkpoint,
)
from recommender.claims import Claim
from recommender.histogram import MEMORY_FIRST_BUCKET, buckets_from
from recommender.history import ContainerHistory, History
from recommender.recommending import Recommendations
from recommender.samples import OomKill, UsageSample
from recommender.settings import RecommenderSettings
from recommender.stamps import is_clock_right
from recommender.windows import InstanceKey

MI = 1024**2
SETTINGS = RecommenderSettings()
WEB = Workload("shop", "Deployment", "web")
KEY = ContainerKey(WEB, "app")
NOW = 1_790_000_000.0

# As the recommender of vertical-pod-autoscaler 1.8 writes it.
UPSTREAM: dict[str, Any] = {
    "apiVersion": "autoscaling.k8s.io/v1",
    "kind": "VerticalPodAutoscalerCheckpoint",
    "metadata": {
        "creationTimestamp": "2026-09-14T08:00:11Z",
        "generation": 8123,
        "managedFields": [{"manager": "recommender", "operation": "Update"}],
        "name": "web-app",
        "namespace": "shop",
        "resourceVersion": "991",
        "uid": "0b6b5c2e-2f5c-4c38-9ff0-1f1d1f6fb0c2",
    },
    "spec": {"containerName": "app", "vpaObjectName": "web"},
    "status": {
        "cpuHistogram": {
            "bucketWeights": {"0": 120, "10": 10000, "11": 5000, "20": 900},
            "referenceTimestamp": "2026-09-20T00:00:00Z",
            "totalWeight": 201.6,
        },
        "firstSampleStart": "2026-09-14T08:00:00Z",
        "lastSampleStart": "2026-09-20T11:00:00Z",
        "lastUpdateTime": "2026-09-20T11:00:12Z",
        "memoryHistogram": {
            "bucketWeights": {"40": 10000, "44": 2500},
            "referenceTimestamp": "2026-09-21T00:00:00Z",
            "totalWeight": 3.9,
        },
        "totalSamplesCount": 8820,
        "version": "v3",
    },
}


def upstream(**status: Any) -> Checkpoint:
    changed = copy.deepcopy(UPSTREAM)
    changed["status"] |= status
    return read(changed)


def read(body: Any) -> Checkpoint:
    return msgspec.json.decode(json.dumps(body), type=Checkpoint)


def learned(usage: list[tuple[float, float]], kills: int = 0) -> History:
    """A history of one container, a sample each half hour."""
    history = History(SETTINGS)
    place = np.array([history.ensure_instance(InstanceKey("pod-1", "app"), history.ensure_row(KEY))])
    for step, (cpu, memory) in enumerate(usage):
        at = NOW - 1800.5 * (len(usage) - step)
        history.add(place, np.array([at]), np.array([cpu]), np.array([memory]), at)
    for number in range(kills):
        history.add_oom(OomKill(WEB, "app", "pod-1", f"id-{number}", NOW - 60, 500 * MI))
    return history


def saved(history: History) -> Checkpoint:
    checkpoint = to_checkpoint("shop", "web", KEY, history.export(0), NOW)
    return msgspec.json.decode(msgspec.json.encode(checkpoint), type=Checkpoint)


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.tuples(st.floats(0, 50), st.floats(0, 1e11)), min_size=1, max_size=40),
    st.integers(0, 3),
)
def test_a_history_comes_back_the_same(usage: list[tuple[float, float]], kills: int) -> None:
    history = learned(usage, kills)
    before = history.export(0)
    after = from_checkpoint(saved(history), SETTINGS, NOW)
    assert (after.windows, after.oom, after.samples) == (before.windows, before.oom, before.samples)
    assert (after.first_sample_at, after.last_sample_at) == (before.first_sample_at, before.last_sample_at)
    again = History(SETTINGS)
    again.restore(KEY, after)
    for one, other in ((history.cpu, again.cpu), (history.memory, again.memory)):
        assert other.total(0, NOW) == pytest.approx(one.total(0, NOW), rel=1e-5)
        for fraction in (0.501, 0.901, 0.951):
            # Weights are saved to five digits, and a share may be as close to the fraction.
            least, most = (one.percentile(0, fraction + by) or 0.0 for by in (-1e-4, 1e-4))
            assert least <= (other.percentile(0, fraction) or 0.0) <= most


def test_a_saved_and_loaded_store_weighs_what_it_weighed_r09() -> None:
    history = learned([(0.2, 1e9), (0.4, 2e9)] * 300)
    before = history.cpu.total(0, NOW)
    for _ in range(5):
        again = History(SETTINGS)
        again.restore(KEY, from_checkpoint(saved(history), SETTINGS, NOW))
        history = again
    assert history.cpu.total(0, NOW) == pytest.approx(before, rel=1e-4)


def test_upstreams_history_gives_upstreams_percentiles() -> None:
    history = History(SETTINGS)
    history.restore(KEY, from_checkpoint(upstream(), SETTINGS, NOW))
    # pkg/recommender/util/histogram.go: the end of the bucket in which the percentile lies.
    ends = {number: 0.01 * (1.05 ** (number + 1) - 1) / 0.05 for number in (0, 10, 11, 20)}
    assert history.cpu.percentile(0, 0.5) == pytest.approx(ends[10])
    assert history.cpu.percentile(0, 0.9) == pytest.approx(ends[11])
    assert history.cpu.percentile(0, 0.97) == pytest.approx(ends[20])
    assert history.memory.percentile(0, 0.9) == pytest.approx(1e7 * (1.05**45 - 1) / 0.05)
    assert history.samples[0] == 8820
    reference = 1_789_862_400.0
    assert history.cpu.total(0, reference) == pytest.approx(201.6, rel=1e-6)


def test_upstream_reads_what_we_write() -> None:
    checkpoint = saved(learned([(0.2, 1e9)] * 40 + [(0.9, 3e9)]))
    status = checkpoint.status
    assert status is not None
    assert status.version == "v3"
    assert status.cpu_histogram is not None
    weights = status.cpu_histogram.bucket_weights
    assert weights is not None
    assert max(weights.values()) == 10_000
    assert all(0 <= int(bucket) < 176 for bucket in weights)
    total = status.cpu_histogram.total_weight
    low = int(math.log(0.2 * 0.05 / 0.01 + 1, 1.05))
    assert weights[str(low)] == 10_000
    assert total > 0


def test_a_history_that_upstream_went_on_with_is_taken_as_upstream_left_it() -> None:
    checkpoint = saved(learned([(0.2, 1e9)] * 40, kills=1))
    body = json.loads(msgspec.json.encode(checkpoint))
    body["status"] |= UPSTREAM["status"]
    found = from_checkpoint(read(body), SETTINGS, NOW)
    assert found.samples == 8820
    assert found.cpu is not None
    assert found.cpu.total == pytest.approx(201.6)
    assert found.oom.kills == 1


def test_weights_that_are_all_nothing_are_no_history_r07() -> None:
    empty = {"bucketWeights": {"3": 0, "4": 0}, "referenceTimestamp": "2026-09-20T00:00:00Z", "totalWeight": 3.0}
    with pytest.raises(UnusableHistory, match=r"status\.memoryHistogram\.bucketWeights: are all 0"):
        from_checkpoint(upstream(memoryHistogram=empty), SETTINGS, NOW)


@pytest.mark.parametrize(
    ("status", "named"),
    [
        ({"version": "v2"}, "status.version"),
        ({"totalSamplesCount": -1}, "totalSamplesCount"),
        ({"totalSamplesCount": 12}, "cpuHistogram.totalWeight"),
        ({"firstSampleStart": "2026-09-21T00:00:00Z"}, "firstSampleStart"),
        ({"lastSampleStart": "2126-09-21T00:00:00Z"}, "lastSampleStart"),
        ({"lastSampleStart": "yesterday"}, "lastSampleStart"),
        ({"cpuHistogram": {**UPSTREAM["status"]["cpuHistogram"], "totalWeight": 2016.0}}, "cpuHistogram.totalWeight"),
        ({"cpuHistogram": {**UPSTREAM["status"]["cpuHistogram"], "totalWeight": -1.0}}, "cpuHistogram.totalWeight"),
        ({"cpuHistogram": {**UPSTREAM["status"]["cpuHistogram"], "bucketWeights": {"176": 1}}}, "bucketWeights"),
        ({"cpuHistogram": {**UPSTREAM["status"]["cpuHistogram"], "bucketWeights": {"-1": 1}}}, "bucketWeights"),
        ({"cpuHistogram": {**UPSTREAM["status"]["cpuHistogram"], "bucketWeights": {"1": -4}}}, "bucketWeights"),
        ({"cpuHistogram": {**UPSTREAM["status"]["cpuHistogram"], "referenceTimestamp": None}}, "referenceTimestamp"),
    ],
)
def test_an_edited_checkpoint_is_refused_by_the_fields_name_f40(status: dict[str, Any], named: str) -> None:
    with pytest.raises(UnusableHistory) as refused:
        from_checkpoint(upstream(**status), SETTINGS, NOW)
    assert named in str(refused.value)


def test_a_swapped_checkpoint_is_refused_f40() -> None:
    body = copy.deepcopy(UPSTREAM)
    body["spec"]["containerName"] = "proxy"
    with pytest.raises(UnusableHistory, match=r"metadata\.name"):
        from_checkpoint(read(body), SETTINGS, NOW)


def annotated(edit: dict[str, Any]) -> Checkpoint:
    """A checkpoint of ours with some fields of the annotation edited."""
    body = json.loads(msgspec.json.encode(saved(learned([(0.2, 1e9)] * 4, kills=1))))
    annotations = body["metadata"]["annotations"]
    annotations[HISTORY_ANNOTATION] = json.dumps(json.loads(annotations[HISTORY_ANNOTATION]) | edit)
    return read(body)


@pytest.mark.parametrize(
    ("edit", "named"),
    [
        ({"version": 2}, "version"),
        ({"windows": [["p", 1e300, 1.0]]}, "windows"),
        ({"windows": [["p", 1.0, -5.0]]}, "windows"),
        ({"windows": [["p", 1.0]]}, "windows[0]"),
        ({"oom": {"floor_bytes": 1e30}}, "oom.proven_bytes"),
        ({"cpu": {"reference_at": NOW, "weights": {"99999": 1}}}, "cpu"),
        ({"memory": {"reference_at": 1e300, "weights": {"1": 1}}}, "memory"),
        ({"first_sample_at": -1.0}, "first_sample_at"),
        ({"last_sample_at": "soon"}, "last_sample_at"),
        ({"before": {"cpu_millicores": -1}}, "before"),
        ({"steps": 3}, "steps"),
    ],
)
def test_an_edited_annotation_costs_what_was_edited_and_names_it_f40(edit: dict[str, Any], named: str) -> None:
    before, found = (from_checkpoint(annotated(one), SETTINGS, NOW) for one in ({}, edit))
    assert before.set_aside == ""
    assert f"{HISTORY_ANNOTATION}].{named}" in found.set_aside
    assert found.samples == 4
    assert found.cpu is not None
    assert found.memory is not None
    if named != "version" and not named.startswith("oom"):
        assert found.oom == before.oom


def test_half_of_the_first_requests_is_none_f40() -> None:
    found = from_checkpoint(annotated({"before": {"cpu_millicores": "5", "memory_bytes": 5}}), SETTINGS, NOW)
    assert found.before is None
    assert "before.cpu_millicores" in found.set_aside


def test_what_a_newer_version_saved_besides_costs_nothing() -> None:
    newer = annotated({"novelty": 1, "before": {"cpu_millicores": 5, "novelty": [2]}})
    found = from_checkpoint(newer, SETTINGS, NOW)
    assert found.set_aside == ""
    assert found == msgspec.structs.replace(from_checkpoint(annotated({}), SETTINGS, NOW), before=Resources(5))


def test_an_annotation_that_is_no_json_leaves_what_upstreams_form_says() -> None:
    body = json.loads(msgspec.json.encode(saved(learned([(0.2, 1e9)] * 4))))
    body["metadata"]["annotations"][HISTORY_ANNOTATION] = "{"
    found = from_checkpoint(read(body), SETTINGS, NOW)
    assert found.samples == 4
    assert HISTORY_ANNOTATION in found.set_aside


WEEK = 7 * 86_400.0


@pytest.mark.parametrize("stated", [WEEK, None, 90 * 86_400.0], ids=["as stated", "shorter since", "longer since"])
def test_windows_end_as_far_ahead_as_policies_let_them(stated: float | None) -> None:
    history = History(SETTINGS)
    row = history.ensure_row(KEY)
    history.memory_interval[row] = WEEK
    place = np.array([history.ensure_instance(InstanceKey("pod-1", "app"), row)])
    history.add(place, np.array([NOW]), np.array([0.2]), np.array([1e9]), NOW)
    found = from_checkpoint(saved(history), SETTINGS, NOW, WEB, stated)
    assert found.set_aside == ""
    assert [one.ends_at for one in found.windows] == [NOW + WEEK]
    assert found.memory is not None


def test_a_policy_of_90_days_is_judged_by_itself() -> None:
    quarter = 90 * 86_400.0
    memory = {**UPSTREAM["status"]["memoryHistogram"], "referenceTimestamp": to_rfc3339(NOW + quarter)}
    assert from_checkpoint(upstream(memoryHistogram=memory), SETTINGS, NOW, WEB, quarter).memory is not None
    with pytest.raises(UnusableHistory, match="memoryHistogram"):
        from_checkpoint(upstream(memoryHistogram=memory), SETTINGS, NOW, WEB)


def test_upstreams_reference_is_up_to_a_half_life_ahead() -> None:
    slow = RecommenderSettings(half_life_seconds=14 * 86_400.0)
    cpu = {**UPSTREAM["status"]["cpuHistogram"], "referenceTimestamp": to_rfc3339(NOW + WEEK)}
    assert from_checkpoint(upstream(cpuHistogram=cpu), slow, NOW).cpu is not None


def test_what_lies_ahead_is_told_from_what_makes_no_sense() -> None:
    with pytest.raises(LiesAhead, match="lastSampleStart"):
        from_checkpoint(upstream(), SETTINGS, NOW - 5 * 86_400.0)


@pytest.mark.parametrize(
    ("created", "written", "is_right"),
    [
        (-WEEK, [-WEEK, -60.0], True),
        (-WEEK, [-60.0, 5 * 86_400.0], False),
        (5 * 86_400.0, [5 * 86_400.0], False),
        (-60.0, [], False),
        (-60.0, [None], False),
    ],
    ids=["written by now", "written later", "made later", "not told", "told without a time"],
)
def test_the_api_servers_times_say_whose_clock_is_wrong(
    created: float, written: list[float | None], *, is_right: bool
) -> None:
    fields = [{"manager": "m"} if after is None else {"time": to_rfc3339(NOW + after)} for after in written]
    meta = {"creationTimestamp": to_rfc3339(NOW + created), "managedFields": fields}
    assert is_clock_right(msgspec.Raw(json.dumps({"metadata": meta}).encode()), NOW) is is_right


def mutated(body: Any, chance: random.Random) -> Any:
    """The same JSON with one value, key or byte changed."""
    strange: tuple[Any, ...] = (
        None,
        -1,
        0,
        2**63,
        1e308,
        "",
        "NaN",
        "\u202e",
        [],
        {},
        True,
        "9" * 400,
        1.5,
        "2026-09-20T11:00:12Z",
    )
    if chance.random() < 0.3:
        raw = bytearray(json.dumps(body).encode())
        for _ in range(chance.randint(1, 4)):
            raw[chance.randrange(len(raw))] = chance.randrange(256)
        return bytes(raw[: chance.randrange(1, len(raw))] if chance.random() < 0.2 else raw)
    changed = copy.deepcopy(body)
    annotations = changed["metadata"].get("annotations") or {}
    inner = json.loads(annotations[HISTORY_ANNOTATION]) if annotations else None
    at = chance.choice([changed, inner]) if inner is not None else changed
    place = at
    while isinstance(place, dict) and place and chance.random() < 0.8:
        key = chance.choice(sorted(place))
        if isinstance(place[key], dict) and place[key]:
            place = place[key]
            continue
        place[key] = chance.choice(strange)
        break
    if inner is not None:
        annotations[HISTORY_ANNOTATION] = json.dumps(inner)
    return json.dumps(changed).encode()


def test_ten_thousand_mutated_checkpoints_crash_nothing_and_give_sane_sizes_f40() -> None:
    chance = random.Random(40)
    own = json.loads(msgspec.json.encode(saved(learned([(0.2, 1e9), (0.5, 2e9)] * 6, kills=2))))
    used = refused = 0
    most = buckets_from(MEMORY_FIRST_BUCKET).starts[-1]
    for number in range(10_000):
        body = mutated(own if number % 2 else UPSTREAM, chance)
        try:
            checkpoint = msgspec.json.decode(body, type=Checkpoint)
            found = from_checkpoint(checkpoint, SETTINGS, NOW)
        except (UnusableHistory, msgspec.DecodeError, UnicodeDecodeError):
            refused += 1
            continue
        used += 1
        if number % 20 == 0:
            history = History(SETTINGS)
            history.restore(KEY, found)
            memory = history.memory.percentile(0, 0.9)
            assert memory is None or 0 < memory <= most
    assert used > 500
    assert refused > 1500


def test_an_edited_checkpoint_that_is_refused_lowers_nothing_and_one_that_is_read_keeps_its_kills_f40() -> None:
    chance = random.Random(41)
    history = learned([(0.2, 1e9), (0.5, 2e9)] * 6, kills=2)
    evidence = history.oom(0)
    own = json.loads(msgspec.json.encode(saved(history)))
    # As every edit of the annotation writes it anew.
    untouched = own["metadata"]["annotations"][HISTORY_ANNOTATION] = json.dumps(
        json.loads(own["metadata"]["annotations"][HISTORY_ANNOTATION])
    )
    target: dict[str, str | int | float] = {"cpu": "2", "memory": "4Gi"}
    before = ContainerRecommendation(container_name="app", target=target, lower_bound=target, uncapped_target=target)
    status = AutoscalerStatus(Recommendation([before]))
    refused = kept = 0
    for number in range(10_000):
        body = mutated(own, chance)
        try:
            checkpoint = msgspec.json.decode(body, type=Checkpoint)
            found = from_checkpoint(checkpoint, SETTINGS, NOW)
        except (UnusableHistory, msgspec.DecodeError, UnicodeDecodeError) as error:
            refused += 1
            if refused % 100 == 0:
                assert advised(status, {}, {"app": str(error)}) == target
            continue
        if (checkpoint.metadata.annotations or {}).get(HISTORY_ANNOTATION) == untouched:
            kept += 1
            assert found.oom.floor_bytes == evidence.floor_bytes
            assert found.oom.kill_ids == evidence.kill_ids
        if number % 100 == 0:
            assert advised(status, {"app": found}, {})
    assert refused > 1500
    assert kept > 500


def advised(status: AutoscalerStatus, histories: dict[str, ContainerHistory], unusable: dict[str, str]) -> Any:
    """What is recommended after a start with these histories, and one small sample."""
    known = Recommendations(SETTINGS)
    known.set_claim("shop/web", Claim("shop", "web", "u", 1, "elastipod", WEB, status=status))
    known.loaded("shop/web", histories, unusable)
    known.members.set_owned(None, Owned("Deployment", "shop", "web", "d"))
    pod = Pod("shop", "web-a", "p", phase="Running", owner=OwnerReference("Deployment", "web", "d"))
    known.members.set_pod(
        "shop/web-a", msgspec.structs.replace(pod, containers=(Container("app", is_running=True, started_at=NOW),))
    )
    known.learn([UsageSample("shop", "web-a", "app", NOW, 0.001, 1e6)], NOW)
    known.decide(NOW)
    found = known.status("shop/web", NOW).recommendation
    assert found is not None
    [one] = found.container_recommendations or []
    return one.target


def test_a_name_that_would_be_too_long_ends_in_a_hash_r46() -> None:
    one, other = checkpoint_name("v" * 253, "app"), checkpoint_name("v" * 253, "app2")
    assert len(one) <= 253
    assert one != other
    assert checkpoint_name("web", "app") == "web-app"


def test_two_that_upstream_names_the_same_have_second_names_that_differ() -> None:
    names = {second_name("web", "api-cache"), second_name("web-api", "cache")}
    assert len(names) == 2
    assert second_name("v" * 253, "app") not in ("", checkpoint_name("v" * 253, "app"))
    assert all(len(name) <= 253 for name in (*names, second_name("v" * 253, "app")))


def test_an_empty_history_is_saved_and_read() -> None:
    checkpoint = to_checkpoint("shop", "web", KEY, ContainerHistory(), NOW)
    assert from_checkpoint(checkpoint, SETTINGS, NOW) == ContainerHistory()


def test_the_history_of_another_workload_is_not_taken() -> None:
    checkpoint = saved(learned([(0.2, 1e9)] * 4))
    with pytest.raises(OtherWorkload):
        from_checkpoint(checkpoint, SETTINGS, NOW, Workload("shop", "Deployment", "other"))
    assert from_checkpoint(checkpoint, SETTINGS, NOW, WEB).samples == 4
