"""Objects, versions and what is kept over a kill."""

import contextlib
import sqlite3
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from elastipod.localcluster.api.kinds import EVENT, POD
from elastipod.localcluster.api.store import Store, StoreFileError
from tests.build import pod_json
from tests.localcluster.served import MERGE, PODS, Served


def put(store: Store, name: str) -> None:
    pod = pod_json(name)
    pod["metadata"]["uid"] = name
    store.put(POD, pod)


def test_versions_rise_over_all_kinds_and_never_repeat() -> None:
    server = Served()
    first = int(server.post(PODS, pod_json("a"))["metadata"]["resourceVersion"])
    second = int(
        server.post("/api/v1/namespaces/default/configmaps", {"metadata": {"name": "b"}})["metadata"]["resourceVersion"]
    )
    gone = server.call("DELETE", f"{PODS}/a")[1]["metadata"]["resourceVersion"]
    assert first < second < int(gone)


def test_a_store_opened_again_has_every_object_and_goes_on_counting(tmp_path: Path) -> None:
    path = tmp_path / "cluster.sqlite"
    server = Served(path)
    server.put_pod(pod_json("kept", labels={"a": "b"}))
    server.put_pod(pod_json("gone"))
    server.call("DELETE", f"{PODS}/gone")
    version = server.store.version
    # Not closed: as after kill -9.
    again = Served(path)
    assert [one["metadata"]["name"] for one in again.get(PODS)["items"]] == ["kept"]
    assert again.get(f"{PODS}/kept") == server.get(f"{PODS}/kept")
    assert int(again.post(PODS, pod_json("new"))["metadata"]["resourceVersion"]) > version
    server.store.close()
    again.store.close()


_WRITER = """
import random, sys
from pathlib import Path
from elastipod.clock import SystemClock
from elastipod.localcluster.api.apiserver import ApiServer
from elastipod.localcluster.api.requests import Request
from elastipod.localcluster.api.store import Store
api = ApiServer(SystemClock(), Store(Path(sys.argv[1])), spread=random.Random(1))
for number in range(100_000):
    body = b'{"metadata":{"name":"c%d"}}' % number
    assert api.handle(Request("POST", "/api/v1/namespaces/default/configmaps", body=body)).code == 201
    print(number, flush=True)
"""


def test_what_was_answered_before_kill_9_is_there_after_it(tmp_path: Path) -> None:
    path = tmp_path / "cluster.sqlite"
    with subprocess.Popen([sys.executable, "-c", _WRITER, str(path)], stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout is not None
        for line in writer.stdout:
            if int(line) == 200:
                writer.kill()
        last = int(line)
    assert last >= 200
    again = Served(path)
    names = {one["metadata"]["name"] for one in again.get("/api/v1/namespaces/default/configmaps")["items"]}
    assert {f"c{number}" for number in range(last + 1)} <= names
    assert again.store.version >= 201
    again.store.close()


def test_changes_before_a_restart_cannot_be_replayed(tmp_path: Path) -> None:
    store = Store(tmp_path / "cluster.sqlite")
    put(store, "a")
    before = store.version - 1
    assert store.can_replay(before)
    store.close()
    again = Store(tmp_path / "cluster.sqlite")
    assert not again.can_replay(before)
    assert again.can_replay(again.version)
    again.close()


def test_measurements_are_not_kept_and_do_not_count(tmp_path: Path) -> None:
    server = Served(tmp_path / "cluster.sqlite")
    version = server.store.version
    metrics = "/apis/metrics.k8s.io/v1beta1/namespaces/default/pods"
    server.post(metrics, {"metadata": {"name": "a"}, "containers": []})
    assert [one["metadata"]["name"] for one in server.get(metrics)["items"]] == ["a"]
    assert server.store.version == version
    server.store.close()
    again = Served(tmp_path / "cluster.sqlite")
    assert again.get(metrics)["items"] == []
    again.store.close()


def test_a_write_that_the_disk_refuses_changes_nothing(tmp_path: Path) -> None:
    store = Store(tmp_path / "cluster.sqlite")
    put(store, "a")
    store.close()
    with pytest.raises(sqlite3.Error):
        put(store, "b")
    assert [one.name for one in store.of_kind(POD)] == ["a"]


def test_the_ring_forgets_the_oldest_changes() -> None:
    store = Store(remembered_changes=3)
    start = store.version
    for name in "abcd":
        put(store, name)
    assert not store.can_replay(start)
    assert store.can_replay(start + 1)
    assert [one.entry.name for one in store.changes_after(start + 1, POD)] == ["b", "c", "d"]
    assert list(store.changes_after(start + 1, EVENT)) == []


def test_owners_are_known_by_uid_and_forgotten_with_the_last() -> None:
    store = Store()
    pod = pod_json("a", owner={"apiVersion": "v1", "kind": "Pod", "name": "o", "uid": "u1"}, uid="a")
    entry = store.put(POD, pod)
    assert [one.name for one in store.owned_by("u1")] == ["a"]
    store.remove(entry)
    assert store.owned_by("u1") == []


def test_events_are_forgotten_after_an_hour() -> None:
    server = Served()
    events = "/api/v1/namespaces/default/events"
    server.post(events, {"metadata": {"name": "old"}, "involvedObject": {}})
    server.clock.advance(1800)
    server.post(events, {"metadata": {"name": "newer"}, "involvedObject": {}})
    server.clock.advance(1801)
    server.post(events, {"metadata": {"name": "newest"}, "involvedObject": {}})
    assert [one["metadata"]["name"] for one in server.get(events)["items"]] == ["newer", "newest"]


@pytest.mark.parametrize("spoil", ["rubbish", "kind", "object"])
def test_a_spoilt_file_is_refused_with_what_to_do(tmp_path: Path, spoil: str) -> None:
    path = tmp_path / "cluster.sqlite"
    if spoil == "rubbish":
        path.write_bytes(b"rubbish" * 1000)
    else:
        store = Store(path)
        put(store, "a")
        store.close()
        row = ("dragons", b"{}") if spoil == "kind" else ("pods", b"{")
        with contextlib.closing(sqlite3.connect(path)) as database, database:
            database.execute("UPDATE objects SET kind = ?, raw = ?", row)
    with pytest.raises(StoreFileError, match="remove it to begin anew"):
        Store(path)


def test_a_stored_object_is_never_changed() -> None:
    server = Served()
    server.post(PODS, pod_json("a"))
    entry = server.store.get(POD, "default", "a")
    assert entry is not None
    server.patch(f"{PODS}/a/status", {"status": {"phase": "Running"}}, MERGE)
    server.patch(f"{PODS}/a", {"metadata": {"labels": {"x": "y"}}}, MERGE)
    resize = {"spec": {"containers": [{"name": "app", "resources": {"requests": {"cpu": "1"}}}]}}
    server.patch(f"{PODS}/a/resize", resize)
    assert entry.json == msgspec.json.decode(entry.raw)
