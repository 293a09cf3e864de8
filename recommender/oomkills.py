"""OOM kills from what pods show.

Owns which kill is which, so that one is taken once: through every state it is shown in, and over restarts of
ours, since the ids of counted kills are saved with the history.
"""

from elastipod.pods import Container, Pod, Termination, Workload
from recommender.samples import OomKill


def oom_kills(old: Pod | None, new: Pod, workload: Workload, now: float) -> list[OomKill]:
    """The kills that a pod's state tells of, oldest first. A kill that was told before is told again with its id.

    `old` is the state before, where it was seen: it holds the limit that was in force at the kill. What it did not show
    yet happened now, whatever the node's clock says; and nothing happened before the pod was made.
    """
    found: list[OomKill] = []
    known = _kill_ids(new if old is None or old.uid != new.uid else old)
    for container in new.sized_containers:
        before = old.container(container.name) if old is not None and old.uid == new.uid else None
        for ended in (container.last_termination, container.termination):
            if ended is None or not ended.is_oom_kill:
                continue
            in_force = _state_at(ended, before, container)
            limits = in_force.actual_limits or in_force.limits
            kill_id, at = _kill_id(new, container, ended), ended.finished_at
            is_told = at is not None and kill_id in known
            found.append(
                OomKill(
                    workload=workload,
                    container=container.name,
                    pod_uid=new.uid,
                    kill_id=kill_id,
                    at=min(max(at or 0.0, new.created_at), now) if is_told else now,
                    limit_bytes=limits.memory_bytes or container.limits.memory_bytes or 0,
                    request_bytes=(in_force.actual_requests or in_force.requests).memory,
                )
            )
    return found


def _state_at(ended: Termination, before: Container | None, after: Container) -> Container:
    """The container as it was when that run ended: the state in which the run was still going, where we saw it."""
    if before is None:
        return after
    was_running_it = before.is_running and (not ended.container_id or before.container_id == ended.container_id)
    return before if was_running_it else after


def _kill_id(pod: Pod, container: Container, ended: Termination) -> str:
    """A short name of the run that was killed. Runtimes' ids are long and the end tells them apart."""
    if ended.container_id:
        return ended.container_id[-16:]
    when = ended.started_at if ended.started_at is not None else ended.finished_at
    return f"{pod.uid[-12:]}/{container.name}@{container.restart_count if when is None else int(when)}"


def shows_new_kill(old: Pod | None, new: Pod) -> bool:
    """Whether a pod tells of a kill that its state before did not tell of."""
    return bool(_kill_ids(new) - (set() if old is None or old.uid != new.uid else _kill_ids(old)))


def _kill_ids(pod: Pod) -> set[str]:
    return {
        _kill_id(pod, container, ended)
        for container in pod.containers
        for ended in (container.termination, container.last_termination)
        if ended is not None and ended.is_oom_kill
    }
