"""Expressions as Grafana asks them where all is chosen."""

from typing import Final

_CHOSEN: Final = {"$cluster": ".*", "$namespace": ".*", "$workload": ".*", "$node": ".*"}


def asked(expression: str, *, rate: str = "15s", **chosen: str) -> str:
    """With what was chosen in place of the variables."""
    for name, value in {**_CHOSEN, **{f"${name}": value for name, value in chosen.items()}}.items():
        expression = expression.replace(name, value)
    return expression.replace("$__rate_interval", rate)
