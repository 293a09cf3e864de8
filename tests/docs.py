"""Writes what docs and chart say of settings, metrics, alerts and reasons from the code; --check says what is old.

python -m tests.docs [--check]
"""

import dataclasses
import inspect
import sys
from pathlib import Path
from typing import Any

from actuator.settings import ActuatorSettings
from elastipod.process import ProcessSettings
from elastipod.reasons import Reason
from elastipod.settings import help_texts
from recommender.settings import RecommenderSettings
from tests import metricspage
from tests.charts.pages import pages
from tests.dashboards import page as dashboards
from updater.admission.settings import AdmissionSettings
from updater.settings import UpdaterSettings

DOCS = Path(__file__).parent.parent / "docs"
PAGE = DOCS / "settings.md"
OPERATING = DOCS / "operating.md"
_REASONS = "<!-- reasons: written by `make docs` -->\n"
_END = "<!-- end -->\n"
_HEAD = """# Settings

Every setting is a flag (`--name-with-dashes`), an environment variable (`ELASTIPOD_NAME_IN_CAPITALS`), or a line in
the YAML file that `--config` names (`name_with_underscores: value`); the first of these that is given counts.
This page is written from the code by `make docs`.
"""


def settings_page() -> str:
    """The page as it should be."""
    parts = [_HEAD]
    for title, cls in (
        ("Every process", ProcessSettings),
        ("Recommender", RecommenderSettings),
        ("Updater", UpdaterSettings),
        ("Admission webhook", AdmissionSettings),
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


def operating_page(page: str) -> str:
    """The page with its table of reasons as it should be."""
    before, _, rest = page.partition(_REASONS)
    _, _, after = rest.partition(_END)
    rows = "".join(f"| `{reason.value}` | {reason.explanation} |\n" for reason in Reason)
    return f"{before}{_REASONS}| Reason | meaning |\n| --- | --- |\n{rows}{_END}{after}"


def _shown(value: Any) -> str:
    if isinstance(value, tuple):
        value = ",".join(str(one) for one in value)
    return f"`{value}`" if value not in ("", None) else ""


def main() -> int:
    """Write the pages, or say which is old."""
    wanted = {
        PAGE: settings_page(),
        metricspage.PAGE: metricspage.page(),
        OPERATING: operating_page(OPERATING.read_text("utf-8")),
        dashboards.PAGE: dashboards.dashboards_page(dashboards.PAGE.read_text("utf-8")),
        **pages(),
    }
    old = [path for path, text in wanted.items() if not path.exists() or path.read_text("utf-8") != text]
    if "--check" in sys.argv:
        for path in old:
            sys.stderr.write(f"{path.relative_to(DOCS.parent)} is not what the code says; run: make docs\n")
        return 1 if old else 0
    for path in old:
        path.write_text(wanted[path], "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
