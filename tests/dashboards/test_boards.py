"""What every board is: whole, explained, placed, and the same each time it is made."""

import itertools
import json
import re
from typing import Any

import pytest
from typer.testing import CliRunner

from elastipod.cli.verbs import command
from elastipod.dashboards.boards import BOARDS, files
from elastipod.dashboards.grafana import dashboard
from elastipod.dashboards.panels import Board

Json = dict[str, Any]

each_board = pytest.mark.parametrize("board", BOARDS, ids=lambda board: board.name)


@each_board
def test_every_panel_has_a_title_a_unit_a_query_and_says_what_it_means(board: Board) -> None:
    titles = [panel.title for panel in board.panels]
    assert len(titles) == len(set(titles))
    for panel in board.panels:
        assert panel.queries, panel.title
        assert panel.unit, panel.title
        assert re.fullmatch(r"[A-Z].{20,}\.", panel.description), panel.title


@each_board
def test_panels_are_numbered_and_none_lies_on_another(board: Board) -> None:
    panels = dashboard(board)["panels"]
    assert [panel["id"] for panel in panels] == list(range(1, len(panels) + 1))
    taken: set[tuple[int, int]] = set()
    for panel in panels:
        at = panel["gridPos"]
        cells = set(itertools.product(range(at["x"], at["x"] + at["w"]), range(at["y"], at["y"] + at["h"])))
        assert at["x"] + at["w"] <= 24
        assert not cells & taken, panel["title"]
        taken |= cells


@each_board
def test_the_data_source_is_a_choice_and_named_nowhere(board: Board) -> None:
    found = dashboard(board)
    named = list(_values(found, "datasource"))
    assert named
    assert all(one == {"type": "prometheus", "uid": "${datasource}"} for one in named)
    first = found["templating"]["list"][0]
    assert (first["name"], first["type"], first["query"]) == ("datasource", "datasource", "prometheus")


@each_board
def test_an_import_makes_no_second_copy_and_carries_no_number_of_a_database(board: Board) -> None:
    found = dashboard(board)
    assert found["uid"] == f"elastipod-{board.name}"
    assert "id" not in found
    assert found["schemaVersion"] == 39


# Fields that the dashboard types of Grafana 11.6, 12.4 and 13.2 all have (package @grafana/schema), of those used here.
# What a data source adds is its own: `expr`, `step` and the formats of an annotation, `definition` of a variable.
FIELDS: dict[str, dict[str, type]] = {
    "dashboard": {
        "uid": str, "title": str, "description": str, "tags": list, "schemaVersion": int, "version": int, "time": dict,
        "editable": bool, "graphTooltip": int, "timezone": str, "refresh": str, "annotations": dict, "links": list,
        "templating": dict, "panels": list,
    },
    "panel": {
        "id": int, "type": str, "title": str, "description": str, "datasource": dict, "gridPos": dict, "options": dict,
        "fieldConfig": dict, "targets": list, "maxDataPoints": int, "transformations": list,
    },
    "row": {"id": int, "type": str, "title": str, "gridPos": dict, "collapsed": bool, "panels": list},
    "place": {"x": int, "y": int, "w": int, "h": int},
    "field": {"unit": str, "decimals": int, "custom": dict},
    "timeseries field": {"fillOpacity": int, "lineWidth": int, "showPoints": str, "spanNulls": bool},
    "timeseries": {"legend": dict, "tooltip": dict},
    "stat": {"reduceOptions": dict, "colorMode": str, "graphMode": str, "textMode": str},
    "table": {"showHeader": bool, "cellHeight": str},
    "legend": {"displayMode": str, "placement": str, "showLegend": bool, "calcs": list},
    "tooltip": {"mode": str, "sort": str},
    "variable": {
        "name": str, "label": str, "type": str, "datasource": dict, "query": object, "refresh": int, "sort": int,
        "multi": bool, "includeAll": bool, "allValue": str, "current": dict, "definition": str,
    },
    "annotation": {
        "name": str, "datasource": dict, "enable": bool, "iconColor": str, "expr": str, "titleFormat": str,
        "textFormat": str, "step": str,
    },
    "link": {
        "type": str, "title": str, "tags": list, "icon": str, "tooltip": str, "url": str, "asDropdown": bool,
        "targetBlank": bool, "includeVars": bool, "keepTime": bool,
    },
}  # fmt: skip


