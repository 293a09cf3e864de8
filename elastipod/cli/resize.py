"""`elastipod resize POD|KIND/NAME --cpu --memory`: a person's size, in place.

Owns the words of the command and the two things it writes: the statement (an annotation, which the updater honours and
keeps to) and the first request, so that it also works while no updater runs.
"""

import asyncio
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Final

import msgspec
import typer

from elastipod.api import RESOURCES_ANNOTATION, resource_list
from elastipod.cli.cluster import Picture, read_picture
from elastipod.cli.options import ContextOption, KubeconfigOption, NamespaceOption, Output, OutputOption, connect
from elastipod.cli.output import print_rows
from elastipod.clock import Clock, SystemClock, to_rfc3339
from elastipod.fit import node_room
from elastipod.kube.connection import Connection, PatchType
from elastipod.kube.errors import Conflict, KubeError, NotFound
from elastipod.kube.listing import list_rows
from elastipod.kube.podrows import decode_pod
from elastipod.kube.resources import (
    DAEMON_SETS,
    DEPLOYMENTS,
    JOBS,
    LIMIT_RANGES,
    PODS,
    REPLICA_SETS,
    RESOURCE_QUOTAS,
    STATEFUL_SETS,
    ResourceType,
)
from elastipod.kube.rows import decode_limit_range, decode_quota
from elastipod.pods import Pod
from elastipod.quantities import NOTHING, QuantityError, Resources, parse_cpu, stated_memory
from elastipod.reasons import Reason
from updater.asking import Answer, Outlook, answer_for
from updater.attempt import Failed
from updater.events import show_size
from updater.patches import resize_body
from updater.precheck import growth
from updater.sender import what_it_means
from updater.sizes import ASKED_ANNOTATION, BadSize, Size, size_of, stated_sizes
from updater.usage import UsageBook

_KINDS: Final = {
    name: kind
    for kind in (DEPLOYMENTS, STATEFUL_SETS, DAEMON_SETS, JOBS, REPLICA_SETS, PODS)
    for name in (kind.plural, kind.kind.lower())
} | {"deploy": DEPLOYMENTS, "sts": STATEFUL_SETS, "ds": DAEMON_SETS, "rs": REPLICA_SETS, "po": PODS}
_NAME: Final = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?")
_LOOK_SECONDS: Final = 0.5
_OWN_STEP_SECONDS: Final = 35.0
"""How long a pod has to stand still before the command takes the next step itself: an updater would have by then."""
EXIT_CODES: Final = {Outlook.DONE: 0, Outlook.REFUSED: 1, Outlook.READY: 3, Outlook.WAITING: 3}


@dataclass(frozen=True, slots=True)
class Asked:
    """What a person asks for."""

    resource: ResourceType
    namespace: str
    name: str
    amounts: Resources
    container: str = ""
    dry_run: bool = False
    wait_seconds: float = 5.0


def resize(
    target: Annotated[str, typer.Argument(metavar="POD|KIND/NAME", help="A pod, or a workload as deployment/web.")],
    cpu: Annotated[str, typer.Option("--cpu", help="CPU to request, such as 500m or 2.")] = "",
    memory: Annotated[str, typer.Option("--memory", help="Memory to request, such as 512Mi or 2Gi.")] = "",
    container: Annotated[str, typer.Option("--container", "-c", help="Which container, where there are several.")] = "",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only tell what would become of it.")] = False,
    wait: Annotated[bool, typer.Option("--wait", help="Return when it is in force, or refused.")] = False,
    timeout: Annotated[float, typer.Option("--timeout", min=0, help="How many seconds --wait waits.")] = 600.0,
    namespace: NamespaceOption = None,
    output: OutputOption = Output.TABLE,
    context: ContextOption = None,
    kubeconfig: KubeconfigOption = None,
) -> None:
    """Give a running pod, or each pod of a workload, another size without a restart.

    Requests and limits move together as the QoS class demands. Exit code: 0 in force, 1 refused, 3 waiting.
    """
    amounts = Resources(_amount("--cpu", cpu, parse_cpu), _amount("--memory", memory, stated_memory))
    if amounts.is_empty:
        raise typer.BadParameter("say how much: --cpu, --memory or both")
    resource, name = _target(target)

    async def act() -> tuple[list[Answer], list[dict[str, Any]]]:
        async with connect(kubeconfig, context) as client:
            where = namespace or client.namespace
            seconds = timeout if wait else 5.0
            asked = Asked(resource, where, name, amounts, container, dry_run, seconds)
            resizing = Resizing(client.connection, SystemClock())
            answers = await resizing.run(asked)
            return answers, [row for one in answers for row in _rows(one, resizing.had.get(one.pod.key, one.pod))]

    try:
        answers, rows = asyncio.run(act())
    except BadSize as error:
        sys.stderr.write(f"error: {error}\n")
        raise typer.Exit(1) from None
    print_rows(rows, ("pod", "container", "has", "wants", "outcome", "why"), output)
    raise typer.Exit(exit_code(answers, dry_run=dry_run))


