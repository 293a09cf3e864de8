"""Curves of usage over a window, as drawings inside a page.

Owns the lines, their scale, and the words that say the same to whoever does not see them.
"""

from html import escape
from typing import Final

import numpy as np
from msgspec import Struct

from elastipod.clock import to_rfc3339
from recommender.report.figures import amount
from recommender.report.told import Told
from recommender.report.window import Curve

_WIDTH: Final = 860
_HEIGHT: Final = 220
_EDGE: Final = 14
_DAY: Final = 86_400.0


class Drawn(Struct, frozen=True):
    """One account and what its pods used together."""

    of: Told
    curve: Curve


def figure(drawn: Drawn) -> str:
    """What all pods used, with what they request and what is recommended as level lines."""
    one, curve = drawn.of, drawn.curve
    levels = [
        (name, words, paid.amount)
        for name, words, paid in (
            ("asked", "requested {} (dashes)", one.requested),
            ("wanted", "recommended {} (dots)", one.recommended),
        )
        if paid is not None
    ]
    highest = max([float(np.nanmax(curve.values)), *(value for _, _, value in levels)]) or 1.0

    def across(place: float) -> float:
        return _EDGE + (_WIDTH - 2 * _EDGE) * place / max(len(curve.values) - 1, 1)

    def up(value: float) -> float:
        return _HEIGHT - _EDGE - (_HEIGHT - 3 * _EDGE) * value / highest

    parts, is_down = [], False
    for place, value in enumerate(curve.values.tolist()):
        if np.isfinite(value):
            # A piece that is alone is a dot.
            end = "" if is_down else "h0"
            parts.append(f"{'L' if is_down else 'M'}{across(place):.0f} {up(value):.1f}{end}")
        is_down = bool(np.isfinite(value))
    lines = "".join(
        f'<path class="{name}" d="M{_EDGE} {up(value):.1f}H{_WIDTH - _EDGE}"/>' for name, _, value in levels
    )
    name = f"{one.namespace}/{one.workload_kind}/{one.workload}, {one.container}, {one.resource}"
    used = f"used {amount(one.resource, float(np.nanmean(curve.values)))} in the mean of all pods together"
    told = ", ".join((f"{used} (line)", *(words.format(amount(one.resource, value)) for _, words, value in levels)))
    days = len(curve.values) * curve.seconds / _DAY
    words = f"{told}; {days:.1f} days from {to_rfc3339(curve.start)}"
    return (
        f'<figure><svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{escape(f"{name}: {words}")}">'
        f'<path class="axis" d="M{_EDGE} {_EDGE}V{_HEIGHT - _EDGE}H{_WIDTH - _EDGE}"/>{lines}'
        f'<path class="used" d="{"".join(parts)}"/>'
        f'<text x="{_EDGE + 4}" y="{_EDGE}">{escape(amount(one.resource, highest))}</text></svg>'
        f"<figcaption><b>{escape(name)}</b>: {escape(words)}</figcaption></figure>"
    )
