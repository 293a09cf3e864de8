"""The report as one HTML page: whole in itself, asking the network for nothing, under 300 kB.

Owns the page's order and words. Its figures are figures.py's; its script only sorts, searches and copies, and all is
there to be read without it. Names are escaped, and the page itself forbids any other script and every request.
"""

from base64 import b64encode
from collections.abc import Callable, Iterable, Iterator, Sequence
from hashlib import sha256
from html import escape
from importlib.resources import files
from typing import Final

from elastipod.clock import to_rfc3339
from elastipod.pods import Workload
from recommender.prices import HOURS_A_MONTH
from recommender.ranges import Resource
from recommender.report.curves import Drawn, figure
from recommender.report.figures import Cells, cells, counted, largest_first, reasons, spare, total, window
from recommender.report.told import Savings
from recommender.savings import Direction

MOST_BYTES: Final = 300_000
_MOST_OF_ROWS: Final = 180_000
_MOST_OF_PATCHES: Final = 50_000
_MOST_CURVES: Final = 10
_MOST_NODES: Final = 20
_COLUMNS: Final = (
    ("namespace", "Namespace", ""),
    ("workload", "Workload", ""),
    ("container", "Container", ""),
    ("resource", "Resource", ""),
    ("pods", "Pods", "n"),
    ("requested", "Requested", "n"),
    ("used", "Used", "n"),
    ("recommended", "Recommended", "n"),
    ("direction", "Direction", ""),
    ("change", "Change", "n"),
    ("month", "Money a month", "n"),
    ("days", "Confidence, days", "n"),
    ("reason", "Reason", ""),
)
_WASTE: Final = (
    "Sum over containers of what is requested above what is recommended: max(requested − recommended, 0), a pod at a "
    "time; where a cap holds the recommendation below the need, max(requested − needed, 0). It is room that others "
    "could use. No bill is lower for it before a node goes."
)
_LACKING: Final = (
    "Sum over containers of what is needed above what is requested, a pod at a time: max(recommended − requested, 0); "
    "where a cap holds the recommendation below the need, max(needed − requested, 0). It is never set off against "
    "waste: a workload that needs more is shown as needing more."
)
_APPLIED: Final = (
    "Requested when elastipod first saw a container, less what is requested now, for as many pods as there are now: by "
    "resizes, by sizes at creation, and by people who changed a template, which are not told apart. "
    "Growth counts against it. A pod that was replaced counts once."
)
_REALISABLE: Final = (
    "Whole nodes that would be empty if every pod were as recommended and pods were packed anew: each pod of such a "
    "node has a place elsewhere by both resources, node selectors and affinity, taints, required anti-affinity, the "
    "most pods a node takes, and PodDisruptionBudgets. Pods that wait for a node, and what has no room on its node as "
    "recommended, have their place first; while one finds none, no node is promised. DaemonSets' and static pods end "
    "with their node; bare pods, and those that an annotation keeps in place, keep theirs, and the control plane's "
    "nodes stay. Volumes and local storage are not looked at. It is the only number that lowers a bill."
)


def page(savings: Savings, patch: Callable[[Workload], str | None], curves: Sequence[Drawn] = ()) -> str:
    """The page; `patch` makes a workload's, where it is worth one."""
    style, script = (files(__package__).joinpath(name).read_text("utf-8") for name in ("page.css", "page.js"))
    policy = (
        f"default-src 'none'; style-src '{_hash(style)}'; script-src '{_hash(script)}'; "
        "base-uri 'none'; form-action 'none'"
    )
    body = "".join(
        (_head(savings), _numbers(savings), _workloads(savings, patch), _curves(curves), _assumptions(savings))
    )
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>elastipod report</title><style>{style}</style></head>\n"
        f"<body>{body}<script>{script}</script></body></html>\n"
    )


