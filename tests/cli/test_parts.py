"""What people are told of a part that does not answer."""

import json

import pytest

from elastipod.cli.parts import NoAnswerError, RunningPart, ask_parts, ask_savings
from elastipod.kube.calls import Call, InterceptedConnection
from elastipod.kube.leadership import ADDRESS_ANNOTATION
from elastipod.kube.resources import LEASES

ADDRESS = "http://10.0.0.9:9100"


class Stuck(InterceptedConnection):
    """Knows where the recommender listens, and is asked in vain for more."""

    def __init__(self) -> None:
        super().__init__(self)

    async def handle(self, call: Call) -> bytes:
        if call.resource is not LEASES:
            raise TimeoutError
        meta = {"name": "elastipod-recommender", "annotations": {ADDRESS_ANNOTATION: ADDRESS}}
        return json.dumps({"metadata": {"resourceVersion": "1"}, "items": [{"metadata": meta}]}).encode()


async def test_a_part_that_is_silent_is_told_with_its_address_and_why() -> None:
    with pytest.raises(NoAnswerError, match=f"at {ADDRESS}: TimeoutError"):
        await ask_savings(Stuck())
    told = await ask_parts(Stuck(), [RunningPart("updater", "", ADDRESS, None)], "default/web")
    assert told == {"updater": {"error": f"the updater does not answer at {ADDRESS}: TimeoutError"}}
