"""The actuator runs on every node: what it does not need, it does not load."""

import subprocess
import sys

HEAVY = ["aiohttp", "apscheduler", "kubernetes", "numpy", "rich", "scipy", "sklearn", "typer", "yaml"]


def loaded(program: str) -> set[str]:
    """The packages that a program loads besides those that this Python starts with."""
    code = f"import sys; before = {{*sys.modules}}\n{program}\nprint(*{{*sys.modules}} - before)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return {name.partition(".")[0] for name in done.stdout.split()}


def test_the_actuator_loads_nothing_heavy() -> None:
    assert loaded("import actuator.__main__") & set(HEAVY) == set()


def test_a_parser_of_kubeconfigs_is_loaded_by_those_who_read_one() -> None:
    reading = "from elastipod.kube.access import load_access, AccessError\ntry: load_access('{}', None, {{}})"
    assert "yaml" in loaded(f"{reading.format('/dev/null')}\nexcept AccessError: pass")


def test_the_guard_has_the_standard_library_alone() -> None:
    found = loaded("import actuator.guard")
    assert {name for name in found if not name.startswith("_")} <= {*sys.stdlib_module_names, "actuator"}
