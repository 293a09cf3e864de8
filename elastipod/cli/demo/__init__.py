"""`elastipod demo`: the whole system on this machine, shown in five acts."""

from elastipod.cli.demo.command import demo

__all__ = ["demo"]
