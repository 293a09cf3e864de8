from typing import Any

import pytest

from actuator.asking import refusal
from elastipod.kube.errors import Conflict, Forbidden, Invalid, ServerError, TooManyRequests, Unreachable
from elastipod.reasons import Reason


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (Forbidden(403, "Forbidden", 'pods "x" is forbidden: exceeded quota: q'), Reason.QUOTA_EXCEEDED),
        (Forbidden(403, "Forbidden", "maximum memory usage per Container is 1Gi"), Reason.LIMIT_RANGE),
        (Forbidden(403, "Forbidden", "no right"), Reason.FORBIDDEN),
        (Invalid(422, "Invalid", "no"), Reason.REFUSED),
        (Conflict(409, "Conflict", "Precondition failed: UID in precondition: a, in object: b"), Reason.POD_GONE),
        (Conflict(409, "Conflict", "the object has been modified"), None),
        (TooManyRequests(429, "TooManyRequests", "wait"), None),
        (ServerError(500, "InternalError", "x"), None),
        (Unreachable("x"), None),
    ],
)  # fmt: skip
def test_each_no_has_one_reason_and_what_may_pass_is_asked_again(error: Any, reason: Reason | None) -> None:
    assert refusal(error) == reason
