"""Label selectors and node terms, as objects of the API state them.

Owns what they select. Rules: apimachinery's LabelSelectorAsSelector, and component-helpers' nodeaffinity for `Gt` and
`Lt`. An operator that is not known is taken to select: whoever asks is careful with what is selected.
"""

from collections.abc import Mapping

from msgspec import Struct


class Requirement(Struct, frozen=True, gc=False):
    """One of matchExpressions."""

    key: str = ""
    operator: str = ""
    values: tuple[str, ...] | None = None

    def holds(self, labels: Mapping[str, str]) -> bool:
        value, values = labels.get(self.key), self.values or ()
        match self.operator:
            case "In":
                return value in values
            case "NotIn":
                return value not in values
            case "Exists":
                return value is not None
            case "DoesNotExist":
                return value is None
            case "Gt" | "Lt":
                return _is_beyond(self.operator, value, values)
            case _:
                return True


class LabelSelector(Struct, frozen=True, gc=False, rename="camel"):
    """matchLabels and matchExpressions; an empty one selects all."""

    match_labels: dict[str, str] | None = None
    match_expressions: tuple[Requirement, ...] | None = None

    def selects(self, labels: Mapping[str, str]) -> bool:
        return all(labels.get(key) == value for key, value in (self.match_labels or {}).items()) and all(
            one.holds(labels) for one in self.match_expressions or ()
        )


def _is_beyond(operator: str, value: str | None, values: tuple[str, ...]) -> bool:
    try:
        is_above = int(value or "") - int(values[0] if len(values) == 1 else "")
    except ValueError:
        return False
    return is_above > 0 if operator == "Gt" else is_above < 0
