import os
from pathlib import Path

import pytest

from actuator.cgroup import CgroupWrite
from actuator.cgroupfs import BadGroup, CgroupFs, NoCgroups
from actuator.cgrouptree import CgroupTree
from actuator.kernelmemory import RECLAIMABLE_V1, RECLAIMABLE_V2, KernelMemory, amounts
from actuator.nodehands import NodeHands
from elastipod.localcluster.node.hands import CgroupHands, GroupLimits, GroupUsage
from tests.actuator.trees import GROUP, MIB, POD, target, v2_tree


def test_a_node_gets_its_hands(tmp_path: Path) -> None:
    hands: CgroupHands = NodeHands(v2_tree(tmp_path / "cg"))
    assert hands.enforcement == "cgroup v2"
    hands.apply(GROUP, GroupLimits(250, 500, 64 * MIB))
    assert hands.read(GROUP) == GroupLimits(250, 500, 64 * MIB)
    assert hands.usage(GROUP) == GroupUsage(2.5, MIB, MIB)
    assert hands.oom_kills(GROUP) == 2
    assert hands.children(POD) == ["c1"]
    assert hands.children("kubepods/none") == []
    assert hands.processes("kubepods/none") == []


@pytest.mark.parametrize(("parent", "kubepods"), [("", "kubepods"), ("", "kubepods.slice"), ("kubelet", "kubepods")])
def test_on_v2_the_part_that_holds_pods_is_enough(tmp_path: Path, parent: str, kubepods: str) -> None:
    group = f"{kubepods}/pod1/c1"
    mounted = v2_tree(tmp_path / "cg", f"{parent}/{group}".strip("/"))
    (mounted / "cgroup.controllers").unlink()
    (mounted / parent / kubepods / "cgroup.controllers").write_text("cpu memory pids\n")
    hands = NodeHands(mounted, parent)
    assert hands.enforcement == "cgroup v2"
    assert hands.memory_limit(group) == 100 * MIB


def test_on_v1_the_part_that_holds_pods_is_enough(tmp_path: Path) -> None:
    folder = tmp_path / "memory" / GROUP
    folder.mkdir(parents=True)
    (folder / "memory.limit_in_bytes").write_text(f"{64 * MIB}\n")
    hands = NodeHands(tmp_path)
    assert hands.enforcement == "cgroup v1"
    assert hands.memory_limit(GROUP) == 64 * MIB


def test_pressure_is_a_fraction_of_time(tmp_path: Path) -> None:
    assert NodeHands(v2_tree(tmp_path / "cg")).pressure(GROUP) == 0.125


@pytest.mark.parametrize(
    "group", ["", "/", "..", "../x", "kubepods/../..", "a//b", "a/\0", "a b", "é", "x" * 300, "a/."]
)
def test_no_name_leads_out_of_the_tree(tmp_path: Path, group: str) -> None:
    fs = CgroupTree(v2_tree(tmp_path / "cg"))
    with pytest.raises(BadGroup):
        fs.text(group, "memory.max")
    with pytest.raises(BadGroup):
        fs.create(group)


@pytest.mark.parametrize("file", ["", "../x", "a/b", ".", "..", ".hidden"])
def test_no_file_name_leads_out_of_its_group(tmp_path: Path, file: str) -> None:
    with pytest.raises(BadGroup):
        CgroupFs(v2_tree(tmp_path / "cg")).text(GROUP, file)


def test_a_planted_link_is_not_followed(tmp_path: Path) -> None:
    root = v2_tree(tmp_path / "cg")
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "memory.max").write_text("1\n")
    (root / POD / "link").symlink_to(outside)
    (root / GROUP / "memory.max").unlink()
    (root / GROUP / "memory.max").symlink_to(outside / "memory.max")
    fs = CgroupFs(root)
    with pytest.raises(OSError, match=r"Not a directory|symbolic"):
        fs.text(f"{POD}/link", "memory.max")
    with pytest.raises(OSError, match="symbolic"):
        fs.write(CgroupWrite(GROUP, "memory.max", "2"))
    assert (outside / "memory.max").read_text() == "1\n"
    assert fs.children(POD) == ["c1"]


def test_a_file_that_may_lack_is_passed_over_and_no_other(tmp_path: Path) -> None:
    fs = CgroupFs(v2_tree(tmp_path / "cg"))
    fs.write(CgroupWrite(GROUP, "memory.memsw.limit_in_bytes", "1", may_lack=True))
    with pytest.raises(FileNotFoundError):
        fs.write(CgroupWrite(GROUP, "memory.none", "1"))
    with pytest.raises(FileNotFoundError):
        fs.write(CgroupWrite("kubepods/gone", "memory.memsw.limit_in_bytes", "1", may_lack=True))


def test_a_machine_without_cgroups_is_told(tmp_path: Path) -> None:
    with pytest.raises(NoCgroups, match="neither cgroup v2 nor v1"):
        CgroupFs(tmp_path)


