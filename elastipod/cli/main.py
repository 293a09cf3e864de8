"""The `elastipod` command.

Owns the list of verbs and what becomes of an error: one line that says what to do, and an exit code.
"""

import sys
from typing import Annotated

import typer

from elastipod import __version__

app = typer.Typer(
    name="elastipod",
    help="Gives running Kubernetes pods the CPU and memory they need, in place, without restarting them.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"elastipod {__version__}")
        raise typer.Exit


@app.callback()
def main(
    _version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="The version.")
    ] = False,
) -> None:
    """Gives running Kubernetes pods the CPU and memory they need, in place, without restarting them."""


def run() -> None:
    """The entry point: exit code 0 done, 1 refused or failed, 2 wrong usage, 130 interrupted."""
    from elastipod.cli import demo, explain, local, recommend, resize, status
    from elastipod.kube.access import AccessError
    from elastipod.kube.errors import KubeError

    app.command()(recommend.recommend)
    app.command()(explain.explain)
    app.command()(status.status)
    app.command()(resize.resize)
    app.command()(demo.demo)
    app.add_typer(local.app, name="local")
    try:
        app()
    except (AccessError, KubeError) as error:
        sys.stderr.write(f"error: {error}\n")
        sys.exit(1)
    except KeyboardInterrupt:
        sys.exit(130)
