"""Pictures of the boards, drawn in a browser from what a Prometheus scraped of an elastipod at work.

python -m tests.dashboards.pictures FOLDER      (`make pictures`; needs Prometheus and Chromium)

Owns drawing a board's own JSON: its queries, its places, its units. It is no Grafana, and shows what one would show.
"""

import asyncio
import base64
import json
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from elastipod.dashboards.boards import BOARDS
from elastipod.dashboards.grafana import dashboard
from tests.browser import browsing, why_no_browser
from tests.dashboards.asked import asked
from tests.dashboards.scraped import Scraped, scraped
from tests.recommender.prometheus.server import why_no_prometheus

Json = dict[str, Any]

_PAGE: Final = Path(__file__).with_suffix(".html")
_UNSHOWN: Final = ("__name__", "instance", "job", "workload_kind", "cluster")
_WIDTH: Final = 1440
_SECONDS: Final = 180.0
_CHOSEN: Final = {"elastipod-workload": {"workload": "(wide|leaping)"}}
"""By board; all of everything where nothing is said."""


def main() -> int:
    """Draw them all."""
    if lacks := [why for why in (why_no_prometheus(), why_no_browser()) if why]:
        print(f"no pictures: {'; '.join(lacks)}", file=sys.stderr)
        return 1
    folder = Path(sys.argv[1])
    with (
        tempfile.TemporaryDirectory(prefix="pictures-") as place,
        scraped(Path(place), [], least_seconds=_SECONDS) as found,
    ):
        pages = {one.name: _drawn(dashboard(one), found) for one in BOARDS}
    folder.mkdir(exist_ok=True)
    asyncio.run(draw(folder, pages))
    return 0


def _drawn(board: Json, prometheus: Scraped) -> str:
    chosen = _CHOSEN.get(board["uid"], {})
    marks = [
        [at, one["iconColor"].replace("dark-", "dark")]
        for one in board["annotations"]["list"]
        for series in prometheus.curves(asked(one["expr"], **chosen))
        for at in _begins([at for at, _ in series["values"]])
    ]
    return page([_panel(one, prometheus, chosen) for one in board["panels"]], marks)


def page(panels: list[Json], marks: list[Any]) -> str:
    """The page that draws panels; a mark is a time and a colour."""
    data = json.dumps({"panels": panels, "marks": marks}).replace("</", "<\\/")
    return _PAGE.read_text("utf-8").replace("/*data*/", data)


def _panel(panel: Json, prometheus: Scraped, chosen: dict[str, str]) -> Json:
    found: Json = {"type": panel["type"], "title": panel["title"], "at": panel["gridPos"], "series": []}
    if panel["type"] == "row":
        return found
    found["unit"] = panel["fieldConfig"]["defaults"]["unit"]
    for target in panel["targets"]:
        expression = asked(target["expr"], **chosen)
        for one in prometheus.curves(expression) if target["range"] else prometheus.instant(expression):
            labels = {name: value for name, value in one["metric"].items() if name not in _UNSHOWN}
            drawn: Json = {"labels": labels, "name": _legend(target["legendFormat"], labels)}
            if target["range"]:
                drawn["points"] = dict(one["values"])
            else:
                drawn["value"] = float(one["value"][1])
            found["series"].append(drawn)
    found["times"] = sorted({at for one in found["series"] for at in one.get("points", ())})
    for one in found["series"]:
        points = one.pop("points", {})
        one["values"] = [_number(points.get(at)) for at in found["times"]]
    return found


def _number(text: str | None) -> float | None:
    return None if text in (None, "NaN") else float(text)


def _legend(form: str, labels: dict[str, str]) -> str:
    for name, value in labels.items():
        form = form.replace(f"{{{{{name}}}}}", value)
    return form.replace("{{cluster}} ", "").replace("__auto", "")


def _begins(times: list[float]) -> Iterator[float]:
    """Where something that holds for a while begins."""
    before = float("-inf")
    for at in times:
        if at - before > 2.0:
            yield at
        before = at


async def draw(folder: Path, pages: dict[str, str]) -> None:
    """A picture of each page."""
    async with browsing() as browser:
        for name, page in pages.items():
            file = folder / f"{name}.html"
            file.write_text(page, "utf-8")
            await browser.call(
                "Emulation.setDeviceMetricsOverride", width=_WIDTH, height=900, deviceScaleFactor=1, mobile=False
            )
            await browser.open(file.resolve().as_uri())
            height = await browser.value("document.querySelector('main').scrollHeight")
            clip = {"x": 0, "y": 0, "width": _WIDTH, "height": height, "scale": 1}
            shot = await browser.call(
                "Page.captureScreenshot", format="webp", quality=80, clip=clip, captureBeyondViewport=True
            )
            (folder / f"{name}.webp").write_bytes(base64.b64decode(shot["data"]))
            file.unlink()
            assert not browser.trouble, browser.trouble


if __name__ == "__main__":
    sys.exit(main())
