"""A board as the JSON that Grafana 11 to 13 imports (dashboard schema version 39, which newer ones take up).

Owns that form and where panels stand. Nothing in it names a data source: that is a choice at the top.
"""

from typing import Any, Final

from elastipod.dashboards.panels import Annotation, Board, Kind, Panel, Row, Unit, Variable

Json = dict[str, Any]

_SCHEMA: Final = 39
_COLUMNS: Final = 24
_SOURCE: Final = {"type": "prometheus", "uid": "${datasource}"}
_LABEL_VALUES: Final = 1
"""What a variable asks for, in the words of Grafana's Prometheus data source."""
_LINK: Final = {
    "type": "dashboards",
    "title": "elastipod",
    "tags": ["elastipod"],
    "icon": "external link",
    "tooltip": "",
    "url": "",
    "asDropdown": True,
    "targetBlank": False,
    "includeVars": True,
    "keepTime": True,
}
"""To the other boards, with what is chosen."""
_MOST_POINTS: Final = 300
"""Of a curve: what Prometheus does for it grows with them."""
_DRAWN: Final[dict[Kind, Json]] = {
    Kind.CURVES: {
        "legend": {"displayMode": "table", "placement": "bottom", "showLegend": True, "calcs": ["lastNotNull", "max"]},
        "tooltip": {"mode": "multi", "sort": "desc"},
    },
    Kind.NUMBER: {
        "reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False},
        "colorMode": "none",
        "graphMode": "none",
        "textMode": "value_and_name",
    },
    Kind.TABLE: {"showHeader": True, "cellHeight": "sm"},
}


def dashboard(board: Board) -> Json:
    """The JSON of a board."""
    return {
        "uid": f"elastipod-{board.name}",
        "title": board.title,
        "description": board.description,
        "tags": ["elastipod"],
        "schemaVersion": _SCHEMA,
        "version": 1,
        "editable": True,
        "graphTooltip": 1,
        "timezone": "browser",
        "time": {"from": "now-24h", "to": "now"},
        "refresh": "1m",
        "annotations": {"list": [_annotation(one) for one in board.annotations]},
        "templating": {"list": [_datasource(), *(_variable(one) for one in board.variables)]},
        "links": [_LINK],
        "panels": _placed(board.rows),
    }


def _placed(rows: tuple[Row, ...]) -> list[Json]:
    """All panels from left to right and from top to bottom, numbered."""
    placed: list[Json] = []
    top = 0
    for row in rows:
        where = {"x": 0, "y": top, "w": _COLUMNS, "h": 1}
        heading = {"type": "row", "title": row.title, "gridPos": where, "collapsed": False, "panels": []}
        placed.append({"id": len(placed) + 1, **heading})
        top, left, tallest = top + 1, 0, 0
        for panel in row.panels:
            if left + panel.width > _COLUMNS:
                top, left, tallest = top + tallest, 0, 0
            where = {"x": left, "y": top, "w": panel.width, "h": panel.height}
            placed.append({"id": len(placed) + 1, "gridPos": where, **_panel(panel)})
            left, tallest = left + panel.width, max(tallest, panel.height)
        top += tallest
    return placed


def _panel(panel: Panel) -> Json:
    is_table = panel.kind is Kind.TABLE
    found: Json = {
        "type": str(panel.kind),
        "title": panel.title,
        "description": panel.description,
        "datasource": _SOURCE,
        "fieldConfig": {"defaults": _field(panel), "overrides": []},
        "options": _DRAWN[panel.kind],
        "targets": [
            {
                "refId": chr(ord("A") + number),
                "datasource": _SOURCE,
                "expr": query.expression,
                "legendFormat": query.legend or "__auto",
                "instant": panel.kind is not Kind.CURVES,
                "range": panel.kind is Kind.CURVES,
                "format": "table" if is_table else "time_series",
            }
            for number, query in enumerate(panel.queries)
        ],
    }
    if panel.kind is Kind.CURVES:
        found["maxDataPoints"] = _MOST_POINTS
    if is_table:
        # A column for each label, and one for the value.
        named = {"Value": panel.title}
        found["transformations"] = [
            {"id": "organize", "options": {"excludeByName": {"Time": True}, "indexByName": {}, "renameByName": named}},
            {"id": "sortBy", "options": {"fields": {}, "sort": [{"field": panel.title, "desc": True}]}},
        ]
    return found


def _field(panel: Panel) -> Json:
    field: Json = {"unit": str(panel.unit)}
    if panel.unit in (Unit.MONEY, Unit.CORES):
        field["decimals"] = 2
    if panel.kind is Kind.CURVES:
        field["custom"] = {"fillOpacity": 5, "lineWidth": 1, "showPoints": "auto", "spanNulls": False}
    return field


def _datasource() -> Json:
    return {"name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus"}


def _variable(variable: Variable) -> Json:
    query = f"label_values({variable.metric}, {variable.name})"
    return {
        "name": variable.name,
        "label": variable.label,
        "type": "query",
        "datasource": _SOURCE,
        "query": {"qryType": _LABEL_VALUES, "query": query, "refId": "PrometheusVariableQueryEditor-VariableQuery"},
        "definition": query,
        "refresh": 2,
        "sort": 1,
        "multi": True,
        "includeAll": variable.has_all,
        # A label that is nowhere set matches this, and not a list of values.
        **({"allValue": ".*", "current": {"text": ["All"], "value": ["$__all"]}} if variable.has_all else {}),
    }


def _annotation(annotation: Annotation) -> Json:
    return {
        "name": annotation.name,
        "datasource": _SOURCE,
        "enable": True,
        "expr": annotation.expression,
        "titleFormat": annotation.name,
        "textFormat": annotation.text,
        "iconColor": annotation.colour,
        "step": "1m",
    }
