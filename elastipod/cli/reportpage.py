"""The report's HTML page, with the patches that can be copied from it.

Owns making them of what was told, and writing the page to a file.
"""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import typer

from elastipod.cli.output import shown
from elastipod.cli.patches import patch_of
from elastipod.cli.templates import Templates
from elastipod.pods import Workload
from recommender.ranges import Resource
from recommender.report.curves import Drawn
from recommender.report.page import page
from recommender.report.told import Paid, Savings, Told
from recommender.settings import RecommenderSettings


def write_page(savings: Savings, curves: Sequence[Drawn], templates: Templates, file: Path) -> None:
    """Write the HTML page. Ends the command where that can not be."""
    try:
        file.write_text(page_of(savings, curves, templates), "utf-8")
    except OSError as error:
        typer.echo(f"error: --file: {shown(file)} can not be written: {error.strerror}", err=True)
        raise typer.Exit(1) from None


def page_of(savings: Savings, curves: Sequence[Drawn] = (), templates: Templates | None = None) -> str:
    """The HTML page."""
    return page(savings, Patches(savings, templates).of, curves)


class Patches:
    """The manifest patches of workloads, made when they are wanted."""

    def __init__(self, savings: Savings, templates: Templates | None = None) -> None:
        self._templates = templates or {}
        self._accounts: dict[Workload, dict[str, list[Told]]] = {}
        for one in savings.accounts:
            self._accounts.setdefault(one.owner, {}).setdefault(one.container, []).append(one)

    def of(self, owner: Workload) -> str:
        """One workload's; nothing where there is nothing to gain."""
        rows = [_patch_row(those) for those in self._accounts[owner].values()]
        return patch_of(owner, rows, self._templates.get(owner))


def _patch_row(those: Sequence[Told]) -> dict[str, Any]:
    """One container as patches.py takes it: its pods are alike, so each has its share."""
    of = {one.resource: one for one in those}
    first = those[0]

    def by_resource(amount: Callable[[Told | None, int], int | None]) -> dict[str, int | None]:
        return {
            "cpu_millicores": amount(of.get(Resource.CPU), 1000),
            "memory_bytes": amount(of.get(Resource.MEMORY), 1),
        }

    days = max(one.confidence_days for one in those)
    return {
        "namespace": first.namespace,
        "workload": f"{first.workload_kind}/{first.workload}",
        "container": first.container,
        "is_sidecar": first.is_sidecar,
        "pod_target": by_resource(_whole),
        "confidence": "enough" if days >= RecommenderSettings().enough_confidence else "low",
        "reason": first.reason,
        "message": "",
        "requests": by_resource(partial(_share, "requested")),
        "limits": by_resource(_own_limit),
        "target": by_resource(partial(_share, "recommended")),
        "needed": by_resource(_needed),
    }


def _whole(one: Told | None, units: int) -> int | None:
    return None if one is None or one.pod_target is None else round(one.pod_target * units)


def _own_limit(one: Told | None, units: int) -> int | None:
    """A container's own limit; one that is as high as its pod's has nothing to change."""
    limit, most = _share("limit", one, units), None if one is None else one.pod_limit
    return None if limit is None or (most is not None and limit >= round(most * units)) else limit


def _needed(one: Told | None, units: int) -> int | None:
    """What each of its pods needs, whatever caps what is recommended."""
    if one is None or one.requested is None or one.change is None or not one.pods:
        return None
    return round((one.requested.amount + one.change.amount) * units / one.pods)


def _share(name: str, one: Told | None, units: int) -> int | None:
    paid: Paid | None = None if one is None else getattr(one, name)
    return None if one is None or paid is None or not one.pods else round(paid.amount * units / one.pods) or None