@each_board
def test_every_field_is_one_that_grafana_11_to_13_know_and_of_its_type(board: Board) -> None:
    def check(what: str, found: dict[str, Any]) -> None:
        for name, value in found.items():
            assert name in FIELDS[what], (what, name)
            assert isinstance(value, FIELDS[what][name]), (what, name, value)

    whole = dashboard(board)
    check("dashboard", whole)
    for kind, those in (("link", "links"), ("annotation", "annotations"), ("variable", "templating")):
        for one in whole[those] if kind == "link" else whole[those]["list"]:
            check(kind, one)
    for panel in whole["panels"]:
        kind = panel["type"]
        check("place", panel["gridPos"])
        check("row" if kind == "row" else "panel", panel)
        if kind != "row":
            check(kind, panel["options"])
            check("field", panel["fieldConfig"]["defaults"])
            check("timeseries field", panel["fieldConfig"]["defaults"].get("custom", {}))
            for part in ("legend", "tooltip"):
                check(part, panel["options"].get(part, {}))


def test_uids_and_titles_are_of_one_board_each() -> None:
    found = [dashboard(board) for board in BOARDS]
    for name in ("uid", "title"):
        assert len({one[name] for one in found}) == len(BOARDS)


@each_board
def test_each_query_heeds_the_cluster_that_is_chosen(board: Board) -> None:
    asked = [query.expression for panel in board.panels for query in panel.queries]
    for expression in [*asked, *(one.expression for one in board.annotations)]:
        # Braces that count are a pattern's.
        for selector in re.findall(r"\{(?![\d,]+\})([^}]*)\}", expression):
            assert 'cluster=~"$cluster"' in selector, expression


@each_board
def test_only_choices_that_the_board_offers_are_used(board: Board) -> None:
    offered = {"datasource", *(one.name for one in board.variables)}
    # $1 is a group of a pattern.
    used = set(re.findall(r"\$(?!1\b)\{?(\w+)", json.dumps(dashboard(board))))
    assert used - {"__rate_interval", "__all"} <= offered


@each_board
def test_a_choice_of_all_also_means_what_has_no_such_label(board: Board) -> None:
    for one in dashboard(board)["templating"]["list"][1:]:
        if one["includeAll"]:
            assert (one["allValue"], one["current"]["value"]) == (".*", ["$__all"])


def test_only_the_board_of_single_workloads_shows_none_but_what_is_chosen() -> None:
    chosen = [
        (board.name, one["name"])
        for board in BOARDS
        for one in dashboard(board)["templating"]["list"][1:]
        if not one["includeAll"]
    ]
    assert chosen == [("workload", "workload")]


def test_nothing_is_added_up_that_may_be_there_twice() -> None:
    for board in BOARDS:
        for panel in board.panels:
            for query in panel.queries:
                for inner in re.findall(r"\b(?:sum|count)(?: by \([^)]*\))? ?\((\w*)", query.expression):
                    assert inner in ("max", "histogram_quantile"), query.expression


def test_files_are_the_same_each_time_and_each_can_be_read() -> None:
    found = files()
    assert found == files()
    assert {name.partition("/")[0] for name in found} == {"dashboards", "rules"}
    for board in BOARDS:
        assert json.loads(found[f"dashboards/{board.name}.json"]) == dashboard(board)


def test_the_command_writes_every_file_and_names_it(tmp_path: Any) -> None:
    folder = tmp_path / "new"
    done = CliRunner().invoke(command(), ["dashboards", str(folder)])
    assert done.exit_code == 0
    assert {str(path.relative_to(folder)): path.read_text("utf-8") for path in folder.rglob("*.*")} == files()
    assert len(done.stdout.splitlines()) == len(files())


def test_a_folder_that_can_not_be_written_is_refused_by_its_name(tmp_path: Any) -> None:
    (tmp_path / "file").write_text("")
    done = CliRunner().invoke(command(), ["dashboards", str(tmp_path / "file")])
    assert done.exit_code == 1
    assert str(tmp_path / "file") in done.stderr


def _values(found: Any, name: str) -> Any:
    """Every value under a name, wherever it stands."""
    if isinstance(found, dict):
        for key, value in found.items():
            if key == name:
                yield value
            yield from _values(value, name)
    elif isinstance(found, list):
        for one in found:
            yield from _values(one, name)
