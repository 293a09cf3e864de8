"""`make savings`: what recorded jobs and services reserve when sized for their peak, by VPA's rule, and by elastipod.

Nothing is chosen here: estimators, update rules and their settings are those of recommender/replay and
recommender/estimators, fixed on the series whose name has an even SHA-1; the others are only scored. Runs on the folder
that is given, of which it needs what bench/traces holds, and writes docs/savings.md.
"""

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bench.playing import Playing
from bench.quality import MEMORY, SOURCES
from bench.savingspage import page
from bench.simulatedruns import simulate
from recommender.estimators.candidates import CALM, NO_MORE_KILLS
from recommender.estimators.runs import ENOUGH_RUNS, EarlierRuns, Usage
from recommender.histogram import Floats
from recommender.prices import ON_DEMAND
from recommender.ranges import Resource
from recommender.replay import jobs, ours, peers
from recommender.replay.comparing import outcomes
from recommender.replay.jobs import Plan, looks
from recommender.replay.playing import Played
from recommender.replay.scoring import score
from recommender.replay.series import Panel, Run, Series, is_for_tuning, side_by_side
from recommender.replay.wholeruns import MOST_FACTOR, Sizes, Told, highest, play_whole
from recommender.sources.trace import GIB, read_trace

PARTS = ("tuning", "scored", "all")
BUNDLED = ("own_genomics_jobs", "synthetic_genomics_jobs", "nezha_k8s_pods", "crane_pods_cpu", "google2011_jobs")
"""The traces that are part of the project, in bench/traces."""

# Services, in the page's order.
SERVICES = {
    "nezha_k8s_pods": "Kubernetes pods (Nezha)",
    "crane_pods_cpu": "applications (Crane)",
    "google2011_jobs": "Borg services (Google)",
    "nab_aws_cpu": "cloud instances (NAB)",
    "azure_v1_vm": "machines (Azure)",
    "bitbrains_rnd_2013_08": "machines (Bitbrains)",
}
# By which rule of the comparison a system is played.
RULES = {
    Resource.CPU: {"vpa": "vpa", "elastipod": "calm"},
    Resource.MEMORY: {"vpa": "vpa", "elastipod": "calm", "elastipod+": "apart"},
}
MINUTE, MINUTES = 60.0, 3

# Runs of jobs, and how far apart their CPU is looked at.
JOBS = {"own_genomics_jobs": 10.0, "synthetic_genomics_jobs": 60.0}


def services(file: Path, resource: Resource) -> list[dict[str, Any]]:
    """What a file's series reserved by each system, in parts."""
    source, (_, cores, memory) = SERVICES[file.stem], SOURCES[file.stem]
    trace = read_trace(file)
    series, unit = (trace.cpu, cores) if resource is Resource.CPU else (trace.memory, memory)
    (panel,) = side_by_side([Series(one.name, one.step_seconds, one.values * unit) for one in series])
    by_rule = {outcome.rule: outcome for outcome in outcomes(panel, resource, tuple(set(RULES[resource].values())))}
    played: dict[str, tuple[Played, Played | None]] = {"peak": (_for_the_peak(panel), None)}
    for system, rule in RULES[resource].items():
        played[system] = by_rule[rule].request, by_rule[rule].limit
    tuning = np.array([is_for_tuning(name) for name in panel.names])
    rows = []
    for part, columns in zip(PARTS, (tuning, ~tuning, np.ones(len(tuning), dtype=bool)), strict=True):
        for system, (request, limit) in played.items():
            facts = _service_facts(panel, resource, request, limit, columns)
            rows.append({"source": source, "resource": str(resource), "part": part, "system": system, **facts})
    return rows


def _for_the_peak(panel: Panel) -> Played:
    """Each series' own peak from the first to the last, known beforehand and without a margin."""
    peaks = np.nanmax(panel.values, axis=0)
    return Played(np.broadcast_to(peaks, panel.values.shape).copy(), np.zeros(panel.values.shape, dtype=bool))


