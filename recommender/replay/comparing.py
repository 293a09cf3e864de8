"""Rules side by side on the same recorded usage.

Owns the list of rules by name, and the rows that say how each did.
"""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from math import isfinite
from typing import Any, Final

from recommender.estimators.candidates import CALM, NO_MORE_KILLS
from recommender.estimators.peaks import DAY, HOUR
from recommender.estimators.quantile import QUANTILES
from recommender.prices import Prices
from recommender.ranges import Resource
from recommender.replay import ours, peers
from recommender.replay.playing import Played, UpdateRule, play
from recommender.replay.scoring import Scores, Summary, score
from recommender.replay.series import Panel

_GIB: Final = 1024.0**3
_QUANTILE_BAND: Final = 0.1


RULES: Final[dict[Resource, dict[str, str]]] = {
    Resource.CPU: {
        "vpa": "VPA: p90 of decaying use +15 %",
        "krr": "KRR: p95 of 14 days, once a day",
        "autopilot": "Autopilot's moving window: decaying p95 +15 %",
        "peak-1h": "peak of the last hour +5 %",
        "quantile-p95": "the fleet's quantile p95 of the next step",
        "quantile-p98": "the fleet's quantile p98 of the next step",
        "tight": "admitted: no more unserved than the histogram",
        "calm": "admitted: no more unserved, nor more often over",
        "oracle-1h": "who knows the next hour",
    },
    Resource.MEMORY: {
        "vpa": "VPA: p90 of daily peaks +15 %",
        "krr": "KRR: peak of 14 days +15 %, once a day",
        "autopilot": "Autopilot's moving window: peak +15 %",
        "peak-24h": "peak of the last day +5 %",
        "peaks": "peak of the last hour +2 %, restart guard",
        "auto": "admitted: peaks, a kill weighed against size",
        "calm": "admitted: peaks that kill no more than the histogram",
        "apart": "request apart from limit: last hour +2 %; last week +30 %",
        "oracle-24h": "who knows the next day",
    },
}
"""Every rule, in the order it is shown, and what it does."""


@dataclass(frozen=True, slots=True, eq=False)
class Outcome:
    """What one rule had in force, and its scores."""

    rule: str
    request: Played
    limit: Played | None
    scores: Scores


def outcomes(panel: Panel, resource: Resource, rules: Sequence[str]) -> Iterator[Outcome]:
    """The rules over a panel, one after the other."""
    played = _memory(panel, rules) if resource is Resource.MEMORY else _cpu(panel, rules)
    for rule, request, limit in played:
        yield Outcome(rule, request, limit, score(panel, request, limit))


def _memory(panel: Panel, rules: Sequence[str]) -> Iterator[tuple[str, Played, Played | None]]:
    histogram = peers.vpa(panel, is_memory=True)
    for rule in rules:
        match rule:
            case "vpa":
                yield rule, histogram, None
            case "peak-24h":
                yield rule, peers.recent_peak(panel, seconds=DAY, is_memory=True), None
            case "peaks":
                yield rule, ours.memory_guarded(panel), None
            case "auto":
                yield rule, ours.memory(panel, histogram), None
            case "calm":
                yield rule, ours.memory(panel, histogram, NO_MORE_KILLS), None
            case "apart":
                yield rule, *ours.memory_apart(panel)
            case "oracle-24h":
                yield rule, peers.oracle(panel, seconds=DAY), None
            case _:
                yield rule, peers.PEERS[rule](panel, is_memory=True), None


def _cpu(panel: Panel, rules: Sequence[str]) -> Iterator[tuple[str, Played, None]]:
    histogram = peers.vpa(panel, is_memory=False)
    learnt = ours.fleet_quantiles(panel) if {"tight", "calm", "quantile-p95", "quantile-p98"} & set(rules) else None
    for rule in rules:
        match rule:
            case "vpa":
                yield rule, histogram, None
            case "peak-1h":
                yield rule, peers.recent_peak(panel, seconds=HOUR, is_memory=False), None
            case "quantile-p95" | "quantile-p98" if learnt is not None:
                expected = learnt[QUANTILES.index(int(rule[-2:]) / 100)]
                yield rule, play(panel, expected, UpdateRule(band=_QUANTILE_BAND)), None
            case "tight" | "calm" if learnt is not None:
                yield rule, ours.cpu(panel, histogram, learnt, ours.TIGHT if rule == "tight" else CALM), None
            case "oracle-1h":
                yield rule, peers.oracle(panel, seconds=HOUR), None
            case _:
                yield rule, peers.PEERS[rule](panel, is_memory=False), None


def row(source: str, resource: Resource, rule: str, found: Summary, prices: Prices) -> dict[str, Any]:
    """One line of the comparison: cores or GiB times hours, and their price."""
    unit, price = (1.0, prices.core_hour) if resource is Resource.CPU else (_GIB, prices.gib_hour)
    facts = asdict(found)
    reserved, used = facts.pop("reserved_hours") / unit, facts.pop("used_hours") / unit
    if resource is Resource.CPU:
        facts["kills_a_day"] = None
    return {
        "source": source,
        "resource": str(resource),
        "rule": rule,
        **plain(facts),
        "reserved_hours": reserved,
        "used_hours": used,
        "money": reserved * price,
        "currency": prices.currency,
    }


def plain(facts: dict[str, Any]) -> dict[str, Any]:
    """Facts as JSON has them: where there was nothing to measure, there is no figure."""
    return {name: None if isinstance(value, float) and not isfinite(value) else value for name, value in facts.items()}