def exit_code(answers: list[Answer], *, dry_run: bool = False) -> int:
    """The worst of all: refused before waiting before done. What a dry run could ask for counts as done."""
    codes = [0 if dry_run and one.outlook is Outlook.READY else EXIT_CODES[one.outlook] for one in answers]
    return 1 if 1 in codes else max(codes, default=0)


class Resizing:
    """One run of the command."""

    def __init__(self, connection: Connection, clock: Clock) -> None:
        self._connection = connection
        self._clock = clock
        self._usage = UsageBook(connection, clock)
        self.had: dict[str, Pod] = {}
        """The pods as they were at first."""
        self._sent_at: dict[str, float] = {}
        self._refused: dict[str, tuple[Reason, str]] = {}

    async def run(self, asked: Asked) -> list[Answer]:
        """Ask, state and, for a while, look. Raises KubeError, BadSize."""
        answers = await self._judge(asked)
        if asked.dry_run:
            return answers
        if all(one.outlook is Outlook.REFUSED for one in answers):
            return answers
        await self._state(asked, answers)
        until = self._clock.monotonic() + asked.wait_seconds
        while True:
            for one in answers:
                await self._ask(one)
            await self._clock.sleep(_LOOK_SECONDS)
            answers = await self._judge(asked)
            settled = all(one.outlook in (Outlook.DONE, Outlook.REFUSED) for one in answers)
            if settled or self._clock.monotonic() >= until:
                return answers

    async def _judge(self, asked: Asked) -> list[Answer]:
        """What becomes of the request for each pod, by the cluster as it is now."""
        picture = await read_picture(self._connection, None)
        pods = _pods_of(asked, picture)
        if not pods:
            raise NotFound(
                404,
                "NotFound",
                f"{asked.resource.plural}/{asked.name} in namespace {asked.namespace}: "
                "no running pod is found; see: kubectl get pods",
            )
        ranges, quotas = await asyncio.gather(
            list_rows(self._connection, LIMIT_RANGES, decode_limit_range, namespace=asked.namespace),
            list_rows(self._connection, RESOURCE_QUOTAS, decode_quota, namespace=asked.namespace),
        )
        nodes = {node.name: node for node in picture.nodes}
        stated = {container: Size(asked.amounts) for container in {_container(asked, pod) for pod in pods}}
        await self._usage.refresh([pod.key for pod in pods])
        answers, granted = [], dict.fromkeys(nodes, NOTHING)
        for pod in pods:
            self.had.setdefault(pod.key, pod)
            node = nodes.get(pod.node_name)
            room = node_room(node, picture.pods, granted[node.name]) if node is not None else None
            answer = answer_for(pod, stated, node, room, ranges, quotas, self._usage.of(pod.key), self._clock.now())
            if answer.outlook is Outlook.READY:
                # What one pod is given is not there for the next.
                more, _ = growth(pod, answer.sizes)
                granted[pod.node_name] += Resources(max(more.cpu, 0), max(more.memory, 0))
            refused = self._refused.get(pod.key)
            if refused is not None and answer.outlook is not Outlook.DONE:
                answer = Answer(pod, Outlook.REFUSED, refused[0], refused[1], answer.goal, {})
            answers.append(answer)
        return answers

    async def _state(self, asked: Asked, answers: list[Answer]) -> None:
        """Write the size on what was named, beside what is stated there already."""
        raw = await self._connection.get(asked.resource, asked.namespace, asked.name)
        annotations = _annotations(raw)
        before = stated_sizes(annotations[RESOURCES_ANNOTATION]) if RESOURCES_ANNOTATION in annotations else {}
        sizes = dict(before)
        for container in {_container(asked, one.pod) for one in answers}:
            old, new = sizes.get(container, Size()), asked.amounts
            # A limit stated before might not go with what is asked for now; it follows by the same rule as any other.
            limits = Resources(
                old.limits.cpu_millicores if new.cpu_millicores is None else None,
                old.limits.memory_bytes if new.memory_bytes is None else None,
            )
            sizes[container] = Size(new.or_else(old.requests), limits)
        text = msgspec.json.encode({name: _json(size) for name, size in sizes.items()}).decode()
        stated = {RESOURCES_ANNOTATION: text, ASKED_ANNOTATION: to_rfc3339(self._clock.now())}
        body = msgspec.json.encode({"metadata": {"annotations": stated}})
        await self._connection.patch(asked.resource, asked.namespace, asked.name, body, patch_type=PatchType.MERGE)

    async def _ask(self, answer: Answer) -> None:
        """Send what can be sent, unless it was sent a short while ago."""
        pod, now = answer.pod, self._clock.monotonic()
        if answer.outlook is not Outlook.READY or now - self._sent_at.get(pod.key, float("-inf")) < _OWN_STEP_SECONDS:
            return
        try:
            # The statement may have changed the pod's version just now.
            newest = decode_pod(await self._connection.get(PODS, pod.namespace, pod.name))
            if newest.uid != pod.uid or newest.generation != pod.generation:
                return
            await self._connection.patch(
                PODS, pod.namespace, pod.name, resize_body(newest, answer.sizes), subresource="resize"
            )
            self._sent_at[pod.key] = now
        except Conflict:
            return
        except KubeError as error:
            meaning = what_it_means(pod, error)
            if isinstance(meaning, Failed):
                self._refused[pod.key] = (meaning.reason, meaning.message)


