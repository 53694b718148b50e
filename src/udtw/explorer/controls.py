"""Build parts of the page: controls accessible by screen reader and keyboard, numbers, figures and downloads."""

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


def _captioned(id_: str, label: str, control: Any) -> html.Div:
    """Add a label to a slider; `assets/explorer.js` writes its value beside the label."""
    caption = html.Div([html.Span(label, id=f"{id_}-label"), html.Output("", id=f"{id_}-shown")], className="caption")
    return _group(id_, caption, control)


def _group(id_: str, caption: html.Div, control: Any) -> html.Div:
    labelled: dict[str, Any] = {"aria-labelledby": f"{id_}-label"}
    return html.Div([caption, control], className="control", role="group", **labelled)


def slider(
    id_: str, label: str, limits: tuple[float, float], step: float, value: float, marks: Mapping[Any, str]
) -> html.Div:
    """Build a slider that sends its value while it is dragged."""
    marked = {float(at) if at % 1 else int(at): text for at, text in marks.items()}
    control = dcc.Slider(
        *limits, step, value=value, id=id_, updatemode="drag", allow_direct_input=False, dots=False, marks=marked
    )
    return _captioned(id_, label, control)


def range_slider(id_: str, label: str, value: list[float], marks: Mapping[int, str]) -> html.Div:
    """Build a slider with two ends, from 0 to 100."""
    control = dcc.RangeSlider(
        0, 100, 1, value=value, id=id_, updatemode="drag", allow_direct_input=False, marks=dict(marks)
    )
    return _captioned(id_, label, control)


def dropdown(id_: str, label: str, options: Mapping[Any, str], value: Any, **more: Any) -> html.Div:
    """Build a labeled dropdown."""
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
    """Build labeled radio buttons."""
    caption = html.Div(label, id=f"{id_}-label", className="caption")
    choices = [{"value": key, "label": text} for key, text in options.items()]
    return _group(id_, caption, dcc.RadioItems(choices, value, id=id_, inline=inline))


def upload(id_: str, text: str, limit: int, most: int = 1) -> html.Div:
    """Build a button to upload up to ``most`` files; `assets/explorer.js` puts them into the store ID-file.

    The button accepts any kind and number of files, so that the page can explain why it refuses them.
    """
    limits: dict[str, Any] = {"data-limit": str(limit), "data-most": str(most)}
    return html.Div(
        [
            dcc.Upload(html.Button(text, className="plain"), id=id_, multiple=True, className="upload"),
            html.Span("", id=f"{id_}-name", className="file-name", role="status"),
            dcc.Store(id=f"{id_}-file"),
            dcc.Store(id=f"{id_}-key"),
        ],
        className="upload-row",
        **limits,
    )


def advanced(*children: Any) -> html.Div:
    """Build controls that are folded away at first."""
    return html.Div(_folded("Advanced", *children, className="advanced"))


def _folded(title: str, *children: Any, className: str = "") -> list[Any]:
    """Fold ``children`` away below a title; beside it, as Chromium 156 never lets the Tab key leave open details."""
    return [html.Details(html.Summary(title), className=className), html.Div(list(children), className="unfolded")]


def card(id_: str, symbol: str, name: str, title: str) -> html.Div:
    """Build a number with its name and its explanation."""
    return html.Div(
        [
            html.Div([html.Span(symbol, className="symbol"), html.Span(name)], className="card-name"),
            html.Output("–", id=id_, className="card-value"),
            html.Div(title, className="card-note"),
        ],
        className="card",
    )


def section(title: str, *children: Any) -> html.Div:
    """Build a titled group of controls."""
    return html.Div([html.H2(title), *children], className="section")


def graph(id_: str, height: int, description: str, *, wide: bool = False) -> html.Div:
    """Build a figure of ``height`` pixels, described for screen readers; wide ones scroll on narrow screens."""
    named: dict[str, Any] = {"aria-label": description}
    return html.Div(
        dcc.Graph(id=id_, config=GRAPH_CONFIG, figure={"layout": {"height": height}}, style={"height": f"{height}px"}),
        className="figure wide" if wide else "figure",
        role="figure",  # not an image: it can be zoomed and dragged over
        **named,
    )


def downloads(tab: str, file: str) -> html.Div:
    """Build buttons to download the picture and the script, and a preview of the script."""
    return html.Div(
        [
            html.Div(
                [
                    html.Button("Download picture (PNG)", id=f"{tab}-picture", name=file, className="plain"),
                    html.Button("Download Python", id=f"{tab}-script", className="plain"),
                    html.Output("", id=f"{tab}-took", className="took"),
                ],
                className="buttons",
            ),
            *_folded("Show the Python", html.Pre("", id=f"{tab}-code", tabIndex=0)),
            dcc.Download(id=f"{tab}-script-file"),
        ],
        className="downloads",
    )


def sentence(tab: str) -> html.P:
    """Build the one-sentence figure caption."""
    return html.P("", id=f"{tab}-sentence", className="sentence", role="status")


def message(tab: str) -> html.Div:
    """Build the place of error messages."""
    return html.Div("", id=f"{tab}-message", className="message", role="alert")


def shown_number(value: float | None, digits: int = 5) -> str:
    """Format a number with a few digits and a typographic minus; a dash for None."""
    if value is None:
        return "–"
    return f"{value:.{digits}g}".replace("-", "−")
