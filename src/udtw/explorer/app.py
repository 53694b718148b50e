"""The page with its three tabs, as a Dash app."""

import os
from typing import Any

import torch
from dash import ClientsideFunction, Dash, Input, Output, dcc, html

import udtw
from udtw.explorer import security
from udtw.explorer.image_tab import ImageTab
from udtw.explorer.series_alignment import SeriesSettings, align_series, prepare_series
from udtw.explorer.series_choices import WARPS, SeriesChoices
from udtw.explorer.series_tab import SeriesTab
from udtw.explorer.skeleton_tab import SkeletonTab
from udtw.explorer.tab import Tab

PAGE = """<!DOCTYPE html>
<html lang="en">
  <head>{%metas%}<meta name="color-scheme" content="light dark"><title>{%title%}</title>{%favicon%}{%css%}</head>
  <body>{%app_entry%}<footer>{%config%}{%scripts%}{%renderer%}</footer></body>
</html>
"""


def create_app(
    data_dir: str | os.PathLike | None = None,
    *,
    model: str | os.PathLike | None = None,
    backbone: str | None = None,
) -> Dash:
    """The explorer as a Dash app; ``app.server`` is its Flask application.

    Parameters
    ----------
    data_dir : path, optional
        A folder with sets of the UCR archive, see `udtw.data.load_ucr`.
    model : path, optional
        A model written by `udtw images train`, for the tab of images.
    backbone : str, optional
        The backbone of the model's tokens, see `udtw.images.load_backbone`.

    Examples
    --------
    >>> from udtw.explorer import create_app
    >>> app = create_app()
    >>> app.server.test_client().get("/").status_code
    200
    """
    tabs: dict[str, Tab] = {
        "Series": SeriesTab(data_dir),
        "Images": ImageTab(model, backbone),
        "Skeletons": SkeletonTab(),
    }
    names = [tab.name for tab in tabs.values()]
    named: dict[str, Any] = {"aria-label": "Kind of data"}
    app = Dash(
        "udtw.explorer",
        assets_folder=os.path.join(os.path.dirname(__file__), "assets"),
        title="udtw explorer",
        update_title="",
        serve_locally=True,
        add_log_handler=False,
        enable_mcp=False,
        index_string=PAGE,
    )
    app.layout = html.Div(
        [
            html.Header(
                [
                    html.H1("udtw explorer"),
                    html.P("Which steps of two series match, and how sure is that?"),
                    html.Span(f"version {udtw.__version__}", className="version"),
                ]
            ),
            # Radio buttons, since dcc.Tabs of Dash 4.4 has neither roles nor keys.
            html.Nav(
                dcc.RadioItems(
                    [{"value": tab.name, "label": label} for label, tab in tabs.items()],
                    names[0],
                    id="tabs",
                    inline=True,
                    labelClassName="tab",
                ),
                role="radiogroup",
                **named,
            ),
            html.Main([tab.layout() for tab in tabs.values()]),
            dcc.Store(id="theme"),
        ]
    )
    app.clientside_callback(
        ClientsideFunction("explorer", "pages"),
        [Output(f"{name}-page", "style") for name in names],
        Input("tabs", "value"),
    )
    app.clientside_callback(ClientsideFunction("explorer", "theme"), Output("theme", "data"), Input("tabs", "id"))
    for tab in tabs.values():
        tab.register(app)
    security.protect(app.server, app.csp_hashes())
    return app


def warm_up() -> None:
    """Compile what the first request would wait for, and use one thread of torch, as the matrices are small."""
    torch.set_num_threads(1)
    x, y = (SeriesChoices().pick(WARPS, item) for item in (1, 0))
    for settings in (SeriesSettings(), SeriesSettings(variance="none", band=0.5)):
        align_series(prepare_series(x, y, settings), settings)
