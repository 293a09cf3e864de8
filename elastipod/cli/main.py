"""The `elastipod` command.

Owns the list of verbs and what becomes of an error: one line that says what to do, and an exit code.
"""

import sys
from typing import Annotated

import typer

from elastipod import __version__
from elastipod.cli.output import shown


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
    from elastipod.cli import demo, explain, local, recommend, resize, status

    app = typer.Typer(name="elastipod", no_args_is_help=True, pretty_exceptions_enable=False, add_completion=False)
    app.callback()(_main)
    for verb in (recommend.recommend, explain.explain, status.status, resize.resize, demo.demo):
        app.command()(verb)
    app.add_typer(local.app, name="local")
    return app


def run() -> None:
    """The entry point: exit code 0 done, 1 refused or failed, 2 wrong usage, 130 interrupted."""
    try:
        _run()
    except KeyboardInterrupt:
        sys.exit(130)


def _run() -> None:
    from elastipod.kube.access import AccessError
    from elastipod.kube.errors import KubeError
    from elastipod.telemetry import configure_logging

    # Standard output is the answer's alone.
    configure_logging("warning", as_json=False)
    try:
        command()()
    except (AccessError, KubeError) as error:
        sys.stderr.write(f"error: {shown(error)}\n")
        sys.exit(1)
