"""Which node takes a pod, as pods come, change and go."""

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from elastipod.fit import node_room
from elastipod.localcluster.room import Room
from elastipod.pods import Container, Node, Pod
from elastipod.quantities import Resources

NODES = ("a", "b", "c")


def node(name: str, cpu: int = 1000) -> Node:
    return Node(name, allocatable=Resources(cpu, 2**30), allocatable_pods=10, is_ready=True)


def pod(name: str, on: str = "", cpu: int = 100) -> Pod:
    container = Container("app", requests=Resources(cpu))
    return Pod("default", name, f"uid-{name}", node_name=on, containers=(container,))


def room_with(*nodes: Node) -> Room:
    room = Room()
    for one in nodes:
        room.put_node(one.name, one)
    return room


def test_a_placed_pod_counts_at_once_and_the_emptiest_node_is_next() -> None:
    room = room_with(node("a"), node("b"))
    assert [room.place(pod(str(number), cpu=400)) for number in range(5)] == ["a", "b", "a", "b", None]
    assert room.explain(pod("4", cpu=400)) == "0/2 nodes are available: 2 Insufficient cpu."


def test_a_pod_that_is_placed_again_gives_back_its_first_place() -> None:
    room = room_with(node("a"))
    assert [room.place(pod("web", cpu=600)) for _ in range(3)] == ["a", "a", "a"]


def test_a_node_that_is_gone_takes_nothing() -> None:
    room = room_with(node("a"))
    room.put_node("a", None)
    assert room.place(pod("web")) is None
    assert room.explain(pod("web")) == "no nodes available to schedule pods"


@given(st.lists(st.tuples(st.integers(0, 5), st.sampled_from(("", *NODES)), st.integers(1, 900), st.booleans())))
def test_what_is_free_is_what_the_pods_that_are_there_now_leave(events: list[tuple[int, str, int, bool]]) -> None:
    nodes, pods, room = [node(name) for name in NODES], dict[str, Pod](), room_with(*map(node, NODES))
    for number, on, cpu, is_over in events:
        seen = replace(pod(str(number), on, cpu), phase="Succeeded" if is_over else "Running")
        pods[seen.uid] = seen
        room.count(seen)
        fresh = pod("new", cpu=100)
        free = {one.name: node_room(one, pods.values()).free_for_scheduler.cpu for one in nodes}
        best = max(NODES, key=lambda name: (free[name], -ord(name)))
        assert room.place(fresh) == (best if free[best] >= 100 else None)
        room.leave_out(fresh.uid)
