"""Savings as JSON tells them: what the leading recommender answers, and what `elastipod report -o json` prints.

Owns that shape, and strict reading of it. What the numbers mean is savings.py's matter.
"""

from collections.abc import Iterable, Sequence
from typing import Final

import msgspec
from msgspec import Struct

from elastipod.pods import Workload
from recommender.ranges import Resource
from recommender.realisable import Realisable
from recommender.savings import Account, Direction
from recommender.sums import Cost, difference, sum_of, used_sum

NUMBERS: Final = (
    "before", "requested", "allocated", "limit", "used", "recommended", "waste", "lacking", "applied",
)  # fmt: skip
"""What is told of each container and resource, in cores or bytes and in money."""


class AnswerError(ValueError):
    """An answer that is not of this shape; the message names the field."""


class Paid(Struct, rename="camel", frozen=True, gc=False):
    """Cores or bytes, and money for an hour of them."""

    amount: float
    per_hour: float


NO_COST: Final = Paid(0.0, 0.0)


class Over(Struct, rename="camel", frozen=True, gc=False):
    """What one container used over the window, in cores or bytes."""

    mean: float
    p95: float
    peak: float
    seconds: float
    """Of so much of the window something is known."""


class Told(Struct, rename="camel", frozen=True):
    """One resource of one container of a workload, over all its pods."""

    namespace: str
    workload_kind: str
    workload: str
    container: str
    resource: Resource
    pods: int
    direction: Direction
    confidence_days: float
    reason: str
    before: Paid | None = None
    requested: Paid | None = None
    allocated: Paid | None = None
    limit: Paid | None = None
    used: Paid | None = None
    recommended: Paid | None = None
    waste: Paid | None = None
    lacking: Paid | None = None
    applied: Paid | None = None
    usage: Over | None = None
    is_sidecar: bool | None = False
    """Whether it is a native sidecar, which stands among the init containers; None where that is not known."""
    pod_target: float | None = None
    """What a pod of it that requests this resource as a whole would request so, in cores or bytes, if its containers
    were as recommended; None where its pods do not."""
    pod_limit: float | None = None
    """What a pod of it may use at most as a whole; None where its pods do not say so."""

    @property
    def owner(self) -> Workload:
        return Workload(self.namespace, self.workload_kind, self.workload)

    @property
    def change(self) -> Paid | None:
        """From what is requested to what is needed; negative where it is less, None where nothing is known.

        A cap may hold what is recommended below that: it then saves nothing that is needed.
        """
        if self.recommended is None or self.lacking is None or self.waste is None:
            return None
        return _paid(difference(self.resource, self.lacking, self.waste))


class Sums(Struct, rename="camel", frozen=True):
    """The sums over accounts of one resource; None where there are some, and of none it is known."""

    requested: Paid | None
    used: Paid | None
    waste: Paid | None
    lacking: Paid | None
    applied: Paid | None


UNKNOWN_SUMS: Final = Sums(*(None,) * len(Sums.__struct_fields__))
NO_SUMS: Final = Sums(*(NO_COST,) * len(Sums.__struct_fields__))


class Spare(Struct, rename="camel", frozen=True):
    """Nodes that could be given back."""

    nodes: list[str]
    cores: float
    memory_bytes: float
    per_hour: float


class Savings(Struct, rename="camel", frozen=True):
    """All of it, at one instant; `at` is Unix seconds."""

    at: float
    currency: str
    prices: str
    """Where they come from, in words."""
    accounts: list[Told]
    totals: dict[Resource, Sums]
    realisable: Spare | None = None
    """None where it can not be known."""
    window_seconds: float = 0.0
    """How long usage was looked at; 0 where it is of the instant only."""
    notes: list[str] = []
    usage: str = ""
    """How it is counted over that time, in words."""
    left_out: int = 0
    """Containers that are in the totals and not listed, of any namespace, since there are more than are told of."""


