"""The options every verb shares, named as kubectl names them, and the connection they lead to.

Owns their texts and the way from `--kubeconfig` and `--context` to a Connection.
"""

import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from enum import StrEnum
from typing import Annotated

import typer

from elastipod.kube.access import load_access
from elastipod.kube.http import HttpConnection


class Output(StrEnum):
    """How a result is printed."""

    TABLE = "table"
    WIDE = "wide"
    JSON = "json"
    YAML = "yaml"


NamespaceOption = Annotated[
    str | None, typer.Option("--namespace", "-n", help="The namespace; the context's own where not given.")
]
AllNamespacesOption = Annotated[bool, typer.Option("--all-namespaces", "-A", help="All namespaces.")]
SelectorOption = Annotated[str, typer.Option("--selector", "-l", help="Only pods with these labels.")]
ContextOption = Annotated[str | None, typer.Option("--context", help="The kubeconfig's context to use.")]
KubeconfigOption = Annotated[str | None, typer.Option("--kubeconfig", help="The kubeconfig file.")]
OutputOption = Annotated[Output, typer.Option("--output", "-o", help="How to print it.")]


class Client:
    """A connection and the namespace that is meant where none is named."""

    def __init__(self, connection: HttpConnection, namespace: str) -> None:
        self.connection = connection
        self.namespace = namespace


@asynccontextmanager
async def connect(kubeconfig: str | None, context: str | None) -> AsyncGenerator[Client, None]:
    """A client for as long as it is needed. Raises AccessError where there is no way to a cluster."""
    access = load_access(kubeconfig, context, os.environ)
    connection = HttpConnection(access)
    try:
        yield Client(connection, access.namespace or "default")
    finally:
        await connection.close()
