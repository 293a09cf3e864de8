"""docs/quality.md: what `make quality` measured, as a page.

Owns the tables and the words; every figure comes from the run.
"""

from typing import Any

from recommender.estimators.admission import AdmissionRule
from recommender.estimators.candidates import CALM, NO_MORE_KILLS
from recommender.ranges import Resource
from recommender.replay import ours
from recommender.replay.comparing import RULES

CPU_SOURCES = ("Borg", "Azure", "Bitbrains", "NAB", "apps (1 min)", "K8s pods (1 min)")
MEMORY_SOURCES = ("Borg", "K8s pods (1 min)")
PLANNERS = {
    "vpa": "VPA: p90 of earlier peaks +15 %, for the whole run",
    "krr": "KRR: highest earlier peak +15 %, for the whole run",
    "reactive": "a quarter more than now",
    "envelope": "what earlier runs used at that age, a minute ahead, +10 %",
    "ours": "`runs`: growth after the nearest states of earlier runs",
    "own_peak": "who knows the run's own peak, for the whole run",
}
# What was measured on all series, those that are not published included, before this project had code.
BASELINE_MEMORY = {
    "vpa": ("0.27–0.30 @ 0.04–0.05", "0.35 @ 0.60"),
    "krr": ("0.27–0.31 @ 0.02–0.05", "0.34 @ 0.65"),
    "autopilot": ("0.27–0.31 @ 0.02", "0.34 @ 0.60"),
    "peak-24h": ("0.15–0.16 @ 0.12–0.15", "0.28 @ 0.81"),
    "oracle-24h": ("0.10–0.12 @ 0", "0.26 @ 0"),
}
BASELINE_CPU = {
    "vpa": (
        ".30 .0014 .010", ".56 .081 .063", ".39 .019 .028", ".40 .041 .024", ".47 .0001 .032", ".53 .106 .038",
    ),
    "krr": (
        ".21 .0058 .072", ".59 .050 .063", ".36 .022 .062", ".31 .022 .112", ".41 .0040 .088", ".52 .102 .034",
    ),
    "peak-1h": (
        ".15 .0015 .017", ".62 .086 .052", ".33 .014 .031", ".28 .016 .017", ".30 .0007 .009", ".70 .029 .012",
    ),
    "quantile-p95": (
        ".11 .0025 .043", ".42 .030 .055", ".24 .014 .046", ".21 .018 .042", ".12 .0015 .047", ".45 .057 .055",
    ),
    "quantile-p98": (
        ".14 .0012 .016", ".52 .013 .027", ".33 .008 .018", ".26 .012 .019", ".17 .0005 .020", ".58 .039 .020",
    ),
    "oracle-1h": (".11", ".57", ".27", ".22", ".26", ".66"),
}  # fmt: skip
BASELINE_JOBS = {
    "vpa": "1.00 @ 0.012–0.022",
    "krr": "1.02 @ 0–0.006",
    "reactive": "0.7 @ 1.2 (2-s loop)",
    "envelope": "0.63–0.75 @ 0–0.002",
    "ours": "0.27 @ 0.0025–0.006",
    "own_peak": "0.72 @ 0",
}
INTRODUCTION = """# The quality of recommendations

Written by `make quality`, which plays recorded usage through our estimators and other systems' rules. Nothing here is
edited by hand; the same traces give the same figures.

* **Traces**: Borg (Google 2011), Azure V1, Bitbrains, NAB, applications (Crane), Kubernetes pods (Nezha), genomics jobs
  (own and synthetic). They are not part of the project; another folder of Parquet files is played by
  `elastipod replay`.
* **Split**: a series is for tuning where the last byte of the SHA-1 of its name is even (of a job: of the job's name).
  The settings were chosen on that part; **the tables show the other part**, and the tuning part where it is said.
  Two limits of this: the settings of `runs` were chosen with all jobs in view, as ten jobs are too few to split, and
  after the first run of all rules the scored part had been seen, so later changes (a day's record before anything is
  admitted, price of a kill, margin of `peaks`) were decided on the tuning part alone, but not blindly.
* **One configuration for all sources** (below), floors off. Models learn from their own source while it is played, from
  what was seen before, and speak for what comes after.
* **Replay**: at a step the sample is seen, a size wanted, the update rule applied; it is in force from the next step.
  The first 2 days of a series are not scored (3 hours of one under a day). After a kill for memory everyone has
  a fifth more for an hour. Slack, unserved and over are means over series; kills are per day of all series.
* *slack*: reserved and not used, of what is reserved. *kills*: times that memory rose above the limit, a day.
  *unserved*: CPU above the request, of CPU used. *over*: share of time with CPU above the request.
"""


