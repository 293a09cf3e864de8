"""A replay as one HTML page with pictures.

Owns the page: it is whole in itself, asks the network for nothing, and runs no script. Names are escaped.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any, Final

import numpy as np

from recommender.histogram import Floats

_COLOURS: Final = ("#1f77b4", "#d62728", "#2ca02c", "#9467bd", "#ff7f0e", "#17becf", "#8c564b", "#e377c2", "#7f7f7f")
_WIDTH: Final = 860
_HEIGHT: Final = 260
_EDGE: Final = 46
_MOST_POINTS: Final = 800
_STYLE: Final = (
    "body{font:15px/1.45 system-ui,sans-serif;max-width:60em;margin:2em auto;padding:0 1em;color:#222}"
    "table{border-collapse:collapse;margin:1em 0}td,th{padding:.25em .8em;"
    "border-bottom:1px solid #ddd;text-align:right}"
    "td:first-child,th:first-child{text-align:left}svg{max-width:100%;height:auto}"
    ".key{display:inline-block;margin-right:1.2em}.key b{display:inline-block;width:1em;height:.3em;margin-right:.4em;"
    "vertical-align:middle}"
)


@dataclass(frozen=True, slots=True, eq=False)
class Picture:
    """One series: what was used, and what each rule had in force."""

    title: str
    step_seconds: float
    unit: str
    lines: Sequence[tuple[str, Floats]]


def page(title: str, tables: Iterable[tuple[str, Sequence[dict[str, Any]]]], pictures: Iterable[Picture]) -> str:
    """The page."""
    body = [f"<h1>{escape(title)}</h1>"]
    for heading, rows in tables:
        body += [f"<h2>{escape(heading)}</h2>", _trade_off(rows), _table(rows)]
    body += [_picture(one) for one in pictures]
    policy = "default-src 'none'; style-src 'unsafe-inline'"
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        f"<title>{escape(title)}</title><style>{_STYLE}</style></head><body>{''.join(body)}</body></html>\n"
    )


def _table(rows: Sequence[dict[str, Any]]) -> str:
    columns = list(rows[0]) if rows else []
    head = "".join(f"<th>{escape(name.replace('_', ' '))}</th>" for name in columns)
    lines = "".join(
        "<tr>" + "".join(f"<td>{escape(shown(row[name]))}</td>" for name in columns) + "</tr>" for row in rows
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{lines}</tbody></table>"


def shown(value: Any) -> str:
    """A figure as it is read: three digits that matter."""
    if not isinstance(value, float):
        return "" if value is None else str(value)
    if not np.isfinite(value):
        return "-"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def _trade_off(rows: Sequence[dict[str, Any]]) -> str:
    """Slack against harm, a dot per rule: nearer to the corner is better."""
    if not rows or "slack" not in rows[0]:
        return ""
    harm = "kills_a_day" if rows[0].get("resource") == "memory" else "unserved"
    told = [row for row in rows if row[harm] is not None and row["slack"] is not None]
    points = [(str(row["rule"]), float(row[harm]), float(row["slack"])) for row in told]
    if not points:
        return ""
    most_harm = max([x for _, x, _ in points] + [1e-9])
    most_slack = max([y for _, _, y in points] + [0.01])
    marks = []
    for number, (rule, x, y) in enumerate(points):
        left = _EDGE + (_WIDTH - 4 * _EDGE) * x / most_harm
        top = _HEIGHT - _EDGE - (_HEIGHT - 2 * _EDGE) * max(y, 0.0) / most_slack
        colour = _COLOURS[number % len(_COLOURS)]
        marks.append(
            f'<circle cx="{left:.1f}" cy="{top:.1f}" r="5" fill="{colour}"/>'
            f'<text x="{left + 8:.1f}" y="{top + 4:.1f}" font-size="12">{escape(rule)}</text>'
        )
    return _drawing(
        "".join(marks), across=f"{harm.replace('_', ' ')}, up to {most_harm:.3g}", up=f"slack, up to {most_slack:.2f}"
    )


def _picture(one: Picture) -> str:
    lengths = [len(values) for _, values in one.lines]
    highest = max((float(np.nanmax(values)) for _, values in one.lines if np.isfinite(values).any()), default=1.0)
    length = max(max(lengths, default=1), 2)
    drawn, keys = [], []
    for number, (name, values) in enumerate(one.lines):
        colour = _COLOURS[number % len(_COLOURS)]
        drawn.append(f'<path d="{_path(values, length, highest or 1.0)}" fill="none" stroke="{colour}"/>')
        keys.append(f'<span class="key"><b style="background:{colour}"></b>{escape(name)}</span>')
    days = length * one.step_seconds / 86_400
    picture = _drawing("".join(drawn), across=f"{days:.1f} days", up=f"{one.unit}, up to {highest:.3g}")
    return f"<h3>{escape(one.title)}</h3><p>{''.join(keys)}</p>{picture}"


def _path(values: Floats, length: int, highest: float) -> str:
    """A line that keeps every peak, and breaks where nothing was seen."""
    stride = max(1, -(-length // _MOST_POINTS))
    parts, is_down = [], False
    for place in range(0, len(values), stride):
        some = values[place : place + stride]
        some = some[np.isfinite(some)]
        if not len(some):
            is_down = False
            continue
        left = _EDGE + (_WIDTH - 2 * _EDGE) * place / length
        top = _HEIGHT - _EDGE - (_HEIGHT - 2 * _EDGE) * float(some.max()) / highest
        parts.append(f"{'L' if is_down else 'M'}{left:.1f} {top:.1f}")
        is_down = True
    return " ".join(parts)


def _drawing(inside: str, *, across: str, up: str) -> str:
    bottom, right = _HEIGHT - _EDGE, _WIDTH - _EDGE
    return (
        f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" width="{_WIDTH}" role="img">'
        f'<path d="M{_EDGE} {_EDGE}V{bottom}H{right}" fill="none" stroke="#999"/>{inside}'
        f'<text x="{right}" y="{_HEIGHT - 18}" font-size="12" text-anchor="end">{escape(across)}</text>'
        f'<text x="{_EDGE}" y="{_EDGE - 12}" font-size="12">{escape(up)}</text></svg>'
    )
