"""`elastipod report`: what is reserved, used and recommended, what that is worth, and what a bill could lose.

Owns the verb: where the figures come from (the leading recommender, or a Prometheus), and in which form they go out.
The figures, their text and the page are the recommender's matter.
"""

import asyncio
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from elastipod.cli.options import (
    AllNamespacesOption,
    ContextOption,
    KubeconfigOption,
    Output,
    SelectorOption,
    connect,
)
from elastipod.cli.output import print_csv, print_facts, print_rows, shown
from elastipod.cli.parts import NoAnswerError, ask_savings, leading_recommender
from elastipod.cli.templates import Templates, read_templates

if TYPE_CHECKING:
    from elastipod.cli.surveying import Asked
    from recommender.prices import PriceTable
    from recommender.report.curves import Drawn
    from recommender.report.told import Savings

_COLUMNS: Final = (
    "namespace", "workload", "container", "resource", "pods", "requested", "used", "recommended", "direction", "change",
    "month", "days", "reason",
)  # fmt: skip
_WIDE: Final = ("used_now", "before", "allocated", "limit", "waste", "lacking", "applied")
_SPAN: Final = re.compile(r"([1-9][0-9]{0,3})([dw])")
_DAYS: Final = {"d": 1, "w": 7}
_MOST_DAYS: Final = 60
_CURVES: Final = 10


class Form(StrEnum):
    """How a report goes out."""

    HTML = "html"
    TABLE = "table"
    WIDE = "wide"
    CSV = "csv"
    JSON = "json"


def report(
    namespace: Annotated[
        str | None, typer.Option("--namespace", "-n", help="Only this namespace; all where not given.")
    ] = None,
    all_namespaces: AllNamespacesOption = False,
    selector: SelectorOption = "",
    output: Annotated[Form, typer.Option("--output", "-o", help="How to print it.")] = Form.TABLE,
    file: Annotated[Path | None, typer.Option(help="Write the HTML page to this file.")] = None,
    context: ContextOption = None,
    kubeconfig: KubeconfigOption = None,
    prometheus: Annotated[
        str,
        typer.Option(
            help="The address of a Prometheus with the cluster's usage: reports from it with nothing installed. With "
            "--context or --kubeconfig pods, sizes and nodes are the cluster's own. Credentials are settings of the "
            "recommender; so is the cluster meant of several, as ELASTIPOD_PROMETHEUS_MATCHERS='cluster=\"prod\"'."
        ),
    ] = "",
    since: Annotated[str, typer.Option(help="With --prometheus: how far back to look, as 2w; else 8d.")] = "",
    prices: Annotated[
        Path | None,
        typer.Option(
            help="With --prometheus: a CSV with prices of nodes. OpenCost's published defaults where not given."
        ),
    ] = None,
    currency: Annotated[str, typer.Option(help="With --prices: the currency of rows that name none, as EUR.")] = "",
    config: Annotated[
        str | None, typer.Option(help="With --prometheus: a YAML file with settings of the recommender.")
    ] = None,
) -> None:
    """Report what is reserved and not needed, what is reserved less than before, and what the bill could lose."""
    where = None if all_namespaces else namespace
    try:
        if prometheus:
            from elastipod.cli.surveying import Asked

            asked = Asked(prometheus, where, selector, config, kubeconfig, context, _days(since))
            found = _surveyed(asked, _prices(prices, currency))
        else:
            _refuse_without_prometheus(selector, since, prices, currency, config)
            found = _live(where, kubeconfig, context, with_templates=file is not None or output is Form.HTML)
    except ModuleNotFoundError as error:
        typer.echo(f"error: {error.name} is not installed; a report needs elastipod[recommender]", err=True)
        raise typer.Exit(1) from None
    _print(found, output, file)


@dataclass(frozen=True, slots=True)
class _Found:
    """What a report is made of."""

    savings: "Savings"
    curves: "Sequence[Drawn]"
    templates: Templates


def _refuse_without_prometheus(
    selector: str, since: str, prices: Path | None, currency: str, config: str | None
) -> None:
    if selector:
        raise typer.BadParameter("--selector: the recommender tells of workloads, not of pods; name a --namespace")
    if since:
        raise typer.BadParameter(
            "--since: the recommender has a window of its own, of up to two days; another needs --prometheus URL"
        )
    if prices is not None or currency:
        raise typer.BadParameter("--prices, --currency: the running recommender has prices among its own settings")
    if config is not None:
        raise typer.BadParameter("--config: the running recommender has settings of its own")


