"""All boards and rules as files: the one list that the chart, the command and the tests are made from."""

import json
from typing import Final

import yaml

from elastipod.dashboards.alerts import rule_file
from elastipod.dashboards.grafana import dashboard
from elastipod.dashboards.node import NODE
from elastipod.dashboards.operations import OPERATIONS
from elastipod.dashboards.rules import GROUPS
from elastipod.dashboards.savings import SAVINGS
from elastipod.dashboards.workload import WORKLOAD

BOARDS: Final = (SAVINGS, WORKLOAD, NODE, OPERATIONS)


def files() -> dict[str, str]:
    """Each file's text by its path: a dashboard for Grafana to import, or a rule file for Prometheus to load."""
    boards = {f"dashboards/{one.name}.json": json.dumps(dashboard(one), indent=2) + "\n" for one in BOARDS}
    rules = {
        f"rules/{one.component}.yaml": yaml.safe_dump(rule_file(one), sort_keys=False, width=120) for one in GROUPS
    }
    return boards | rules
