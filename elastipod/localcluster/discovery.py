"""stub."""

from elastipod.localcluster.requests import Request, Response


def answer_for(request: Request) -> Response | None:
    return None