def _live(namespace: str | None, kubeconfig: str | None, context: str | None, *, with_templates: bool) -> _Found:
    from recommender.report.told import AnswerError, read_savings, with_notes, within

    async def read() -> tuple[bytes, Templates, list[str]]:
        async with connect(kubeconfig, context) as client:
            leader = await leading_recommender(client.connection)
            lacks = [f"The recommender is without what it wants: {leader.lacks}."] if leader.lacks else []
            answer = await ask_savings(client.connection, leader)
            if not with_templates:
                return answer, {}, lacks
            templates, unread = await read_templates(client.connection, namespace)
            return answer, templates, [*lacks, *unread]

    try:
        answer, templates, notes = asyncio.run(read())
        savings = read_savings(answer)
    except NoAnswerError as error:
        told = f"{error}; see `elastipod status`, or report from a Prometheus: --prometheus URL"
        typer.echo(f"error: {shown(told)}", err=True)
        raise typer.Exit(1) from None
    except AnswerError as error:
        told = f"the recommender's savings are not understood ({error}); it and this command must be of one version"
        typer.echo(f"error: {shown(told)}", err=True)
        raise typer.Exit(1) from None
    return _Found(with_notes(within(savings, namespace) if namespace else savings, notes), [], templates)


def _surveyed(asked: "Asked", prices: "PriceTable") -> _Found:
    from elastipod.cli.surveying import look
    from elastipod.pods import ContainerKey
    from recommender.prices import PriceError
    from recommender.report.curves import Drawn
    from recommender.report.figures import largest_first
    from recommender.report.surveyed import surveyed_savings
    from recommender.report.told import with_notes
    from recommender.report.window import Window

    window = Window()
    found = look(asked, window.see)
    try:
        savings = surveyed_savings(
            found.surveyed,
            found.advice,
            window,
            prices,
            found.at,
            nodes=found.nodes,
            is_protected=found.is_protected,
            knows_templates=asked.names_cluster,
        )
    except PriceError as error:
        raise typer.BadParameter(f"--prices: {error}") from None
    curves = []
    for one in largest_first(savings)[:_CURVES]:
        curve = window.curve(ContainerKey(one.owner, one.container), one.resource)
        if curve is not None:
            curves.append(Drawn(one, curve))
    return _Found(with_notes(savings, found.notes), curves, found.templates)


def _days(since: str) -> int | None:
    if not since:
        return None
    found = _SPAN.fullmatch(since)
    if found is None:
        raise typer.BadParameter(
            f"--since: {since[:40]!r} is no span that can be looked at; write whole days or weeks, as 8d or 2w"
        )
    days = int(found[1]) * _DAYS[found[2]]
    if days > _MOST_DAYS:
        raise typer.BadParameter(f"--since: {since} is more than {_MOST_DAYS} days, and so old usage tells nothing")
    return days


def _prices(path: Path | None, currency: str) -> "PriceTable":
    from recommender.prices import ON_DEMAND, PriceError, is_currency, load_prices

    if currency and not is_currency(currency):
        raise typer.BadParameter(f"--currency: {currency[:40]!r} is no currency; write its three letters, such as EUR")
    try:
        table = load_prices("" if path is None else str(path), currency or ON_DEMAND.currency)
    except PriceError as error:
        raise typer.BadParameter(f"--prices: {error}") from None
    if currency and table.currency != currency:
        raise typer.BadParameter(
            f"--currency: the prices are in {table.currency}, and nothing is converted; give a table in {currency}"
        )
    return table


def _print(found: _Found, output: Form, file: Path | None) -> None:
    from elastipod.cli.reportpage import page_of, write_page
    from recommender.report.figures import FLAT_COLUMNS, cells, flat, sum_lines

    savings = found.savings
    if file is not None:
        write_page(savings, found.curves, found.templates, file)
        typer.echo(f"wrote {file}", err=True)
    if output is Form.JSON:
        print_facts(facts(savings), Output.JSON)
    elif output is Form.CSV:
        print_csv([flat(one, savings.currency) for one in savings.accounts], FLAT_COLUMNS)
        for note in savings.notes:
            typer.echo(f"note: {shown(note)}", err=True)
    elif output is Form.HTML:
        if file is None:
            sys.stdout.write(page_of(savings, found.curves, found.templates))
    else:
        rows = [_as_row(cells(one, savings.currency)) for one in savings.accounts]
        print_rows(rows, _COLUMNS, Output(output), wide=_WIDE)
        typer.echo("")
        for line in sum_lines(savings):
            typer.echo(shown(line))


def facts(savings: "Savings") -> dict[str, Any]:
    """All of it as plain facts, each account with its change."""
    import msgspec

    found: dict[str, Any] = msgspec.to_builtins(savings)
    for facts_of_one, one in zip(found["accounts"], savings.accounts, strict=True):
        facts_of_one["change"] = msgspec.to_builtins(one.change)
    return found


def _as_row(row: Any) -> dict[str, Any]:
    import msgspec

    found: dict[str, Any] = msgspec.structs.asdict(row)
    return found
