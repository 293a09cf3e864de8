"""The bodies of `pods/resize`.

Owns their form: a strategic-merge patch of only the containers that change, bound to the pod's UID and to the version
it was derived from, so that it reaches no namesake and no newer spec.
"""

import msgspec

from elastipod.api import resource_list
from elastipod.fit import allocated
from elastipod.pods import Container, ContainerKind, Pod
from elastipod.quantities import Resources
from updater.sizes import Size, Sizes, size_of


def resize_body(pod: Pod, sizes: Sizes) -> bytes:
    """The patch that gives these containers of the pod these sizes."""
    lists: dict[str, list[dict[str, object]]] = {}
    for container in pod.containers:
        size = sizes.get(container.name)
        if size is None:
            continue
        place = "containers" if container.kind is ContainerKind.APP else "initContainers"
        lists.setdefault(place, []).append({"name": container.name, "resources": _requirements(size)})
    metadata = {"uid": pod.uid}
    if pod.resource_version:
        metadata["resourceVersion"] = pod.resource_version
    return msgspec.json.encode({"metadata": metadata, "spec": lists})


def allocated_sizes(pod: Pod) -> dict[str, Size]:
    """What the kubelet admitted, for the containers whose spec says otherwise: what a spec is put back to.

    No memory limit comes out below the one the container runs with.
    """
    sizes: dict[str, Size] = {}
    for container in pod.containers:
        size = _allocated_size(container)
        if size != size_of(container):
            sizes[container.name] = size
    return sizes


def is_in_force(pod: Pod, sizes: Sizes) -> bool:
    """Whether the containers run with these sizes, as far as the status tells; only what is set is compared.

    The node rounds: CPU to 10 ms or the kernel's floors, memory to pages (RESIZE 2.1).
    """
    return all(_runs_with(pod.container(name), size) for name, size in sizes.items())


def _runs_with(container: Container | None, size: Size) -> bool:
    if container is None or container.actual_requests is None or container.actual_limits is None:
        return False
    admitted = allocated(container)
    # The memory request is no cgroup's; the admitted one counts.
    return (
        _cpu_close(size.requests.cpu_millicores, container.actual_requests.cpu_millicores)
        and _memory_close(size.requests.memory_bytes, admitted.memory_bytes)
        and _cpu_close(size.limits.cpu_millicores, container.actual_limits.cpu_millicores)
        and _memory_close(size.limits.memory_bytes, container.actual_limits.memory_bytes)
    )


def _cpu_close(wanted: int | None, found: int | None) -> bool:
    return wanted is None or (found is not None and (abs(wanted - found) <= 10 or abs(wanted - found) * 100 <= wanted))


def _memory_close(wanted: int | None, found: int | None) -> bool:
    return wanted is None or (found is not None and abs(wanted - found) < 4096)


def _allocated_size(container: Container) -> Size:
    stated, admitted, actual = size_of(container), container.allocated, container.actual_limits
    if admitted is None or actual is None:
        return stated
    requests, limits = stated.requests, stated.limits
    cpu = _admitted(
        (requests.cpu_millicores, limits.cpu_millicores), admitted.cpu_millicores, actual.cpu_millicores, exact=False
    )
    memory = _admitted(
        (requests.memory_bytes, limits.memory_bytes), admitted.memory_bytes, actual.memory_bytes, exact=True
    )
    return Size(Resources(cpu[0], memory[0]), Resources(cpu[1], memory[1]))


def _admitted(
    stated: tuple[int | None, int | None], admitted: int | None, actual: int | None, *, exact: bool
) -> tuple[int | None, int | None]:
    """Request and limit of one resource as admitted; no key is dropped and none added, equal stays equal."""
    request, limit = stated
    is_equal = request == limit
    if request is not None and admitted is not None:
        request = admitted
    if limit is None:
        return request, None
    if is_equal:
        # A CPU limit is reported rounded; the admitted request tells it exactly.
        both = max(request or 0, actual or 0) if exact else request
        return both, both
    return request, max(limit if actual is None else actual, request or 0)


def _requirements(size: Size) -> dict[str, object]:
    parts = {"requests": resource_list(size.requests), "limits": resource_list(size.limits)}
    return {name: amounts for name, amounts in parts.items() if amounts}