def _head(savings: Savings) -> str:
    namespaces = {one.namespace for one in savings.accounts}
    workloads = {one.owner for one in savings.accounts}
    notes = "".join(f"<p><strong>Note:</strong> {escape(note)}</p>" for note in savings.notes)
    return (
        "<header><h1>Reserved, used, and what could be saved</h1>"
        f"<p class=soft>{counted(len(workloads), 'workload')} in "
        f"{counted(len(namespaces), 'namespace')}, as of {to_rfc3339(savings.at)}; {window(savings)}. "
        f"Money is {escape(savings.currency)} for a month of {HOURS_A_MONTH:.0f} hours.</p>{notes}</header>\n"
    )


def _numbers(savings: Savings) -> str:
    held, worth_of_nodes = spare(savings)
    names = savings.realisable.nodes if savings.realisable else []
    named = f"{', '.join(names[:_MOST_NODES])}{' and more' if len(names) > _MOST_NODES else ''}"
    which = f"<details><summary>Which nodes</summary><p>{escape(named)}</p></details>" if names else ""
    cards = (
        ("waste", "Waste", "reserved and not needed", *total(savings, "waste"), _WASTE, ""),
        ("applied", "Applied", "reserved less than before", *total(savings, "applied"), _APPLIED, ""),
        ("realisable", "Realisable", "what the bill can really lose", held, worth_of_nodes, _REALISABLE, which),
    )
    shown = "".join(
        f'<section class=number id="{name}"><h3>{title}</h3><p class=soft>{meaning}</p>'
        f"<p class=big>{escape(f'{worth} a month' if worth else amounts)}</p>"
        f"{f'<p>{escape(amounts)}</p>' if worth else ''}"
        f"<details><summary>How this is counted</summary><p>{formula}</p></details>{more}</section>"
        for name, title, meaning, amounts, worth, formula, more in cards
    )
    requested, used, lacking = (total(savings, name) for name in ("requested", "used", "lacking"))
    return (
        "<main><h2>Three numbers that are never added up</h2>"
        f"<div class=numbers>{shown}</div><p>Requested in all: {escape(_in_all(requested))}. "
        f"Used now: {escape(used[0])}.</p><section id=lacking><p>What workloads need that have too little: "
        f"{escape(_in_all(lacking))}.</p>"
        f"<details><summary>How this is counted</summary><p>{_LACKING}</p></details></section>\n"
    )


def _in_all(found: tuple[str, str]) -> str:
    amounts, worth = found
    return f"{amounts}, {worth} a month" if worth else amounts


def _workloads(savings: Savings, patch: Callable[[Workload], str | None]) -> str:
    places: dict[Workload, int | None] = {}
    texts: list[str] = []
    rows: list[str] = []
    spent_on_rows = spent_on_patches = left_out = 0
    for one in largest_first(savings):
        if one.owner not in places:
            text = patch(one.owner)
            shown = _patch(len(texts), one.owner, text) if text else ""
            is_shown = bool(shown) and spent_on_patches + len(shown.encode()) <= _MOST_OF_PATCHES
            places[one.owner] = len(texts) if is_shown else None
            if is_shown:
                texts.append(shown)
                spent_on_patches += len(shown.encode())
            else:
                left_out += bool(shown)
        row = _row(cells(one, savings.currency), places.get(one.owner))
        spent_on_rows += len(row.encode())
        if spent_on_rows > _MOST_OF_ROWS:
            break
        rows.append(row)
    there_are = len(savings.accounts)
    cut = ""
    if len(rows) < there_are:
        cut = (
            f"<p><strong>The {len(rows):,} of {there_are:,} rows with the largest change are shown</strong>, so "
            f"that the page stays small; <code>elastipod report -o csv</code> has all {there_are:,}, and the numbers "
            "above are of all.</p>"
        )
    more = ""
    if left_out or len(rows) < there_are:
        more = "<p>Others may have one too: <code>elastipod recommend -o patch</code> makes all.</p>"
    all_texts = "".join(texts) or ("" if more else "<p>There is none to make.</p>")
    used = "mean / p95 / peak of one container" if savings.window_seconds else "by all pods"
    heads = "".join(
        f"<th scope=col data-name={name}{f' class={kind}' if kind else ''}>{title}</th>"
        for name, title, kind in _COLUMNS
    )
    return (
        f"<h2>Workloads</h2>{cut}<div class=tools id=tools hidden><label>Search <input id=search type=search></label>"
        f"{_choice('resource', 'Resource', Resource)}{_choice('direction', 'Direction', Direction)}"
        "<span id=told role=status></span></div><div class=wide tabindex=0 role=region aria-label=Workloads>"
        "<table id=workloads><caption>A row for each container and resource, over all its pods, the largest change in "
        f"money first. Used is {used}. Change is needed less requested: - is less, + is more. "
        "Needed is recommended, or more where a cap holds that down.</caption>"
        f"<thead><tr>{heads}<th scope=col data-plain>Patch</th></tr></thead>"
        f"<tbody>{''.join(rows)}</tbody></table></div>"
        f"{_reasons(savings)}\n<section id=patches><h2>Manifest patches</h2>"
        "<p class=soft>One for each workload that is worth a change, the largest first: "
        "<code>kubectl apply --server-side --force-conflicts --field-manager=elastipod -f FILE</code>. "
        f"Pods are made anew when their template changes.</p>{all_texts}{more}</section>\n"
    )


