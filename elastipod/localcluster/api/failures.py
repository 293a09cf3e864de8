"""What the API server refuses, in Kubernetes' own shape.

Owns the Status object, its reasons and its wording. Decides nothing.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec

REASONS: Final = {
    400: "BadRequest",
    401: "Unauthorized",
    403: "Forbidden",
    404: "NotFound",
    405: "MethodNotAllowed",
    406: "NotAcceptable",
    409: "Conflict",
    410: "Expired",
    413: "RequestEntityTooLarge",
    415: "UnsupportedMediaType",
    422: "Invalid",
    429: "TooManyRequests",
    500: "InternalError",
    504: "Timeout",
}


CREATED: Final = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}
"""The Status of what makes no object: an eviction, a binding."""


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing wrong with an object: where, what sort, and in words; renders as apimachinery's field.Error."""

    field: str
    kind: str
    detail: str
    value: Any = None

    @property
    def message(self) -> str:
        if self.kind == "FieldValueForbidden":
            return f"Forbidden: {self.detail}"
        if self.kind == "FieldValueRequired":
            return f"Required value: {self.detail}" if self.detail else "Required value"
        if self.kind in ("FieldValueTooLong", "FieldValueTooMany"):
            return f"{'Too long' if self.kind == 'FieldValueTooLong' else 'Too many'}: {self.detail}"
        label = {
            "FieldValueInvalid": "Invalid value",
            "FieldValueTypeInvalid": "Invalid value",
            "FieldValueNotSupported": "Unsupported value",
            "FieldValueDuplicate": "Duplicate value",
            "FieldValueNotFound": "Not found",
        }[self.kind]
        shown = msgspec.json.encode(self.value).decode()
        shown = shown if len(shown) <= 200 else shown[:200] + "..."
        return f"{label}: {shown}: {self.detail}" if self.detail else f"{label}: {shown}"


def forbidden_field(field: str, detail: str) -> Problem:
    """What may not be said here."""
    return Problem(field, "FieldValueForbidden", detail)


def required(field: str, detail: str = "") -> Problem:
    """What must be said here."""
    return Problem(field, "FieldValueRequired", detail)


def invalid_value(field: str, value: Any, detail: str) -> Problem:
    """A value that is wrong."""
    return Problem(field, "FieldValueInvalid", detail, value)


def duplicate(field: str, value: Any) -> Problem:
    """A value that is there already."""
    return Problem(field, "FieldValueDuplicate", "", value)


def too_long(field: str, most_bytes: int) -> Problem:
    """More than may be kept."""
    return Problem(field, "FieldValueTooLong", f"may not be more than {most_bytes} bytes")


def not_supported(field: str, value: Any, supported: Sequence[str]) -> Problem:
    """A value that is none of the choices."""
    names = ", ".join(f'"{one}"' for one in supported)
    return Problem(field, "FieldValueNotSupported", f"supported values: {names}", value)


class ApiFailure(Exception):
    """An answer that is no success."""

    def __init__(
        self,
        code: int,
        message: str,
        *,
        reason: str | None = None,
        details: dict[str, Any] | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.reason = REASONS.get(code, "") if reason is None else reason
        self.details = details

    def status(self) -> dict[str, Any]:
        """The Status object."""
        status: dict[str, Any] = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.message,
        }
        if self.reason:
            status["reason"] = self.reason
        if self.details:
            status["details"] = self.details
        status["code"] = self.code
        return status


def success(details: dict[str, Any]) -> dict[str, Any]:
    """The Status of a deletion that is done."""
    return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details}


def bad_request(message: str) -> ApiFailure:
    """400: the request itself is wrong."""
    return ApiFailure(400, message)


def unnamed(message: str) -> ApiFailure:
    """500 without a reason: what Kubernetes says of some requests that are plainly wrong."""
    return ApiFailure(500, message, reason="")


def not_found(qualified: str, name: str) -> ApiFailure:
    """404: no such object."""
    return ApiFailure(404, f'{qualified} "{name}" not found', details=_details(qualified, name))


def no_such_path() -> ApiFailure:
    """404: nothing is served there."""
    return ApiFailure(404, "the server could not find the requested resource", details={})


def already_exists(qualified: str, name: str) -> ApiFailure:
    """409: the name is taken."""
    message = f'{qualified} "{name}" already exists'
    return ApiFailure(409, message, reason="AlreadyExists", details=_details(qualified, name))


def conflict(qualified: str, name: str, why: str = "") -> ApiFailure:
    """409: the object is not as the caller takes it to be."""
    why = why or "the object has been modified; please apply your changes to the latest version and try again"
    message = f'Operation cannot be fulfilled on {qualified} "{name}": {why}'
    return ApiFailure(409, message, details=_details(qualified, name))


def forbidden(qualified: str, name: str, why: str, causes: Sequence[dict[str, str]] = ()) -> ApiFailure:
    """403: valid, and not allowed."""
    details = _details(qualified, name)
    if causes:
        details["causes"] = list(causes)
    return ApiFailure(403, f'{qualified} "{name}" is forbidden: {why}', details=details)


def invalid(kind: str, group: str, name: str, problems: Sequence[Problem]) -> ApiFailure:
    """422: the object is wrong, with a cause for each field."""
    name = name[:1000]
    shown = [f"{one.field}: {one.message}" for one in problems]
    rendered = shown[0] if len(shown) == 1 else f"[{', '.join(shown)}]"
    qualified = f"{kind}.{group}" if group else kind
    details: dict[str, Any] = {"name": name} if name else {}
    details |= {"group": group} if group else {}
    details |= {"kind": kind} if kind else {}
    details["causes"] = [{"reason": one.kind, "message": one.message, "field": one.field} for one in problems]
    return ApiFailure(422, f'{qualified} "{name}" is invalid: {rendered}', details=details)


def expired(message: str) -> ApiFailure:
    """410: the version asked for is no longer known."""
    return ApiFailure(410, message)


def not_acceptable(accept: str) -> ApiFailure:
    """406: the answer can not be had in this form."""
    return ApiFailure(406, f"406: Not Acceptable: {accept[:80]!r} is not to be had, application/json is")


def unsupported_media_type(accepted: Sequence[str], why: str = "") -> ApiFailure:
    """415: a body of this type is not taken."""
    message = f"the body of the request was in an unknown format - accepted media types include: {', '.join(accepted)}"
    return ApiFailure(415, f"{why}; {message}" if why else message)


def method_not_allowed(why: str = "") -> ApiFailure:
    """405: not this verb here."""
    return ApiFailure(405, why or "the server does not allow this method on the requested resource")


def too_many_requests(message: str, retry_after_seconds: int, causes: Sequence[dict[str, str]] = ()) -> ApiFailure:
    """429: not now."""
    details: dict[str, Any] = {}
    if causes:
        details["causes"] = list(causes)
    if retry_after_seconds:
        details["retryAfterSeconds"] = retry_after_seconds
    return ApiFailure(429, message, details=details)


def wrong_options(kind: str, problem: Problem) -> ApiFailure:
    """422: an option of the request itself (`CreateOptions`, `ListOptions`, ...) is wrong."""
    return invalid(kind, "meta.k8s.io", "", [problem])


def _details(qualified: str, name: str) -> dict[str, Any]:
    plural, _, group = qualified.partition(".")
    details: dict[str, Any] = {"name": name}
    if group:
        details["group"] = group
    details["kind"] = plural
    return details