def _service_facts(
    panel: Panel,
    resource: Resource,
    request: Played,
    limit: Played | None,
    columns: np.ndarray[Any, np.dtype[np.bool_]],
) -> dict[str, Any]:
    scores = score(panel, request, limit).part(columns)
    days = float(scores.days.sum())
    unit = 1.0 if resource is Resource.CPU else GIB
    reserved, used = scores.reserved_hours.sum() / unit, scores.used_hours.sum() / unit
    steps = np.arange(len(panel.values))[:, np.newaxis]
    counts = (panel.seen & np.isfinite(request.allocated) & (steps >= panel.warm_up))[:, columns]
    values, has = panel.values[:, columns], request.allocated[:, columns]
    highest_limit = has if limit is None else limit.allocated[:, columns]
    facts: dict[str, Any] = {
        "series": int((scores.days > 0).sum()),
        "days": days,
        "reserved_hours": float(reserved),
        "used_hours": float(used),
        "money": float(reserved) * (ON_DEMAND.core_hour if resource is Resource.CPU else ON_DEMAND.gib_hour),
        "resizes_a_day": float((request.changed[:, columns] & counts).sum() / days),
    }
    if resource is Resource.CPU:
        facts["throttled_seconds_a_day"] = float(((values > has) & counts).sum() * panel.step_seconds / days)
        short = np.where(counts, np.maximum(values - has, 0.0), 0.0).sum() * panel.step_seconds / 3600
        facts["unserved"] = float(short / used)
    else:
        facts["leaps_a_day"] = float(scores.kills.sum() / days)
        facts["beyond_a_guard_a_day"] = float(((values > MOST_FACTOR * highest_limit) & counts).sum() / days)
    return facts


def whole_jobs(files: Sequence[Path]) -> list[dict[str, Any]]:
    """What the runs of jobs cost by each system, for every run that has enough earlier ones."""
    rows = []
    for file in files:
        runs = read_trace(file).runs
        by_job = {name: sorted((run for run in runs if run.job == name), key=lambda run: run.number)
                  for name in sorted({run.job for run in runs})}  # fmt: skip
        cores = _cores(by_job, JOBS[file.stem])
        for name, own in by_job.items():
            for system, told in _played(own, cores[name]).items():
                facts = {slot: getattr(told, slot) for slot in Told.__slots__}
                rows.append({"job": name, "part": "tuning" if is_for_tuning(name) else "scored", "system": system,
                             "runs": len(own) - ENOUGH_RUNS, **facts})  # fmt: skip
    return rows


def simulated_job(file: Path, name: str) -> dict[str, Any]:
    """What the runs of one job cost with the whole system at work."""
    own = sorted((run for run in read_trace(file).runs if run.job == name), key=lambda run: run.number)
    told = simulate(own)
    facts = {slot: getattr(told, slot) for slot in Told.__slots__}
    # A simulated container is not slowed down.
    part = "tuning" if is_for_tuning(name) else "scored"
    return {"job": name, "part": part, "system": "simulated", "runs": len(own) - ENOUGH_RUNS, **facts,
            "throttled_seconds": None}  # fmt: skip


Cores = dict[int, tuple[float, Floats]]
"""By a run's number: what VPA's rule gives it at its start, and what ours has in force at each sample."""


def _played(own: Sequence[Run], cores: Cores) -> dict[str, Told]:
    most_cores, most_bytes = highest(own)
    found = {system: Told() for system in ("unhindered", "peak", "vpa", "elastipod", "elastipod+", "elastipod+ 10 s")}
    for place in range(ENOUGH_RUNS, len(own)):
        run, earlier, at = own[place], own[:place], looks(own[place])
        vpa_cores, our_cores = cores[run.number]
        still: Callable[[float], Floats] = lambda size: np.full(len(run.memory_bytes), size)  # noqa: B023, E731
        vpa_memory = jobs.vpa(earlier, run, at)
        systems = {
            "peak": Sizes(still(most_cores), Plan(most_bytes, np.full(len(at), most_bytes))),
            "vpa": Sizes(still(vpa_cores), vpa_memory),
            "elastipod": Sizes(our_cores, vpa_memory, is_guarded=True),
            "elastipod+": Sizes(our_cores, by_the_minute(earlier, run, at), is_guarded=True),
            "elastipod+ 10 s": Sizes(our_cores, jobs.ours(earlier, run, at), is_guarded=True),
        }
        for system, sizes in systems.items():
            found[system].add(play_whole(run, sizes))
        used = Told(
            core_hours=float(np.nansum(run.cores)) * run.step_seconds / 3600 if run.cores is not None else 0.0,
            gib_hours=float(run.memory_bytes.sum()) * run.step_seconds / 3600 / GIB,
            finish_seconds=len(run.memory_bytes) * run.step_seconds,
        )
        found["unhindered"].add(used)
    return found