def page(facts: dict[str, Any]) -> str:
    """The whole page."""
    found = {(one["part"], one["resource"], one["source"], one["rule"]): one for one in facts["series"]}
    parts = [
        INTRODUCTION,
        _targets(found, facts),
        _memory(found),
        _cpu(found),
        _jobs(facts["jobs"]),
        _configuration(),
    ]
    return "\n".join(parts)


def _table(head: list[str], lines: list[list[str]]) -> str:
    return "\n".join(f"| {' | '.join(line)} |" for line in (head, ["---"] * len(head), *lines)) + "\n"


def _targets(found: dict[Any, Any], facts: dict[str, Any]) -> str:
    def memory(source: str, rule: str) -> dict[str, Any]:
        return dict(found["scored", "memory", source, rule])

    borg, pods = MEMORY_SOURCES
    a1, a3, a3_peaks = memory(borg, "auto"), memory(pods, "auto"), memory(pods, "peaks")
    a4 = [memory(source, "apart") for source in MEMORY_SOURCES]
    jobs = {(one["part"], one["kind"], one["rule"]): one for one in facts["jobs"]}
    known, vpa = jobs["scored", "known", "ours"], jobs["scored", "known", "vpa"]
    first, guess = jobs["scored", "first", "ours"], jobs["scored", "first", "twice_the_peak"]
    c1, c2 = known["waste"] / vpa["waste"], first["waste"] / guess["waste"]
    tick = facts["tick"]
    lines = [
        [
            "A1", "Borg memory, request = limit, kills ≤ 0.05 a day: slack ≤ 0.15",
            f"{a1['slack']:.3f} @ {a1['kills_a_day']:.3f} (VPA {_slack_kills(memory(borg, 'vpa'))})",
            _met(a1["slack"] <= 0.15 and a1["kills_a_day"] <= 0.05),
        ],
        [
            "A3", "K8s pods memory, kills ≤ 0.6 a day: slack ≤ 0.15",
            f"`peaks` {_slack_kills(a3_peaks)}; `auto` {_slack_kills(a3)} (VPA {_slack_kills(memory(pods, 'vpa'))})",
            _met(a3_peaks["slack"] <= 0.15 and a3_peaks["kills_a_day"] <= 0.6)
            + (", by `auto`" if a3["slack"] <= 0.15 and a3["kills_a_day"] <= 0.6 else ", not by `auto`"),
        ],
        [
            "A4", "request and limit apart, kills at the limit ≤ 0.02 a day: request slack ≤ 0.06",
            "; ".join(f"{source} {_slack_kills(one)}" for source, one in zip(MEMORY_SOURCES, a4, strict=True)),
            _met(all(one["slack"] <= 0.06 and one["kills_a_day"] <= 0.02 for one in a4)),
        ],
        _cpu_target(found, "B1", "tight", -0.45, counts_over=False),
        _cpu_target(found, "B2", "calm", -0.35, counts_over=True),
        [
            "C1", "jobs with ≥ 5 earlier runs: waste ≤ 0.20 of VPA's, kills ≤ 0.0025 a run",
            f"{c1:.3f}, {known['kills_a_run']:.4f} kills a run over {known['runs']} runs; "
            f"as a mean of runs {known['mean_waste'] / vpa['mean_waste']:.3f}",
            _met(c1 <= 0.2 and known["kills_a_run"] <= 0.0025),
        ],
        [
            "C2", "a job's first run: waste ≤ 1.0 of a static guess of twice its peak, kills ≤ 0.1 a run",
            f"{c2:.3f}, {first['kills_a_run']:.2f} kills a run over {first['runs']} runs",
            _met(c2 <= 1.0 and first["kills_a_run"] <= 0.1),
        ],
        [
            "D", "100,000 containers a tick: ≤ 1 s of one core, < 1 GB",
            f"samples {tick['samples']:.2f} s, a fifth of the rows looked at {tick['turn']:.2f} s, answers "
            f"{tick['answers']:.2f} s of CPU for both resources; {tick['rss_mib']} MiB with histograms",
            _met(tick["samples"] + tick["turn"] + tick["answers"] <= 1.0 and tick["rss_mib"] < 954),
        ],
    ]  # fmt: skip
    return (
        "## Targets, on the scored part\n\n"
        + _table(["", "target", "reached", ""], lines)
        + """
**A1**: of the kills of every rule with a small margin, most are leaps to 1.3 to 2.3 times the day's peak within one
5-minute step, out of a flat line (a second copy of a task that is counted for a moment, a scale-out). No feature of
the past was found to tell of them: a boosted classifier of such leaps, tried once, had 0.117 @ 0.200 where choosing by
each series' own record had 0.102 @ 0.167. What a replay can do is to know the workloads that leap, which is what
`auto` does. With the best fixed window and margin of each series, chosen in hindsight, all series have 0.107 @ 0.045.

**A3**: one price of a kill for all sources can not sit at 0.05 kills a day for Borg and at 0.6 for these pods: `auto`
spends slack to have fewer kills than are allowed here. The plain `peaks` estimator, which has one configuration too,
shows the other side.

**B1, B2**: the series of K8s pods are shorter than the day of record that admission wants, so the histogram keeps them
and they gain nothing; shorter records were tried on the tuning part, and left more unserved than VPA. On NAB and
Azure the quantiles themselves gain little where time over the request may not rise, which is what B2 asks.

**C1**: on the tuning part, where VPA wastes little because the jobs are steady, `runs` has more of VPA's waste; the
table below has all jobs together too.

**D**: all of the containers want the best estimator, of both resources. Measured on a machine with two cores that other
work ran on at the same time.
"""
    )