def _row(row: Cells, patch: int | None) -> str:
    """A row. End tags that HTML does without are left out, and what page.css says by place."""
    parts = []
    for name, _, _ in _COLUMNS:
        text = escape(getattr(row, name))
        if name == "workload":
            parts.append(f"<th scope=row>{text}")
        elif name == "direction":
            parts.append(f"<td class={text}>{text}")
        else:
            parts.append(f"<td>{text}")
    link = f"<a href=#patch-{patch}>patch</a>" if patch is not None else "-"
    return f"<tr>{''.join(parts)}<td>{link}\n"


def _patch(number: int, owner: Workload, text: str) -> str:
    return f"<details id=patch-{number}><summary>{escape(str(owner))}</summary><pre>{escape(text)}</pre></details>"


def _choice(name: str, title: str, values: Iterable[str]) -> str:
    options = "".join(f"<option>{value}</option>" for value in values)
    return f'<label>{title} <select id={name}><option value="">all</option>{options}</select></label>'


def _reasons(savings: Savings) -> str:
    found = reasons(savings)
    if not found:
        return ""
    meanings = "".join(f"<dt><code>{escape(name)}</code></dt><dd>{escape(text)}</dd>" for name, text in found)
    return f"<details><summary>What the reasons mean</summary><dl>{meanings}</dl></details>"


def _curves(curves: Sequence[Drawn]) -> str:
    if not curves:
        return ""
    shown = "".join(figure(one) for one in curves[:_MOST_CURVES])
    words = "All pods of a container together, in the mean of each piece of time."
    return f"<h2>Usage of the largest</h2><p class=soft>{words}</p>{shown}\n"


def _assumptions(savings: Savings) -> str:
    return (
        "<h2>Assumptions</h2><details><summary>Prices, months, and what is not in the figures</summary>"
        f"<ul>{''.join(f'<li>{escape(one)}' for one in _assumed(savings))}</ul></details></main>"
    )


def _assumed(savings: Savings) -> Iterator[str]:
    yield f"Prices: {savings.prices}. Discounts, reservations and committed use are in them only if you put them there."
    yield f"A month has {HOURS_A_MONTH:.0f} hours. Money is for what is reserved now, whatever the window of usage is."
    yield "Each figure in money stands beside the same in cores or in GiB (1024³ bytes), and is made of it."
    yield "A pod counts from its binding to a node until it is told to end; one that is replaced does not count twice."
    yield "Confidence is days of usage, one sample a minute. Without a recommendation nothing is promised."
    if savings.window_seconds:
        yield f"Used: {window(savings)}, or of as much of it as a container was seen; {savings.usage}."


def _hash(text: str) -> str:
    return f"sha256-{b64encode(sha256(text.encode()).digest()).decode()}"