def _target(text: str) -> tuple[ResourceType, str]:
    kind, slash, name = text.partition("/")
    if not slash:
        kind, name = "pod", text
    resource = _KINDS.get(kind.lower())
    if resource is None:
        known = "pod, deployment, statefulset, daemonset, replicaset, job"
        raise typer.BadParameter(f"{kind[:60]!r} is not a kind that has pods; known are {known}")
    if _NAME.fullmatch(name) is None:
        raise typer.BadParameter(f"{name[:60]!r} is not the name of an object")
    return resource, name


def _amount(option: str, text: str, parse: Any) -> int | None:
    if not text:
        return None
    try:
        amount: int = parse(text)
    except QuantityError as error:
        raise typer.BadParameter(f"{option}: {error}") from None
    if amount <= 0:
        raise typer.BadParameter(f"{option} is {text}: it must be above 0")
    return amount


def _pods_of(asked: Asked, picture: Picture) -> list[Pod]:
    """The pods that are meant and have not ended: one, or all below a controller."""
    here = [pod for pod in picture.pods if pod.namespace == asked.namespace and not pod.is_terminal]
    if asked.resource is PODS:
        return [pod for pod in here if pod.name == asked.name]
    return [pod for pod in here if _is_owned_by(pod, asked, picture)]


def _is_owned_by(pod: Pod, asked: Asked, picture: Picture) -> bool:
    reference, levels = pod.owner, 0
    while reference is not None and levels < 8:
        if (reference.kind, reference.name) == (asked.resource.kind, asked.name):
            return True
        owned = picture.owners.get(reference.uid)
        reference, levels = (owned.owner if owned is not None else None), levels + 1
    return False


def _container(asked: Asked, pod: Pod) -> str:
    """The container that is meant. Raises BadSize."""
    names = [one.name for one in pod.sized_containers]
    if asked.container:
        if asked.container not in names:
            raise BadSize(f"--container {asked.container}: pod {pod.name} has {', '.join(names)}")
        return asked.container
    if len(names) != 1:
        raise BadSize(f"pod {pod.name} has several containers: say --container {' or '.join(names)}")
    return names[0]


class _Meta(msgspec.Struct):
    annotations: dict[str, str] | None = None


class _Annotated(msgspec.Struct):
    metadata: _Meta


def _annotations(raw: bytes) -> Mapping[str, str]:
    return msgspec.json.decode(raw, type=_Annotated).metadata.annotations or {}


def _json(size: Size) -> dict[str, Any]:
    parts = {"requests": resource_list(size.requests), "limits": resource_list(size.limits)}
    return {name: amounts for name, amounts in parts.items() if amounts}


def _rows(answer: Answer, had: Pod) -> list[dict[str, Any]]:
    rows = []
    for name, size in answer.goal.items():
        container = had.container(name)
        rows.append(
            {
                "pod": answer.pod.name,
                "container": name,
                "has": show_size(size_of(container)) if container is not None else "",
                "wants": show_size(size),
                "outcome": answer.outlook.value,
                "reason": answer.reason.value,
                "restarts": answer.restarts,
                "why": "; ".join(part for part in (answer.reason.explanation, answer.message) if part),
            }
        )
    return rows
