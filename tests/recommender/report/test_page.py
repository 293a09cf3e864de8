"""The page is whole in itself, small, and says what the table says, whatever names there are."""

import re
from base64 import b64encode
from hashlib import sha256
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from msgspec import structs

from elastipod.dashboards.savings import SAVINGS
from elastipod.pods import Workload
from recommender.exposition import FAMILIES
from recommender.ranges import Resource
from recommender.report.curves import Drawn, figure
from recommender.report.figures import cells, largest_first, spare, total
from recommender.report.page import MOST_BYTES, page
from recommender.report.told import Over, Paid, Savings, Spare
from recommender.report.window import Curve
from tests.browser import browsing
from tests.recommender.report.build import GIB, account, savings

HOSTILE = "<script>alert(1)</script>\"'&]]><img src=x onerror=alert(2)>"
COLUMNS = (
    "namespace", "workload", "container", "resource", "pods", "requested", "used", "recommended", "direction", "change",
    "month", "days", "reason",
)  # fmt: skip


class Read(HTMLParser):
    """What a reader of the page sees, and every element with its attributes."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.rows: list[list[str]] = []
        self.texts: dict[str, str] = {}
        self._open: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")
        self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        while tag in self._open and self._open.pop() != tag:
            pass

    def handle_data(self, data: str) -> None:
        inner = self._open[-1] if self._open else ""
        self.texts[inner] = self.texts.get(inner, "") + data
        if {"td", "th"} & set(self._open[-3:]) and "table" in self._open:
            self.rows[-1][-1] += data

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.elements if name == tag]


def many(number: int) -> Savings:
    return savings(
        *(
            account(
                2.0 + one,
                0.5,
                resource,
                namespace=f"team-{one % 40}-of-the-company",
                workload=f"a-service-with-a-rather-long-name-{one}",
                container="application-server",
                usage=Over(0.1, 0.25, 1.0, 600.0),
            )
            for one in range(number // 2)
            for resource in Resource
        ),
        window_seconds=8 * 86_400.0,
    )


def curve(of: Any) -> Drawn:
    values = np.abs(np.sin(np.arange(192) / 7)) * 1.9
    values[20:24] = np.nan
    return Drawn(of, Curve(1_800_000_000.0, 3600.0, values))


def test_a_curve_has_no_level_of_what_is_not_known_and_a_dot_for_what_was_seen_once() -> None:
    seen = curve(account(requested=1.0, recommended=None))
    seen.curve.values[:] = [np.nan, 0.7, *[np.nan] * 190]
    text = figure(structs.replace(seen, of=structs.replace(seen.of, requested=None)))
    assert not re.search('class="(asked|wanted)"|requested|recommended', text)
    assert re.search('class="used" d="M[0-9.]+ [0-9.]+h0"', text)
    assert "requested 1.000 cores (dashes); " in figure(seen)


def test_the_page_asks_the_network_for_nothing_and_forbids_it() -> None:
    of = account()
    read = Read(page(savings(of), {of.owner: "kind: Deployment\n"}.get, [curve(of)]))
    for _, attributes in read.elements:
        assert not attributes.keys() & {"src", "srcset", "action", "style", "data", "poster", "background"}
        assert not any(name.startswith("on") for name in attributes)
        assert (attributes.get("href") or "#").startswith("#")
    assert not {"link", "img", "iframe", "object", "embed", "form", "base"} & {tag for tag, _ in read.elements}
    [policy] = [one["content"] for one in read.all("meta") if one.get("http-equiv") == "Content-Security-Policy"]
    assert policy is not None
    assert policy.startswith("default-src 'none'; ")
    assert "unsafe" not in policy
    for inner in ("style", "script"):
        assert b64encode(sha256(read.texts[inner].encode()).digest()).decode() in policy
    # No address is called, not even in style and script.
    assert not re.search(r"https?:|//[a-z]|url\(|@import|fetch\(", read.texts["style"] + read.texts["script"])


def test_no_name_becomes_a_tag_or_an_attribute() -> None:
    of = account(namespace=HOSTILE, workload=HOSTILE, container=HOSTILE, reason=HOSTILE)
    found = savings(of, prices=HOSTILE, notes=[HOSTILE], currency="<b>", window_seconds=1.0)
    text = page(found, {of.owner: f"name: {HOSTILE}\n"}.get, [curve(of)])
    read = Read(text)
    assert len(read.all("script")) == 1
    assert "alert" not in read.texts["script"]
    assert not read.all("img")
    assert read.rows[1][2] == HOSTILE
    assert f"name: {HOSTILE}" in read.texts["pre"]


def test_the_table_has_headings_for_a_screen_reader_and_words_beside_every_colour() -> None:
    read = Read(page(savings(account(), account(1.0, 4.0)), lambda _: None))
    assert [one["scope"] for one in read.all("th")] == ["col"] * 14 + ["row"] * 2
    assert len(read.all("caption")) == 1
    assert read.all("html") == [{"lang": "en"}]
    assert {row[8] for row in read.rows[1:]} == {"less", "more"}
    assert "prefers-color-scheme:dark" in read.texts["style"]
    assert "@media print" in read.texts["style"]
    [drawing] = Read(page(savings(account()), lambda _: None, [curve(account())])).all("svg")
    assert drawing["role"] == "img"
    assert "used" in (drawing["aria-label"] or "")


def test_figures_are_those_of_the_table_to_the_last_digit() -> None:
    found = savings(
        account(2.0, 1 / 3, usage=Over(0.1, 0.2, 0.7, 600.0)),
        account(0.1234567, 7.0, Resource.MEMORY, limit=Paid(3 * GIB, 0.3), workload="db"),
        account(1.0, None, workload="cache"),
        window_seconds=86_400.0,
    )
    read = Read(page(found, lambda _: None))
    shown = [row[:13] for row in read.rows[1:]]
    rows = [cells(one, "EUR") for one in largest_first(found)]
    assert shown == [[getattr(row, name) for name in COLUMNS] for row in rows]
    text = "".join(read.texts.values())
    for name in ("waste", "applied", "lacking", "requested"):
        assert all(part in text for part in total(found, name))
    assert all(part in text for part in spare(found))


def test_each_number_has_its_formula_one_click_away() -> None:
    text = page(savings(account()), lambda _: None)
    for name in ("waste", "applied", "realisable", "lacking"):
        section = text.split(f"id={name}>" if f"id={name}>" in text else f'id="{name}">')[1].split("</section>")[0]
        assert "<details><summary>How this is counted</summary><p>" in section
    assert "730 hours" in text


def test_what_people_changed_is_said_to_be_in_what_is_applied_wherever_that_is_told() -> None:
    assert "by people who changed a template, which are not told apart" in page(savings(account()), lambda _: None)
    described = {one.title: one.description for row in SAVINGS.rows for one in row.panels}
    assert "by people who changed a template: they are not told apart" in described["Applied"]
    assert "whoever changed it" in next(one.what for one in FAMILIES if one.name == "elastipod_workload_applied")


@pytest.mark.parametrize("number", [0, 2, 600, 6000])
def test_however_many_workloads_there_are_the_page_is_small_and_says_what_it_left_out(number: int) -> None:
    found = many(number)
    patch = "apiVersion: apps/v1\nkind: Deployment\n" + "spec: something of the usual length\n" * 10
    drawn = [curve(one) for one in found.accounts[:10]]
    text = page(found, {one.owner: patch for one in found.accounts}.get, drawn)
    assert len(text.encode()) < MOST_BYTES
    rows = len(Read(text).rows) - 1
    assert (f"The {rows:,} of {number:,} rows with the largest change are shown" in text) == (rows < number)
    assert (f"<code>elastipod report -o csv</code> has all {number:,}" in text) == (rows < number)
    assert rows >= min(number, 500)


def test_a_patch_that_is_too_large_for_the_page_is_left_out_and_said_to_be() -> None:
    found = savings(account(8.0, workload="huge"), account(4.0, workload="web"))
    text = page(found, lambda owner: "x" * (10**6 if owner.name == "huge" else 10))
    assert len(text.encode()) <= MOST_BYTES
    assert "<code>elastipod recommend -o patch</code> makes all" in text
    assert [place in text for place in ("<details id=patch-0><summary>shop/Deployment/web", "patch-1")] == [True, False]


def test_a_link_to_a_patch_leads_to_it() -> None:
    web, db = account(4.0), account(3.0, workload="db")
    read = Read(page(savings(web, db), {db.owner: "kind: StatefulSet\n"}.get))
    assert [row[13].strip() for row in read.rows[1:]] == ["-", "patch"]
    [link] = read.all("a")
    assert link["href"] in [f"#{one['id']}" for one in read.all("details") if "id" in one]
    assert str(Workload("shop", "Deployment", "db")) in read.texts["summary"]


@pytest.mark.browser
async def test_a_browser_sorts_usage_over_a_window_by_its_amount(tmp_path: Path) -> None:
    of = {"few": GIB / 5, "most": 3 * GIB, "fewest": 20.0}
    told = [
        account(resource=Resource.MEMORY, workload=name, usage=Over(amount / 2, amount, amount, 600.0))
        for name, amount in of.items()
    ]
    file = tmp_path / "report.html"
    file.write_text(page(savings(*told), lambda _: None), "utf-8")
    async with browsing() as browser:
        await browser.open(file.as_uri())
        await browser.value("document.querySelector('th[data-name=used] button').click()")
        rows = "[...document.querySelectorAll('tbody tr')].map(one => one.cells[1].innerText)"
        assert await browser.value(rows) == ["Deployment/fewest", "Deployment/few", "Deployment/most"]


@pytest.mark.browser
async def test_a_browser_sorts_and_searches_and_asks_for_nothing(tmp_path: Path) -> None:
    web, db = account(2.0, 0.5), account(1.0, 4.0, Resource.MEMORY, workload="db", usage=None)
    file = tmp_path / "report.html"
    file.write_text(page(savings(web, db), {web.owner: "kind: Deployment\n"}.get, [curve(web)]), "utf-8")
    rows = "[...document.querySelectorAll('tbody tr')].filter(one => !one.hidden).map(one => one.cells[1].innerText)"
    async with browsing() as browser:
        await browser.open(file.as_uri())
        assert await browser.value("document.title") == "elastipod report"
        assert await browser.value(rows) == ["Deployment/db", "Deployment/web"]
        press = "document.querySelector('th[data-name=requested] button').click()"
        await browser.value(press)
        assert await browser.value(rows) == ["Deployment/web", "Deployment/db"]
        assert await browser.value("document.querySelector('[aria-sort]').ariaSort") == "ascending"
        await browser.value(press)
        assert await browser.value("document.querySelector('[aria-sort]').ariaSort") == "descending"
        search = "const found = document.getElementById('search'); found.value = 'db memory';"
        await browser.value(f"{{ {search} found.dispatchEvent(new Event('input')); }}")
        assert await browser.value(rows) == ["Deployment/db"]
        assert await browser.value("document.getElementById('told').innerText") == "1 of 2 rows"
        await browser.value("document.querySelector('a[href=\"#patch-0\"]').click()")
        assert await browser.value(
            "new Promise(done => setTimeout(() => done(document.getElementById('patch-0').open)))"
        )
        light = await browser.value("getComputedStyle(document.body).backgroundColor")
        await browser.looks_like(prefers_color_scheme="dark")
        assert await browser.value("getComputedStyle(document.body).backgroundColor") != light
        assert browser.requests == [file.as_uri()]
        assert browser.trouble == []


WIDE = "document.documentElement.scrollWidth > innerWidth"
SEEN = "document.querySelector({!r}).checkVisibility()"


@pytest.mark.browser
async def test_on_paper_all_is_open_that_is_read_and_nothing_is_there_that_is_pressed(tmp_path: Path) -> None:
    those = [account(2.0 + one, 0.5, workload=name) for one, name in enumerate(("web", "db", "long-name-" * 25))]
    patches = dict.fromkeys((one.owner for one in those), "kind: Deployment\n")
    file = tmp_path / "report.html"
    file.write_text(page(savings(*those), patches.get, [curve(those[0])]), "utf-8")
    async with browsing() as browser:
        # As wide as A4 is between its margins; what is dark on the screen is not on paper.
        await browser.call(
            "Emulation.setDeviceMetricsOverride", width=1030, height=700, deviceScaleFactor=1, mobile=False
        )
        await browser.open(file.as_uri())
        search = "const found = document.getElementById('search'); found.value = 'deployment/web';"
        await browser.value(f"{{ {search} found.dispatchEvent(new Event('input')); }}")
        dark = {"name": "prefers-color-scheme", "value": "dark"}
        await browser.call("Emulation.setEmulatedMedia", media="print", features=[dark])
        assert await browser.value("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
        assert await browser.value(SEEN.format("#waste details p"))
        assert await browser.value(SEEN.format("main > details li"))
        for pressed in ("#search", "#resource", "#patches", "td:last-child", "th:last-child"):
            assert not await browser.value(SEEN.format(pressed)), pressed
        # What was searched for is all that is printed, and that is said.
        assert await browser.value("document.getElementById('told').checkVisibility()")
        assert await browser.value("document.getElementById('told').innerText") == "1 of 3 rows"
        assert not await browser.value(WIDE)
        assert await browser.value("document.getElementById('workloads').offsetWidth <= innerWidth")
        # A patch that was opened is wanted.
        await browser.value("document.getElementById('patch-1').open = true")
        assert await browser.value(SEEN.format("#patch-1 pre"))
        assert not await browser.value(SEEN.format("#patch-0"))
        assert not await browser.value(SEEN.format("button.copy"))


@pytest.mark.browser
@pytest.mark.parametrize("width", [360, 1400])
async def test_however_long_names_are_no_part_of_the_page_lies_beyond_the_screen(tmp_path: Path, width: int) -> None:
    name = "n" * 253
    of = account(namespace="s" * 63, workload=name, container="c" * 63)
    found = savings(of, realisable=Spare([name], 8.0, 32 * GIB, 1.2), notes=[name])
    file = tmp_path / "report.html"
    file.write_text(page(found, {of.owner: f"name: {name}\n"}.get, [curve(of)]), "utf-8")
    async with browsing() as browser:
        metrics = {"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": False}
        await browser.call("Emulation.setDeviceMetricsOverride", **metrics)
        await browser.open(file.as_uri())
        await browser.value("document.querySelectorAll('details').forEach(one => one.open = true)")
        assert not await browser.value(WIDE)