def told(
    at: float,
    currency: str,
    prices: str,
    those: Sequence[Account],
    realisable: Realisable | None,
    *,
    window_seconds: float = 0.0,
    usage: str = "",
    notes: Iterable[str] = (),
    left_out: int = 0,
    totals: dict[Resource, Sums] | None = None,
) -> Savings:
    """What is to be told of accounts; `totals` where some are left out of those, and are in the sums."""
    accounts = [_told(one) for one in those]
    spare = None
    if realisable is not None:
        spare = Spare(list(realisable.nodes), realisable.cores, realisable.memory_bytes, realisable.per_hour)
    of_all = sums(accounts) if totals is None else totals
    noted = [*([_left_out_note(left_out)] if left_out else []), *notes]
    return Savings(at, currency, prices, accounts, of_all, spare, window_seconds, noted, usage, left_out)


def read_savings(answer: bytes) -> Savings:
    """What a recommender answered. Raises AnswerError."""
    try:
        return msgspec.json.decode(answer, type=Savings)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise AnswerError(str(error)) from None


def within(savings: Savings, namespace: str) -> Savings:
    """What concerns one namespace; nodes that could be given back are the whole cluster's, and not told.

    Of containers that are not listed nobody tells the namespace: then its sums are those of what is listed.
    """
    accounts = [one for one in savings.accounts if one.namespace == namespace]
    notes = [note for note in savings.notes if note != _left_out_note(savings.left_out)]
    if savings.left_out:
        notes.append(
            f"Of namespace {namespace} {'not all may be' if accounts else 'nothing is'} told: the cluster "
            f"has {_more(savings.left_out)}, of any namespace, neither listed nor in these sums "
            "(most_accounted_containers, a setting of the recommender)."
        )
    elif not accounts:
        notes.append(f"Of namespace {namespace} nothing is told: no pod of it holds a reservation.")
    notes.append("Which nodes could be given back is told of the whole cluster only: leave --namespace out.")
    totals = sums(accounts) if accounts or not savings.left_out else dict.fromkeys(Resource, UNKNOWN_SUMS)
    return msgspec.structs.replace(savings, accounts=accounts, totals=totals, realisable=None, notes=notes)


def _left_out_note(number: int) -> str:
    return f"Not listed, but in the cluster's totals: {_more(number)}."


def _more(number: int) -> str:
    return f"{number:,} more container{'' if number == 1 else 's'}"


def with_notes(savings: Savings, notes: Sequence[str]) -> Savings:
    """The same, with what else is missing in it."""
    return msgspec.structs.replace(savings, notes=[*notes, *savings.notes])


def sums(accounts: Iterable[Told]) -> dict[Resource, Sums]:
    """The sums of each resource; no number contains another."""
    of: dict[Resource, list[Told]] = {resource: [] for resource in Resource}
    for one in accounts:
        of[one.resource].append(one)
    return {
        resource: Sums(
            *(_sum(resource, name, [getattr(one, name) for one in those]) for name in Sums.__struct_fields__)
        )
        for resource, those in of.items()
    }


def _sum(resource: Resource, name: str, those: Sequence[Paid | None]) -> Paid | None:
    known = [one for one in those if one is not None]
    if those and not known:
        return None
    return _paid(used_sum(known) if name == "used" else sum_of(resource, known))


def _told(account: Account) -> Told:
    workload, usage = account.key.workload, account.usage
    numbers = {name: getattr(account, name) for name in NUMBERS}
    return Told(
        workload.namespace,
        workload.kind,
        workload.name,
        account.key.container,
        account.resource,
        account.pods,
        account.direction,
        account.confidence_days,
        account.reason,
        **{name: None if cost is None else _paid(cost) for name, cost in numbers.items()},
        usage=None if usage is None else Over(usage.mean, usage.p95, usage.peak, usage.seconds),
        is_sidecar=account.is_sidecar,
        pod_target=account.pod_target,
        pod_limit=account.pod_limit,
    )


def _paid(cost: Cost) -> Paid:
    return Paid(cost.amount, cost.per_hour)
