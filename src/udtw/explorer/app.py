"""The page: three tabs, one of them shown."""

import os

from dash import ClientsideFunction, Dash, Input, Output, dcc, html

import udtw
from udtw.explorer import image_tab, security, series_tab, skeleton_tab
from udtw.explorer.sources import Sources

TABS = {series_tab.TAB: "Series", image_tab.TAB: "Images", skeleton_tab.TAB: "Skeletons"}


def create_app(
    data_dir: str | os.PathLike | None = None,
    *,
    model: str | os.PathLike | None = None,
    backbone: str | None = None,
) -> Dash:
    """The explorer as a Dash app; ``app.server`` is its Flask application.

    ``data_dir``: a folder of the UCR archive, see `udtw.data.load_ucr`. ``model``: what `udtw images train` wrote, for
    tokens of ``backbone`` (see `udtw.images.load_backbone`).
    """
    sources = Sources(data_dir)
    pictures = image_tab.ImageTab(model, backbone)
    series, actions = series_tab.SeriesTab(sources), skeleton_tab.SkeletonTab()
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
                    html.P("An alignment is a random path: drag its temperature, its noise, and what it may trust."),
                    html.Span(f"version {udtw.__version__}", className="version"),
                ]
            ),
            dcc.Tabs([dcc.Tab(label=label, value=name) for name, label in TABS.items()], series_tab.TAB, id="tabs"),
            html.Main([series_tab.layout(sources), image_tab.layout(pictures), skeleton_tab.layout(actions)]),
        ]
    )
    app.clientside_callback(
        ClientsideFunction("explorer", "pages"),
        [Output(f"{name}-page", "style") for name in TABS],
        Input("tabs", "value"),
    )
    series_tab.register(app, series)
    image_tab.register(app, pictures)
    skeleton_tab.register(app, actions)
    security.protect(app.server, app.csp_hashes())
    return app


PAGE = """<!DOCTYPE html>
<html lang="en">
  <head>{%metas%}<title>{%title%}</title>{%favicon%}{%css%}</head>
  <body>{%app_entry%}<footer>{%config%}{%scripts%}{%renderer%}</footer></body>
</html>
"""


def warm_up() -> None:
    """Compile what the first request would wait for, and keep torch to one thread: matrices here are small."""
    import numpy as np
    import torch

    from udtw.explorer.series_settings import SeriesSettings
    from udtw.explorer.series_work import explore, prepare
    from udtw.explorer.sources import GENERATED

    torch.set_num_threads(1)
    x, y = (np.asarray(one)[:, None] for one in GENERATED["cbf-128"].make().X[:2])
    for settings in (SeriesSettings(noise=1.0), SeriesSettings(variance="none", band=0.5)):
        explore(prepare(x, y, settings), settings)
