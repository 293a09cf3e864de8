"""`python -m elastipod.cli`: the command."""

from elastipod.cli.main import run

if __name__ == "__main__":
    run()
