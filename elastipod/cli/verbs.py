"""The verbs of the `elastipod` command.

Owns their list. What becomes of an error is main.py's matter.
"""

from typing import Annotated

import typer

from elastipod import __version__
from elastipod.cli import dashboards, demo, explain, local, recommend, replay, report, resize, status


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"elastipod {__version__}")
        raise typer.Exit


def _main(
    _version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="The version.")
    ] = False,
) -> None:
    """Gives running Kubernetes pods the CPU and memory they need, in place, without restarting them."""


def command() -> typer.Typer:
    """The command with all its verbs."""
    app = typer.Typer(name="elastipod", no_args_is_help=True, pretty_exceptions_enable=False, add_completion=False)
    app.callback()(_main)
    for verb in (
        recommend.recommend,
        explain.explain,
        status.status,
        resize.resize,
        report.report,
        replay.replay,
        dashboards.dashboards,
        demo.demo,
    ):
        app.command()(verb)
    app.add_typer(local.app, name="local")
    return app
