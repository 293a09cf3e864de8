"""What the actuator says of a container to those who ask: whether it is protected, why not, and its last spike.

Owns the words of the answer, as JSON has them. Decides nothing.
"""

from typing import Any

import msgspec

from actuator.memory import Target
from actuator.protection import Guarded
from actuator.table import Standing
from elastipod.reasons import Reason


def explain_container(
    standing: Standing,
    guarded: Guarded | None,
    asking: dict[str, Any] | None,
    last_minute: dict[str, Any] | None,
    *,
    is_leased: bool,
) -> dict[str, Any]:
    """Facts about a container; `guarded` None where the watcher has not been handed it."""
    message = {"message": standing.message} if standing.message else {}
    if standing.target is None:
        reason = standing.reason or Reason.NOT_RUNNING
        return {"protected": False, "reason": reason.value, "why": reason.explanation} | message
    return (
        {"protected": guarded is not None and guarded.is_watched and is_leased}
        | _bounds(standing.target)
        | ({"lastMinute": last_minute} if last_minute is not None else {})
        | message
        | (_last(guarded) if guarded is not None else {})
        | ({"asking": asking} if asking is not None else {})
    )


def _bounds(target: Target) -> dict[str, Any]:
    return {
        "limitBytes": target.spec_bytes,
        "ceilingBytes": target.ceiling_bytes,
        "holdSeconds": target.deadline_seconds,
        "rescues": len(target.rescues),
    }


def _last(guarded: Guarded) -> dict[str, Any]:
    return {"last": {"at": guarded.told_at, **msgspec.to_builtins(guarded.told)}} if guarded.told is not None else {}
