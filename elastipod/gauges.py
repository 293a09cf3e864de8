"""Gauges in Prometheus' text format (exposition 0.0.4).

Owns the form: escaping, heads, and how an amount is written, which is to the last digit. What is told is the caller's.
"""

from collections.abc import Iterable
from typing import Final, NamedTuple

_ESCAPES: Final = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})


class Gauge(NamedTuple):
    """A family's name, and what it is for people."""

    name: str
    what: str

    def text(self, series: Iterable[tuple[str, float]]) -> str:
        """The family with its series: labels as they are written, and amounts."""
        start = self.name + "{"
        return "\n".join((*self._head(), *(f"{start}{labels}}} {value!r}" for labels, value in series), ""))

    def only(self, value: float) -> str:
        """The family with one series, which has no label."""
        return "\n".join((*self._head(), f"{self.name} {value!r}", ""))

    def _head(self) -> tuple[str, str]:
        return f"# HELP {self.name} {self.what}", f"# TYPE {self.name} gauge"


def labels(**values: str) -> str:
    """Labels as they are written; a value that holds what would end it forges nothing."""
    return ",".join(f'{name}="{escaped(value)}"' for name, value in values.items())


def escaped(value: str) -> str:
    """A label's value as it is written."""
    return value.translate(_ESCAPES)