def by_the_minute(earlier: Sequence[Run], run: Run, places: Sequence[int]) -> Plan:
    """The estimator of runs as it is live at the defaults: a sample a minute, and a size that holds for three."""
    known = EarlierRuns([_minutes(one) for one in earlier], MINUTES * MINUTE)
    heard = _minutes(run)
    last = range(len(heard.memory_bytes))
    most = np.array([known.most_bytes(used) for used in heard.memory_bytes])
    wanted = np.minimum(known.sizes(heard, last), most)
    wanted[:MINUTES] = np.maximum(wanted[:MINUTES], known.start_bytes)
    told, in_force = np.empty(len(wanted)), known.start_bytes
    for minute, size in enumerate(wanted.tolist()):
        if size > in_force * (1 + NO_MORE_KILLS.raise_band) or in_force > size * (1 + NO_MORE_KILLS.band):
            in_force = size
        told[minute] = in_force
    minutes = np.array([int(place * run.step_seconds // MINUTE) for place in places], dtype=np.int64)
    return Plan(known.start_bytes, told[minutes])


def _minutes(run: Run) -> Usage:
    return Usage(MINUTE, run.memory_bytes[:: round(MINUTE / run.step_seconds)])


def _cores(by_job: dict[str, list[Run]], seconds: float) -> dict[str, Cores]:
    """The CPU of each run by VPA's rule and by ours, where a job's runs follow each other without a break."""
    pieces = {name: [_coarse(run, seconds) for run in own] for name, own in by_job.items()}
    (panel,) = side_by_side([Series(name, seconds, np.concatenate(those)) for name, those in pieces.items()])
    histogram = peers.vpa(panel, is_memory=False)
    admitted = ours.cpu(panel, histogram, ours.fleet_quantiles(panel), CALM)
    found: dict[str, Cores] = {}
    for column, (name, own) in enumerate(by_job.items()):
        first = 0
        found[name] = {}
        for run, piece in zip(own, pieces[name], strict=True):
            steps = admitted.allocated[first : first + len(piece), column]
            each = np.repeat(steps, round(seconds / run.step_seconds))[: len(run.memory_bytes)]
            found[name][run.number] = float(histogram.allocated[first, column]), each
            first += len(piece)
    return found


def _coarse(run: Run, seconds: float) -> Floats:
    """A run's CPU in means of so many seconds."""
    assert run.cores is not None
    starts = np.arange(0, len(run.cores), round(seconds / run.step_seconds))
    cores = np.nan_to_num(run.cores)
    means: Floats = np.add.reduceat(cores, starts) / np.diff(np.append(starts, len(cores)))
    return means


def main() -> int:
    """Play everything, two files at a time, and write the page."""
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "traces")
    there = {name for name in (*SERVICES, *JOBS) if (folder / f"{name}.parquet").is_file()}
    playing = Playing("savings", folder)
    if not playing.has_all(BUNDLED):
        return 2
    with playing.players() as pool:
        files = {
            run.job: folder / f"{name}.parquet" for name in JOBS for run in read_trace(folder / f"{name}.parquet").runs
        }
        simulated = [pool.submit(simulated_job, file, name) for name, file in sorted(files.items())]
        jobs_task = pool.submit(whole_jobs, [folder / f"{name}.parquet" for name in JOBS])
        tasks = [pool.submit(services, folder / f"{name}.parquet", Resource.MEMORY) for name in MEMORY if name in there]
        tasks += [pool.submit(services, folder / f"{name}.parquet", Resource.CPU) for name in SERVICES if name in there]
        rows = playing.rows_of(tasks)
        jobs = jobs_task.result() + [task.result() for task in simulated]
        left_out = [source for name, source in SERVICES.items() if name not in there]
        rows.sort(key=lambda one: list(SERVICES.values()).index(one["source"]))
        facts = {"services": rows, "jobs": jobs, "left_out": left_out}
    playing.write(facts, page(facts))
    return 0


if __name__ == "__main__":
    sys.exit(main())
