"""docs/savings.md: what `make savings` measured, as a page.

Owns the tables and the words; every figure comes from the run.
"""

from collections.abc import Iterable, Sequence
from typing import Any

from bench.simulatedruns import MOST_STEPS
from recommender.estimators.runs import ENOUGH_RUNS
from recommender.prices import ON_DEMAND
from recommender.replay.jobs import IN_FORCE_SECONDS, LOOP_SECONDS
from recommender.replay.wholeruns import HOLD_SECONDS

SYSTEMS = ("peak", "vpa", "elastipod", "elastipod+")
"""As in the data; elastipod+ has what a policy has to allow: limits apart from requests, and the estimator of runs."""
NAMES = {
    "peak": "sized for the peak",
    "vpa": "VPA's rule",
    "elastipod": "elastipod",
    "elastipod+": "elastipod+",
    "simulated": "whole system, simulated",
}
LEAST = 0.5
"""What was claimed, at the least."""
MARGIN = 0.3
MOST_UNSERVED = 0.01

Rows = Sequence[dict[str, Any]]

INTRODUCTION = """# What is saved against sizing for the peak

Written by `make savings`, which plays recorded jobs and services at their peak size, by VPA's rule, and by elastipod.
Nothing here is edited by hand; the same traces give the same figures. The claim that is tested: elastipod needs 50 to
60 % less than sizing for the peak. Where that holds and where it does not comes first, then how it was played.
"""

METHOD = f"""## How it was played

* **sized for the peak**: the most that the series, or any run of the job, ever used, known beforehand and without a
  margin, for request and limit. Nobody who sizes by hand knows so much, and most add a margin, so this is the least
  that sizing for the peak costs.
* **VPA's rule**: services are resized in place by its estimate and its bounds (`recommender/replay/peers.py`); a run
  of a job has what its earlier runs give, and keeps it.
* **elastipod**: what the recommender does where a policy allows the best estimator: `calm` for CPU and memory. A run of
  a job starts with what its earlier runs give, its CPU follows, and the guard holds it rather than let it be killed.
* **elastipod+**: besides, a limit apart from the request (services), and the estimator of runs, as it is live at a
  sample a minute (jobs; that it may speak is taken for granted). *10 s* is the same estimator at a look every
  {LOOP_SECONDS:.0f} s, which takes a recommender with that interval.
* **Split**: a series is for tuning where the last byte of the SHA-1 of its name is even (of a job: of the job's name).
  All settings were fixed on that part before (`docs/quality.md` says how far that was blind); nothing is chosen here.
  **The tables show the other part**; for jobs all, since ten are few, and the scored part by itself in the first table.
* **Money** is OpenCost's published default: {ON_DEMAND.core_hour} {ON_DEMAND.currency} for a core and
  {ON_DEMAND.gib_hour} for a GiB, an hour. It is what is reserved, at a price; a bill is lower only once nodes go.
  *used* is the same of what was used: nobody can reserve less without taking something away.
* **Services**: the first 2 days of a series are not counted (3 hours of one under a day). *throttled* is the time with
  more wanted than is reserved, had every container a CPU limit at its request; *unserved* is the CPU so missed, of what
  was used. *leaps* are the times that memory rose above its limit: by VPA's rule and at the peak size each is a kill.
  Those of elastipod are held and given more, as far as the guard may give (four times the limit) and the node has room.
* **Jobs**: every run with at least {ENOUGH_RUNS} earlier ones. It is looked at every {LOOP_SECONDS:.0f} s, and
  {IN_FORCE_SECONDS:.0f} s later the new memory is in force. Too little CPU stretches a run; a run that is killed begins
  anew with a fifth more, at least 100 MiB, and what it had reserved till then is counted; a hold lasts
  {HOLD_SECONDS:.0f} s here, longer than measured ones.
* **whole system, simulated**: recommender, updater, actuator and their defaults, in a cluster whose node, time and
  kernel are simulated; a CronJob's runs one after the other, each begun with the recommendation, as the webhook does.
  The real parts decide all: who speaks, when a size is changed, when a run is held. *finish* is from a run being asked
  for on. Too little CPU does not slow a simulated run, whose life has at most {MOST_STEPS} steps.
* Not played: nodes that are full. Room for a raise is taken to be there, and nothing is said of which nodes would go.
"""


def page(facts: dict[str, Any]) -> str:
    """The whole page."""
    services, jobs, left_out = facts["services"], facts["jobs"], facts["left_out"]
    parts = [INTRODUCTION, _claim(services, jobs), METHOD, _services(services), _jobs(jobs)]
    if left_out:
        parts.append(f"Not played, as the folder does not hold them: {', '.join(left_out)}.\n")
    return "\n".join(parts)


