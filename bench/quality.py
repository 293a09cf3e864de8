"""`make quality`: the recommender's quality on recorded usage, and docs/quality.md.

One configuration for all sources (recommender/replay/ours.py, recommender/estimators/runs.py), fixed on the series
whose name has an even SHA-1 before the others were scored. Runs on the folder that is given, or ELASTIPOD_TRACES.
"""

import os
import sys
from pathlib import Path
from resource import RUSAGE_SELF, getrusage
from time import process_time
from typing import Any

import numpy as np

from bench.playing import Playing
from bench.qualitypage import page
from recommender.estimators.histogram import Estimate, Estimates
from recommender.estimators.peaks import DAY
from recommender.histogram import CPU_FIRST_BUCKET, MEMORY_FIRST_BUCKET, Floats, HistogramBank, buckets_from
from recommender.prices import ON_DEMAND
from recommender.ranges import Resource
from recommender.replay import jobs
from recommender.replay.comparing import RULES, outcomes, row
from recommender.replay.scoring import Scores, summary
from recommender.replay.series import Series, is_for_tuning, side_by_side
from recommender.sources.trace import read_trace
from recommender.speaking import Speaking

# Shares of a machine are made cores and bytes, so that the histogram's buckets mean what they mean in a cluster.
SOURCES: dict[str, tuple[str, float, float]] = {
    "google2011_jobs": ("Borg", 32.0, 64.0),
    "azure_v1_vm": ("Azure", 4.0, 1.0),
    "bitbrains_rnd_2013_08": ("Bitbrains", 1.0, 1.0),
    "nab_aws_cpu": ("NAB", 4.0, 1.0),
    "crane_pods_cpu": ("apps (1 min)", 1.0, 1.0),
    "nezha_k8s_pods": ("K8s pods (1 min)", 1.0, 1.0),
}
MEMORY = ("google2011_jobs", "nezha_k8s_pods")
JOBS = ("own_genomics_jobs", "synthetic_genomics_jobs")
PLANNERS = ("vpa", "krr", "reactive", "envelope", "ours", "own_peak")
PARTS = ("tuning", "scored")


def compared(file: Path, resource: Resource) -> list[dict[str, Any]]:
    """All rules over one file, scored on both parts."""
    source, cores, memory = SOURCES[file.stem]
    trace = read_trace(file)
    series, unit = (trace.cpu, cores) if resource is Resource.CPU else (trace.memory, memory)
    rows = []
    (panel,) = side_by_side([Series(one.name, one.step_seconds, one.values * unit) for one in series])
    tuning = np.array([is_for_tuning(name) for name in panel.names])
    for outcome in outcomes(panel, resource, tuple(RULES[resource])):
        for part, columns in zip(PARTS, (tuning, ~tuning), strict=True):
            scores: Scores = outcome.scores.part(columns)
            rows.append({"part": part, **row(source, resource, outcome.rule, summary([scores]), ON_DEMAND)})
    return rows


def played_jobs(files: list[Path]) -> list[dict[str, Any]]:
    """All planners over the runs of jobs."""
    runs = [run for file in files for run in read_trace(file).runs]
    rows = []
    for part in (*PARTS, "all"):
        those = [run for run in runs if part == "all" or is_for_tuning(run.job) == (part == "tuning")]
        for planner in PLANNERS:
            found = jobs.play_jobs(those, getattr(jobs, planner))
            rows.append({"part": part, "kind": "known", "rule": planner, **_facts(found)})
        for planner in ("ours", "twice_the_peak"):
            found = jobs.play_jobs(those, getattr(jobs, planner), first=0, last=0)
            rows.append({"part": part, "kind": "first", "rule": planner, **_facts(found)})
    return rows


def tick(containers: int = 100_000) -> dict[str, float]:
    """CPU seconds of a minute's tick, CPU and memory, all of which want the best estimator; and this process's memory.

    The mean of the five ticks in which every bank has its turn, with models. The histograms are there too.
    """
    random = np.random.default_rng(0)
    usual: Floats = np.exp(random.normal(size=containers))
    rows, limits, floors = np.arange(containers), np.full(containers, np.nan), np.zeros(containers)
    spread = usual[:, np.newaxis] * np.array([1.6, 2.0, 2.4])
    raw = Estimates(Estimate(spread), Estimate(spread * 1e9), np.ones(containers))
    banks = [
        HistogramBank(buckets_from(first), DAY, (0.5, 0.9, 0.95)) for first in (CPU_FIRST_BUCKET, MEMORY_FIRST_BUCKET)
    ]
    for bank in banks:
        bank.reserve(containers)
        bank.add(rows, usual, np.ones(containers), np.zeros(containers))
    speaking = Speaking()
    for number in range(containers):
        speaking.want(number, kills_elsewhere=False)
    spent = dict.fromkeys(("samples", "turn", "answers"), 0.0)
    for minute in range(15):
        if minute == 10:
            speaking.fitted(speaking.lessons.fit(), minute * 60.0)
        cores = usual * np.exp(random.normal(0.0, 0.2, containers))
        began = process_time()
        speaking.see(rows, cores, cores * 1e9, limits)
        seen = process_time()
        speaking.turn(raw, floors, minute * 60.0)
        turned = process_time()
        speaking.spoken(raw)
        if minute >= 10:
            for name, seconds in zip(spent, (seen - began, turned - seen, process_time() - turned), strict=True):
                spent[name] += seconds / 5
    return {**spent, "rss_mib": getrusage(RUSAGE_SELF).ru_maxrss // 1024}


def _facts(found: jobs.JobsSummary) -> dict[str, Any]:
    return {name: getattr(found, name) for name in ("runs", "waste", "mean_waste", "kills_a_run")}


def main() -> int:
    """Play everything, two files at a time, and write the page."""
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else os.environ.get("ELASTIPOD_TRACES", ""))
    playing = Playing("quality", folder)
    if not playing.has_all((*SOURCES, *JOBS)):
        return 2
    with playing.players() as pool:
        tasks = [pool.submit(compared, folder / f"{name}.parquet", Resource.CPU) for name in SOURCES]
        tasks += [pool.submit(compared, folder / f"{name}.parquet", Resource.MEMORY) for name in MEMORY]
        jobs_task = pool.submit(played_jobs, [folder / f"{name}.parquet" for name in JOBS])
        rows = playing.rows_of(tasks)
        facts = {"series": rows, "jobs": jobs_task.result(), "tick": pool.submit(tick).result()}
    playing.write(facts, page(facts))
    return 0


if __name__ == "__main__":
    sys.exit(main())
