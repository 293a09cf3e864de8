"""Writes docs/settings.md from the settings classes; with --check only says whether it is current.

python -m tests.docs [--check]
"""

import dataclasses
import inspect
import sys
from pathlib import Path
from typing import Any

from actuator.settings import ActuatorSettings
from elastipod.process import ProcessSettings
from elastipod.settings import help_texts
from recommender.settings import RecommenderSettings
from updater.settings import UpdaterSettings

PAGE = Path(__file__).parent.parent / "docs" / "settings.md"
_HEAD = """# Settings

Every setting is a flag (`--name-with-dashes`), an environment variable (`ELASTIPOD_NAME_IN_CAPITALS`), or a line in
the YAML file that `--config` names (`name_with_underscores: value`); the first of these that is given counts.
This page is written from the code by `make docs`.
"""
_TABLE = "| setting | default | meaning |\n| --- | --- | --- |\n"


def settings_page() -> str:
    """The page as it should be."""
    parts = [_HEAD]
    for title, cls in (
        ("Every process", ProcessSettings),
        ("Recommender", RecommenderSettings),
        ("Updater", UpdaterSettings),
        ("Actuator", ActuatorSettings),
    ):
        parts.append(
            f"\n## {title}\n\n{inspect.getdoc(cls) or ''}\n\n| setting | default | meaning |\n| --- | --- | --- |\n"
        )
        texts = help_texts(cls)
        parts += [
            f"| `{field.name}` | {_shown(field.default)} | {texts.get(field.name, '')} |\n"
            for field in dataclasses.fields(cls)
        ]
    return "".join(parts)


def _shown(value: Any) -> str:
    if isinstance(value, tuple):
        value = ",".join(str(one) for one in value)
    return f"`{value}`" if value not in ("", None) else ""


def main() -> int:
    """Write the page, or say that it is old."""
    page = settings_page()
    if "--check" in sys.argv:
        if PAGE.exists() and PAGE.read_text("utf-8") == page:
            return 0
        sys.stderr.write("docs/settings.md is not what the code says; run: make docs\n")
        return 1
    PAGE.write_text(page, "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
