"""A spike in a real cluster: without elastipod a Job dies at its limit, with it the Job is given more in time."""

import json
from collections import Counter
from collections.abc import Callable

import pytest

from elastipod.quantities import parse_memory
from tests.kubernetes.proofs.figures import told
from tests.kubernetes.proofs.installation import Elastipod
from tests.kubernetes.proofs.spikes import Outcome, run_job, run_spikes
from tests.kubernetes.proofs.workloads import LIMIT, LIMIT_BYTES

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(900)]


def test_without_elastipod_what_stays_within_its_limit_is_fine(alone: dict[str, list[Outcome]]) -> None:
    assert [(one.reason, one.exit_code, one.desired) for one in alone["within"]] == [("Completed", 0, LIMIT)]


def test_without_elastipod_each_that_goes_beyond_is_killed(alone: dict[str, list[Outcome]]) -> None:
    assert [(one.reason, one.exit_code) for one in alone["beyond"]] == [("OOMKilled", 137)]
    assert Counter(one.reason for one in alone["many"]) == {"OOMKilled": 40}


def test_a_job_that_stays_within_its_limit_is_left_alone(elastipod: Elastipod) -> None:
    outcome = run_job(elastipod.cluster, "content", "60M", elastipod.wait_protected)
    assert (outcome.reason, outcome.exit_code, outcome.desired) == ("Completed", 0, LIMIT)


def test_a_job_that_goes_beyond_is_given_more_and_ends_well_in_the_same_container(elastipod: Elastipod) -> None:
    outcome = run_job(elastipod.cluster, "genome", "200M", elastipod.wait_protected)
    assert (outcome.reason, outcome.exit_code, outcome.restarts) == ("Completed", 0, 0)
    assert outcome.same_container
    assert parse_memory(outcome.desired) >= 2 * LIMIT_BYTES - LIMIT_BYTES // 10


def test_of_40_spikes_at_full_speed_none_ends_in_a_kill(
    elastipod: Elastipod, record_property: Callable[[str, object], None]
) -> None:
    outcomes = run_spikes(elastipod.cluster, elastipod.wait_protected)
    log = [one for one in elastipod.told() if one["event"] == "spike"]
    killed = {one.uid for one in outcomes if one.reason != "Completed"}
    record_property("figure", f"real Kubernetes cluster: {len(killed)} of {len(outcomes)} spikes ended in a kill")
    assert not killed, "\n".join(json.dumps(one) for one in log if one["container"].partition("/")[0] in killed)
    assert all(one.same_container and one.restarts == 0 for one in outcomes)
    assert all(parse_memory(one.desired) > LIMIT_BYTES for one in outcomes)
    record_property(
        "figure",
        told(
            "from a spike's event to the raised limit",
            "ms",
            [one["milliseconds"] for one in log if one["reason"] == "Raised"],
        ),
    )