def _claim(services: Rows, jobs: Rows) -> str:
    lines, best = [], {}
    for name, costs, unserved in _groups(services, jobs):
        peak = costs["peak"]
        less = {one: 1 - costs[one] / peak for one in (*SYSTEMS, "used")}
        shown = [f"{_less(less[one])} ({_less(1 - (1 - less[one]) / (1 + MARGIN))})" for one in SYSTEMS[1:]]
        # What the whole system does counts where it was simulated.
        simulated = costs.get("simulated")
        reached_here = 1 - simulated / peak if simulated else max(less["elastipod"], less["elastipod+"])
        best[name] = reached_here, less["used"], unserved
        told = "" if unserved is None else _percent(unserved, 2)
        whole = _less(reached_here) if simulated else ""
        lines.append([name, f"{peak:,.2f}", *shown, whole, _less(less["used"]), told])
    head = ["", f"peak size, {ON_DEMAND.currency}", *(NAMES[one] for one in (*SYSTEMS[1:], "simulated")), "used",
            "CPU unserved"]  # fmt: skip
    reached = [name for name, (less, _, _) in best.items() if less >= LEAST]
    harmful = [name for name in reached if (best[name][2] or 0.0) > MOST_UNSERVED]
    margin = [name for name, (less, _, _) in best.items() if less < LEAST <= 1 - (1 - less) / (1 + MARGIN)]
    missed = [name for name in best if name not in (*reached, *margin)]
    beyond = [name for name in missed if best[name][1] < LEAST]
    return (
        "## The claim\n\nHow much less all that was reserved costs than at the peak size, and in brackets: than at the "
        f"peak size with a margin of {_percent(MARGIN)}. *CPU unserved* is elastipod's, had each container a limit at "
        "its request.\n\n" + _table(head, lines) + f"\n* **{_percent(LEAST)} less is reached** on: {_named(reached)}.\n"
        f"* Of these, more than {_percent(MOST_UNSERVED)} of the CPU is missed, had it a limit at the request, on: "
        f"{_named(harmful)}. What is saved there is bursts, which take what neighbours leave.\n"
        f"* **Only against a peak with that margin** on: {_named(margin)}.\n"
        f"* **Not reached** on: {_named(missed)}.\n"
        f"* There it could not be, since less than {_percent(LEAST)} of the peak size was unused: {_named(beyond)}.\n"
    )


def _groups(services: Rows, jobs: Rows) -> Iterable[tuple[str, dict[str, float], float | None]]:
    """What was compared: its money by system and of what was used, and the share of CPU that elastipod missed."""
    for source in dict.fromkeys(one["source"] for one in services):
        those = [one for one in services if one["source"] == source and one["part"] == "scored"]
        resources = sorted({one["resource"] for one in those})
        unserved = {one["resource"]: one.get("unserved") for one in those if one["system"] == "elastipod"}
        for resource in resources:
            own = [one for one in those if one["resource"] == resource]
            yield f"{source}, {resource}", _money(own), unserved[resource]
        if len(resources) > 1:
            yield f"{source}, together", _money(those), unserved.get("cpu")
    for part in ("scored", "all"):
        those = [one for one in jobs if part in ("all", one["part"])]
        for resource in ("cpu", "memory"):
            yield f"jobs ({part}), {resource}", _job_money(those, resource), None
        yield f"jobs ({part}), together", _job_money(those, "cpu", "memory"), None


def _job_money(jobs: Rows, *resources: str) -> dict[str, float]:
    named = {**{system: system for system in (*SYSTEMS, "simulated")}, "used": "unhindered"}
    return {
        column: sum(_cost(one, *resources) for one in jobs if one["system"] == system)
        for column, system in named.items()
    }


def _money(rows: Rows) -> dict[str, float]:
    """By system; a resource that a system sizes as the one before it does counts as there."""
    found = dict.fromkeys((*SYSTEMS, "used"), 0.0)
    for resource in dict.fromkeys(one["resource"] for one in rows):
        own = {one["system"]: one["money"] for one in rows if one["resource"] == resource}
        for system in SYSTEMS:
            found[system] += own.get(system, own["elastipod"] if "+" in system else 0.0)
        one = next(one for one in rows if one["resource"] == resource)
        found["used"] += one["money"] * one["used_hours"] / one["reserved_hours"]
    return found


def _cost(job: dict[str, Any], *resources: str) -> float:
    costs = {"cpu": job["core_hours"] * ON_DEMAND.core_hour, "memory": job["gib_hours"] * ON_DEMAND.gib_hour}
    return float(sum(costs[one] for one in resources or costs))


