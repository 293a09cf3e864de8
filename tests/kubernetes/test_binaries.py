"""Where a real cluster's programs come from."""

from pathlib import Path

import pytest

from tests.kubernetes.binaries import MODULES, Missing, build, find


def test_each_module_is_kept_by_its_version() -> None:
    for module in MODULES:
        assert module.version.startswith("v")
        assert module.kept.name == f"{module.name}-{module.version}"


def test_a_program_of_no_module_is_missing_and_says_what_to_do() -> None:
    with pytest.raises(Missing, match="kube-nothing is not built: make kubernetes"):
        find("kube-nothing")


def test_a_folder_of_ones_own_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "etcd").touch()
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(tmp_path))
    assert find("etcd") == tmp_path / "etcd"


def test_what_is_built_already_is_not_built_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kubernetes = MODULES[0]
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    # Without a compiler on the path, building anything fails.
    monkeypatch.setenv("PATH", str(tmp_path))
    kubernetes.kept.mkdir(parents=True)
    for name in kubernetes.programs:
        (kubernetes.kept / name).touch()
    build(kubernetes)
    (kubernetes.kept / "etcd").unlink()
    with pytest.raises(FileNotFoundError):
        build(kubernetes)
    assert sorted(path.name for path in kubernetes.kept.iterdir()) == sorted(set(kubernetes.programs) - {"etcd"})
