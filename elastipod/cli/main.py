"""The `elastipod` command.

Owns what becomes of an error: one line that says what to do, and an exit code. All else is imported once an
interrupt is heard.
"""

import sys


def run() -> None:
    """The entry point: exit code 0 done, 1 refused or failed, 2 wrong usage, 130 interrupted."""
    try:
        _run()
    except KeyboardInterrupt:
        sys.exit(130)


def _run() -> None:
    from elastipod.cli.output import shown
    from elastipod.cli.verbs import command
    from elastipod.kube.access import AccessError
    from elastipod.kube.errors import KubeError
    from elastipod.telemetry import configure_logging

    # Standard output is the answer's alone.
    configure_logging("warning", as_json=False)
    try:
        command()()
    except ModuleNotFoundError as error:
        needs = "elastipod[recommender,replay,local] has all that a verb may need"
        sys.stderr.write(f"error: {error.name} is not installed; {needs}\n")
        sys.exit(1)
    except (AccessError, KubeError) as error:
        sys.stderr.write(f"error: {shown(error)}\n")
        sys.exit(1)