def _services(rows: Rows) -> str:
    parts = ["## Services\n"]
    for source in dict.fromkeys(one["source"] for one in rows):
        for resource in ("cpu", "memory"):
            those = [
                one for one in rows
                if (one["source"], one["resource"], one["part"]) == (source, resource, "scored")
            ]  # fmt: skip
            if those:
                parts.append(_service(source, resource, those))
    return "\n".join(parts)


def _service(source: str, resource: str, rows: Rows) -> str:
    is_cpu = resource == "cpu"
    hours = "core-hours" if is_cpu else "GiB-hours"
    harm = ["throttled, s a day", "unserved"] if is_cpu else ["leaps a day", "too large to hold"]
    peak = next(one for one in rows if one["system"] == "peak")
    lines = []
    for one in rows:
        told = (
            [f"{one['throttled_seconds_a_day']:,.0f}", _percent(one["unserved"], 2)]
            if is_cpu
            else [f"{one['leaps_a_day']:.3f}", f"{one['beyond_a_guard_a_day']:.3f}"]
        )
        less = _less(1 - one["reserved_hours"] / peak["reserved_hours"])
        lines.append(
            [NAMES[one["system"]], f"{one['reserved_hours']:,.0f}", f"{one['money']:,.2f}", less, *told,
             f"{one['resizes_a_day']:.1f}"]
        )  # fmt: skip
    return (
        f"### {source}, {resource}\n\n{peak['series']} series, {peak['days']:,.0f} days in all; "
        f"{peak['used_hours']:,.0f} {hours} were used.\n\n"
        + _table(["", hours, ON_DEMAND.currency, "less than peak", *harm, "resizes a day"], lines)
    )


def _jobs(rows: Rows) -> str:
    parts = [
        "## Jobs\n\nThe own jobs are real and short; the synthetic ones are made after published figures and last up "
        "to 7 hours. *unhindered* is what they used, and how long they took when they were recorded.\n"
    ]
    names = list(dict.fromkeys(one["job"] for one in rows))
    parts.append(_job("All jobs", list(rows), sum(_of(rows, name)[0]["runs"] for name in names)))
    for name in names:
        own = _of(rows, name)
        trace, _, job = name.partition("/")
        kind = "synthetic" if trace.startswith("synthetic") else "own"
        parts.append(_job(f"{job} ({kind}, {own[0]['part']} part)", own, own[0]["runs"]))
    return "\n".join(parts)


def _of(rows: Rows, job: str) -> list[dict[str, Any]]:
    return [one for one in rows if one["job"] == job]


def _job(title: str, rows: Rows, runs: int) -> str:
    sums = {
        system: {
            name: sum(one[name] or 0.0 for one in rows if one["system"] == system)
            for name in ("core_hours", "gib_hours", "kills", "holds", "resizes", "throttled_seconds", "finish_seconds")
        }
        for system in ("unhindered", *SYSTEMS, "elastipod+ 10 s", "simulated")
    }
    peak, unhindered = _cost(sums["peak"]), sums["unhindered"]["finish_seconds"]
    lines = [
        [
            NAMES.get(system, system),
            f"{one['core_hours']:,.3g}" if one["core_hours"] < 100 else f"{one['core_hours']:,.0f}",
            f"{one['gib_hours']:,.3g}" if one["gib_hours"] < 100 else f"{one['gib_hours']:,.0f}",
            f"{_cost(one):,.3g}" if _cost(one) < 1 else f"{_cost(one):,.2f}",
            _less(1 - _cost(one) / peak),
            f"{one['kills']:.0f}",
            f"{one['holds']:.0f}",
            "" if system == "simulated" else f"{one['throttled_seconds']:,.1f}",
            f"{one['resizes'] / runs:,.1f}",
            f"{100 * (one['finish_seconds'] / unhindered - 1):+.3f} %",
        ]
        for system, one in sums.items()
    ]
    head = ["", "core-hours", "GiB-hours", ON_DEMAND.currency, "less than peak", "OOM", "holds", "throttled, s",
            "resizes a run", "finish"]  # fmt: skip
    return f"### {title}: {runs} run{'' if runs == 1 else 's'}\n\n" + _table(head, lines)


def _less(share: float) -> str:
    return _percent(abs(share), 1) if share > -0.0005 else f"{_percent(-share, 1)} more"


def _percent(share: float, places: int = 0) -> str:
    return f"{100 * share:.{places}f} %"


def _named(names: Sequence[str]) -> str:
    return "; ".join(names) or "nothing"


def _table(head: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    return "\n".join(f"| {' | '.join(line)} |" for line in (head, ["---"] * len(head), *lines)) + "\n"