def _cpu_target(found: dict[Any, Any], name: str, rule: str, asked: float, *, counts_over: bool) -> list[str]:
    ours_, vpas = (
        [found["scored", "cpu", source, one] for source in CPU_SOURCES] for one in (rule, "vpa")
    )  # fmt: skip
    change = sum(one["slack"] for one in ours_) / sum(one["slack"] for one in vpas) - 1.0
    worse = [
        f"{source} ({kind} {mine[kind]:.4f} against {vpa[kind]:.4f})"
        for source, mine, vpa in zip(CPU_SOURCES, ours_, vpas, strict=True)
        for kind in (("unserved", "over") if counts_over else ("unserved",))
        if mine[kind] > vpa[kind]
    ]
    resizes = max(one["resizes_a_day"] for one in ours_)
    harm = "unserved and over ≤ VPA's on every source, ≤ 100 resizes a day" if counts_over else "unserved ≤ VPA's"
    mean, vpa_mean = (sum(one["slack"] for one in group) / len(CPU_SOURCES) for group in (ours_, vpas))
    return [
        name,
        f"CPU, {harm}: mean slack {asked:.0%}",
        f"{change:+.1%} ({mean:.3f} against {vpa_mean:.3f}); at most {resizes:.0f} resizes a day; "
        + (f"more harm than VPA: {', '.join(worse)}" if worse else "no more harm than VPA on any source"),
        _met(change <= asked and not worse and (resizes <= 100 or not counts_over)),
    ]


def _met(is_met: bool) -> str:
    return "met" if is_met else "not met"


def _slack_kills(one: dict[str, Any]) -> str:
    return f"{one['slack']:.3f} @ {one['kills_a_day']:.3f}"


