"""Settings from flags, environment and file."""

from dataclasses import dataclass
from pathlib import Path

import pytest

from elastipod.settings import SettingsError, help_texts, load_settings


@dataclass(frozen=True)
class Example:
    """An example."""

    half_life_seconds: float = 86_400.0
    """Time after which a sample counts half as much."""

    names: tuple[str, ...] = ("elastipod",)
    """Whom we listen to."""

    dry_run: bool = False
    """Only say what would be done."""


def test_a_flag_beats_the_environment_which_beats_the_file(tmp_path: Path) -> None:
    file = tmp_path / "settings.yaml"
    file.write_text("half_life_seconds: 1\nnames: [a, b]\ndry_run: true\n")
    environ = {"ELASTIPOD_HALF_LIFE_SECONDS": "2", "ELASTIPOD_NAMES": "c"}
    argv = ["--config", str(file), "--half-life-seconds", "3"]
    assert load_settings(Example, argv, environ) == Example(3.0, ("c",), True)


def test_what_is_not_given_has_its_default() -> None:
    assert load_settings(Example, [], {}) == Example()


@pytest.mark.parametrize(
    ("argv", "environ", "named"),
    [
        (["--half-life-seconds", "soon"], {}, "--half-life-seconds"),
        ([], {"ELASTIPOD_DRY_RUN": "perhaps"}, "ELASTIPOD_DRY_RUN"),
    ],
)
def test_a_value_that_can_not_be_used_is_named(argv: list[str], environ: dict[str, str], named: str) -> None:
    with pytest.raises(SettingsError, match=named):
        load_settings(Example, argv, environ)


@pytest.mark.parametrize("content", ["half_live: 1", "- a", "a: [", "\x00"])
def test_a_file_that_can_not_be_used_is_named(tmp_path: Path, content: str) -> None:
    file = tmp_path / "settings.yaml"
    file.write_text(content)
    with pytest.raises(SettingsError, match=r"settings\.yaml"):
        load_settings(Example, ["--config", str(file)], {})


def test_the_text_under_a_field_is_its_help() -> None:
    assert help_texts(Example)["dry_run"] == "Only say what would be done."
