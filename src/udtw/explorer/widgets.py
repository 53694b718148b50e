"""Controls of the page: each with a label that screen readers say, and keyboard use as the browser gives it."""

from collections.abc import Mapping
from typing import Any

from dash import dcc, html

GRAPH_CONFIG: Any = {
    "displaylogo": False,
    "showSendToCloud": False,  # nothing leaves this machine
    "plotlyServerURL": "",
    "responsive": True,
    "modeBarButtonsToRemove": ["lasso2d", "select2d", "autoScale2d", "zoomIn2d", "zoomOut2d", "sendChartToCloud"],
    "toImageButtonOptions": {"format": "png", "scale": 2},
}
PERCENT = {0: "0 %", 50: "50 %", 100: "none"}
BETAS = {0: "0", 1: "1", 3: "3", 5: "5"}


def _labelled(by: str) -> dict[str, Any]:
    return {"aria-labelledby": by}


def _named(name: str) -> dict[str, Any]:
    return {"aria-label": name}


def slider(
    id_: str, label: str, low: float, high: float, step: float, value: float, marks: Mapping[Any, str]
) -> html.Div:
    """A slider that answers while it is dragged. Its value is shown beside its label by `assets/explorer.js`."""
    return html.Div(
        [
            html.Div([html.Span(label, id=f"{id_}-label"), html.Output("", id=f"{id_}-shown")], className="caption"),
            dcc.Slider(
                low, high, step, value=value, id=id_, updatemode="drag", allow_direct_input=False, dots=False,
                marks={float(at) if at % 1 else int(at): text for at, text in marks.items()},
            ),
        ],
        className="control",
        role="group",
        **_labelled(f"{id_}-label"),
    )  # fmt: skip


def range_slider(id_: str, label: str, value: list[float], marks: Mapping[int, str]) -> html.Div:
    return html.Div(
        [
            html.Div([html.Span(label, id=f"{id_}-label"), html.Output("", id=f"{id_}-shown")], className="caption"),
            dcc.RangeSlider(
                0, 100, 1, value=value, id=id_, updatemode="drag", allow_direct_input=False, marks=dict(marks)
            ),
        ],
        className="control",
        role="group",
        **_labelled(f"{id_}-label"),
    )


def dropdown(id_: str, label: str, options: Mapping[Any, str], value: Any, **more: Any) -> html.Div:
    return html.Div(
        [
            html.Label(label, htmlFor=id_, className="caption"),
            dcc.Dropdown(
                [{"value": key, "label": text} for key, text in options.items()], value, id=id_, clearable=False, **more
            ),
        ],
        className="control",
    )


def radio(id_: str, label: str, options: Mapping[str, str], value: str, *, inline: bool = False) -> html.Div:
    return html.Div(
        [
            html.Div(label, id=f"{id_}-label", className="caption"),
            dcc.RadioItems(
                [{"value": key, "label": text} for key, text in options.items()], value, id=id_, inline=inline
            ),
        ],
        className="control",
        role="group",
        **_labelled(f"{id_}-label"),
    )


def upload(id_: str, text: str, accept: str) -> html.Div:
    """A place to drop a file. What arrives goes into the store ID-file if it is small enough, see explorer.js."""
    return html.Div(
        [
            dcc.Upload(html.Button(text, className="plain"), id=id_, accept=accept, className="upload"),
            html.Span("", id=f"{id_}-name", className="file-name"),
            dcc.Store(id=f"{id_}-file"),
            dcc.Store(id=f"{id_}-key"),
        ],
        className="upload-row",
    )


def card(id_: str, symbol: str, name: str, title: str) -> html.Div:
    """A number with its name; ``title`` explains it when pointed at."""
    return html.Div(
        [
            html.Div([html.Span(symbol, className="symbol"), html.Span(name)], className="card-name"),
            html.Output("–", id=id_, className="card-value"),
        ],
        className="card",
        title=title,
    )


def section(title: str, *children: Any) -> html.Div:
    return html.Div([html.H3(title), *children], className="section")


def graph(id_: str, height: int, description: str) -> html.Div:
    """A figure of ``height`` pixels."""
    return html.Div(
        dcc.Graph(id=id_, config=GRAPH_CONFIG, figure={"layout": {"height": height}}, style={"height": f"{height}px"}),
        className="figure",
        role="img",
        **_named(description),
    )


def downloads(tab: str) -> html.Div:
    """Picture, script, and a look at the script."""
    return html.Div(
        [
            html.Div(
                [
                    html.Button("Download picture (PNG)", id=f"{tab}-picture", className="plain"),
                    html.Button("Download Python", id=f"{tab}-script", className="plain"),
                    html.Output("", id=f"{tab}-took", className="took"),
                ],
                className="buttons",
            ),
            html.Details([html.Summary("Show the Python"), html.Pre("", id=f"{tab}-code", tabIndex=0)]),
            dcc.Download(id=f"{tab}-picture-file"),
            dcc.Download(id=f"{tab}-script-file"),
        ],
        className="downloads",
    )


def message(tab: str) -> html.Div:
    return html.Div("", id=f"{tab}-message", className="message", role="alert")


def number(value: float | None, digits: int = 5) -> str:
    """A number as it is read: a proper minus, no trailing noise."""
    if value is None:
        return "–"
    return f"{value:.{digits}g}".replace("-", "−")