def test_where_memory_is_on_v1_a_hybrid_mount_counts_as_v1(tmp_path: Path) -> None:
    for folder in ("memory", "cpu,cpuacct", "unified"):
        (tmp_path / folder).mkdir()
    (tmp_path / "unified" / "cgroup.controllers").write_text("")
    fs = CgroupTree(tmp_path)
    assert fs.version == 1
    fs.create("kubepods")
    assert (tmp_path / "cpu,cpuacct" / "kubepods").is_dir()
    assert (tmp_path / "memory" / "kubepods").is_dir()
    assert not (tmp_path / "unified" / "kubepods").exists()


def test_two_clusters_do_not_meet(tmp_path: Path) -> None:
    root = v2_tree(tmp_path / "cg", "one/kubepods", "two/kubepods")
    CgroupFs(root, "one").write(CgroupWrite("kubepods", "memory.max", "4096"))
    assert CgroupFs(root, "two").number("kubepods", "memory.max") == 100 * MIB


def test_a_raise_goes_to_the_pod_and_never_lowers(tmp_path: Path) -> None:
    root = v2_tree(tmp_path / "cg")
    memory = KernelMemory(CgroupFs(root))
    memory.open(target())
    memory.raise_limit(GROUP, 150 * MIB)
    memory.raise_limit(GROUP, 120 * MIB)
    assert (root / GROUP / "memory.max").read_text().split()[0] == str(150 * MIB)
    assert (root / POD / "memory.max").read_text().split()[0] == str(150 * MIB)
    memory.close_all()


@pytest.mark.parametrize(("before", "after"), [(200, 250), (250, 250), (400, 400)])
def test_a_raise_takes_the_pod_to_the_sum_of_its_containers_and_no_further(
    tmp_path: Path, before: int, after: int
) -> None:
    root = v2_tree(tmp_path / "cg", GROUP, f"{POD}/c2", f"{POD}/sandbox")
    (root / POD / "sandbox/memory.max").write_text("max\n")
    (root / POD / "memory.max").write_text(f"{before * MIB}\n")
    memory = KernelMemory(CgroupFs(root))
    memory.open(target())
    memory.raise_limit(GROUP, 150 * MIB)
    assert (root / POD / "memory.max").read_text().split()[0] == str(after * MIB)
    memory.close_all()


def test_a_raise_counts_the_containers_that_came_beside_it_later(tmp_path: Path) -> None:
    root = v2_tree(tmp_path / "cg")
    memory = KernelMemory(CgroupFs(root))
    memory.open(target())
    v2_tree(root, f"{POD}/c2")
    assert memory.adopt(GROUP, memory.prepare(target())) is False
    memory.raise_limit(GROUP, 150 * MIB)
    assert (root / POD / "memory.max").read_text().split()[0] == str(250 * MIB)
    memory.close_all()


def test_a_container_that_is_gone_reads_as_nothing(tmp_path: Path) -> None:
    memory = KernelMemory(CgroupFs(v2_tree(tmp_path / "cg")))
    assert memory.reading(GROUP) is None
    assert memory.usage(GROUP) == 0
    with pytest.raises(FileNotFoundError):
        memory.open(target("kubepods/burstable/pod1/none"))
    assert len(os.listdir("/proc/self/fd")) < 1000


def test_a_file_that_holds_no_number_is_an_error_and_stops_no_sweep(tmp_path: Path) -> None:
    root = v2_tree(tmp_path / "cg")
    memory = KernelMemory(CgroupFs(root))
    memory.open(target())
    (root / GROUP / "memory.current").write_text("")
    (root / GROUP / "memory.max").write_text("nonsense\n")
    assert memory.usage(GROUP) == 0
    assert memory.bounds(GROUP) == (None, None)
    with pytest.raises(OSError, match="'nonsense' is no number"):
        memory.reading(GROUP)
    memory.close_all()


def test_what_can_be_reclaimed_is_file_pages_and_not_tmpfs() -> None:
    v1 = b"cache 99\nrss 5\ninactive_file 7\ntotal_inactive_file 30\ntotal_active_file 4\ntotal_unevictable 0\n"
    assert amounts(v1, RECLAIMABLE_V1) == 34
    v2 = b"anon 5\nfile 99\nshmem 60\ninactive_file 30\nactive_file 4\nslab_reclaimable 2\nslab_unreclaimable 9"
    assert amounts(v2, RECLAIMABLE_V2) == 36
    assert amounts(b"", RECLAIMABLE_V2) == 0


def test_huge_pages_are_told_near_a_mark(tmp_path: Path) -> None:
    root = v2_tree(tmp_path / "cg")
    memory = KernelMemory(CgroupFs(root))
    memory.open(target())
    (root / GROUP / "memory.stat").write_text("anon 90\nanon_thp 4194304\nfile_thp 0\n")
    (root / GROUP / "memory.max").write_text(f"{100 * MIB}\n")
    (root / GROUP / "memory.current").write_text(f"{80 * MIB}\n")
    near = memory.reading(GROUP)
    (root / GROUP / "memory.current").write_text(f"{10 * MIB}\n")
    far = memory.reading(GROUP)
    memory.close_all()
    assert near is not None
    assert far is not None
    assert (near.huge_bytes, far.huge_bytes) == (4 * MIB, 0)