def _memory(found: dict[Any, Any]) -> str:
    lines = []
    for rule, told in RULES[Resource.MEMORY].items():
        line = [f"`{rule}`: {told}"]
        for place, source in enumerate(MEMORY_SOURCES):
            line += [_slack_kills(found[part, "memory", source, rule]) for part in ("scored", "tuning")]
            line.append(BASELINE_MEMORY.get(rule, ("–", "–"))[place])
        lines.append(line)
    head = ["rule"]
    for source in MEMORY_SOURCES:
        head += [source, "tuning part", "baseline"]
    return (
        "## Memory: slack @ kills a day\n\n"
        + _table(head, lines)
        + """
The baseline was measured on all series; a third of them is not published. Borg's rows are reproduced: no slack is more
than 0.02 from the baseline's. The pods' are not: the published ones leave even who knows the next day 0.04 of slack,
where the baseline's left 0.26, so they are other, steadier series.
"""
    )


def _cpu(found: dict[Any, Any]) -> str:
    def figures(one: dict[str, Any]) -> str:
        return f"{one['slack']:.2f} {one['unserved']:.4f} {one['over']:.3f}"

    lines, before, resizes = [], [], []
    for rule, told in RULES[Resource.CPU].items():
        ones = [found["scored", "cpu", source, rule] for source in CPU_SOURCES]
        lines.append([f"`{rule}`: {told}", *map(figures, ones)])
        resizes.append([f"`{rule}`", *(f"{one['resizes_a_day']:.1f}" for one in ones)])
        if rule in BASELINE_CPU:
            before.append([f"`{rule}`", *BASELINE_CPU[rule]])
    head = ["rule", *CPU_SOURCES]
    count = ", ".join(f"{source} {found['scored', 'cpu', source, 'vpa']['series']}" for source in CPU_SOURCES)
    return (
        f"## CPU: slack, unserved, over\n\nSeries scored: {count}.\n\n"
        + _table(head, lines)
        + "\nResizes a day:\n\n"
        + _table(head, resizes)
        + "\nThe baseline, on all series (a third of them is not published):\n\n"
        + _table(head, before)
        + """
Slack is within 0.05 of the baseline on Borg and Bitbrains. On Azure it is lower by 0.05 to 0.2 for every rule, who
knows the next hour included, so these are other series; so are the 3 of NAB and the 4 applications. VPA's harm is the
measure of B1 and B2: it is replayed as upstream works in place (a tenth off is changed at once in a pod older than 12
hours), without a raise after an overshoot of CPU, which it has not. The baseline's VPA left less unserved on Borg,
Bitbrains, NAB and the applications than this one does; measured against those figures B1 would not hold there.
"""
    )


def _jobs(rows: list[dict[str, Any]]) -> str:
    found = {(one["part"], one["kind"], one["rule"]): one for one in rows}

    def against(part: str, rule: str) -> str:
        one, vpa = found[part, "known", rule], found[part, "known", "vpa"]
        return f"{one['waste'] / vpa['waste']:.2f} @ {one['kills_a_run']:.4f}"

    lines = [
        [told, *(against(part, rule) for part in ("scored", "tuning", "all")), BASELINE_JOBS[rule]]
        for rule, told in PLANNERS.items()
    ]
    return (
        "## Jobs: waste against VPA's @ kills a run\n\n"
        + _table(["rule", "scored part", "tuning part", "all jobs", "baseline"], lines)
        + """
Waste is summed over the runs of all jobs that have five earlier ones, a job is looked at every 10 s, and a size is in
force 2 s later; a killed attempt wastes half of its reservation. The reactive rule has 10 s here and had 2 s in the
baseline.
"""
    )


def _configuration() -> str:
    def told(name: str, rule: AdmissionRule) -> str:
        return f"* `{name}`: `{rule!r}`"

    return (
        "## The configuration\n\n"
        + "\n".join(
            [
                told("tight", ours.TIGHT),
                told("calm", CALM),
                told("auto", ours.MEMORY),
                told("calm, memory", NO_MORE_KILLS),
            ]
        )
        + "\n* Windows, margins and quantiles: `recommender/estimators/candidates.py`; `peaks`, `apart`:"
        + " `recommender/replay/ours.py`; `runs`: `recommender/estimators/runs.py`.\n"
        + """
Where an ElasticPolicy allows, the recommender lets `calm` speak, for CPU and for memory; where a limit is independent,
kills are not counted against a request. It looks at a container every five minutes (`recommender/speaking.py`).
`tight`, `auto` and `runs` are replayed only.
"""
    )
