"""The report that the demo ends with: what the leading recommender tells of savings, as a page.

Owns asking for it, writing it, and saying where it is.
"""

import asyncio
from pathlib import Path
from typing import Any, Final

from elastipod.cli.demo.acts import Stage
from elastipod.cli.demo.facts import NotSeenError
from elastipod.cli.demo.manifests import NAMESPACE
from elastipod.cli.parts import NoAnswerError, ask_savings
from elastipod.cli.reportpage import page_of
from recommender.report.figures import sum_lines
from recommender.report.told import AnswerError, Savings, read_savings

_SECONDS: Final = 15.0
_LOOK_SECONDS: Final = 0.2
_SEEN_SECONDS: Final = 0.5
"""What happened so long ago the recommender has seen."""


async def write_report(stage: Stage, file: Path) -> dict[str, Any]:
    """Write the page. Raises NotSeenError where there is nothing to write, or no place for it."""
    savings = await _savings(stage)
    try:
        await asyncio.to_thread(_write, file, page_of(savings))
    except OSError as error:
        raise NotSeenError(f"the report can not be written, name another place by --report: {error}") from None
    for line in sum_lines(savings)[:4]:
        stage.story.tell(line)
    stage.story.tell("What the person asked for in (d) counts against what is applied.")
    stage.story.good(f"The report is in {file.absolute()}: open it in a browser.")
    return {"report": str(file.absolute())}


async def _savings(stage: Stage) -> Savings:
    """What is told of the demo's workloads as they are after its last act."""
    since = stage.clock.now() + _SEEN_SECONDS
    deadline, why = stage.clock.monotonic() + _SECONDS, "it tells of no workload as it is now"
    while stage.clock.monotonic() < deadline:
        try:
            savings = read_savings(await ask_savings(stage.connection))
            is_known = any(one.namespace == NAMESPACE and one.recommended is not None for one in savings.accounts)
            if is_known and savings.at >= since:
                return savings
        except (NoAnswerError, AnswerError) as error:
            why = str(error)
        await stage.clock.sleep(_LOOK_SECONDS)
    raise NotSeenError(f"waited {_SECONDS:.0f} s in vain for the recommender's savings: {why}")


def _write(file: Path, page: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(page, "utf-8")
