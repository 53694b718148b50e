"""Build the page with its tabs as a Dash app, and serve it on this machine until Ctrl-C."""

import errno
import ipaddress
import logging
import os
import socket
import threading
import webbrowser
from collections.abc import Callable
from typing import Any

import torch
from dash import ClientsideFunction, Dash, Input, Output, dcc, html
from werkzeug.serving import make_server as make_werkzeug_server

import udtw
from udtw.errors import OptionError
from udtw.explorer.image_tab import ImageTab
from udtw.explorer.security import check_loopback, protect
from udtw.explorer.series_alignment import SeriesSettings, align_series, prepare_series
from udtw.explorer.series_choices import WARPS, SeriesChoices
from udtw.explorer.series_tab import SeriesTab
from udtw.explorer.skeleton_tab import SkeletonTab
from udtw.explorer.tab import Tab

HOST, PORT = "127.0.0.1", 8050
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
    all_tabs: bool = False,
) -> Dash:
    """Create the explorer as a Dash app; ``app.server`` is its Flask application.

    Parameters
    ----------
    data_dir : path, optional
        Folder with data sets of the UCR archive, see `udtw.data.load_ucr`.
    model : path, optional
        Model written by `udtw images train`, for the image tab.
    backbone : str, optional
        Backbone of the model's tokens, see `udtw.images.load_backbone`.
    all_tabs : bool
        Whether to show images and skeletons too. They show the distribution over paths of generated data, but not yet
        what uncertainty gains there. With ``model``, the tab of images is always there.

    Examples
    --------
    >>> from udtw.explorer import create_app
    >>> app = create_app()
    >>> app.server.test_client().get("/").status_code
    200
    """
    tabs: dict[str, Tab] = {"Series": SeriesTab(data_dir)}
    if all_tabs or model is not None:
        tabs["Images"] = ImageTab(model, backbone)
    if all_tabs:
        tabs["Skeletons"] = SkeletonTab()
    names = [tab.name for tab in tabs.values()]
    named: dict[str, Any] = {"aria-label": "Kind of data", "hidden": len(tabs) == 1}
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
                    html.P("Know which matches to trust."),
                    html.Span(f"version {udtw.__version__}", className="version"),
                ]
            ),
            # Radio buttons, because dcc.Tabs of Dash 4.4 supports neither ARIA roles nor the keyboard.
            html.Nav(
                dcc.RadioItems(
                    [{"value": tab.name, "label": label} for label, tab in tabs.items()],
                    names[0],
                    id="tabs",
                    inline=True,
                    labelClassName="tab",
                ),
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
    protect(app.server, app.csp_hashes())
    return app


def warm_up() -> None:
    """Compile the kernels of the first request, and limit torch to one thread because the matrices are small."""
    torch.set_num_threads(1)
    x, y = (SeriesChoices().pick(WARPS, item) for item in (1, 0))
    for settings in (SeriesSettings(), SeriesSettings(variance="none", band=0.5)):
        align_series(prepare_series(x, y, settings), settings)


def serve(
    data_dir: str | os.PathLike | None = None,
    *,
    host: str = HOST,
    port: int = PORT,
    model: str | os.PathLike | None = None,
    backbone: str | None = None,
    all_tabs: bool = False,
    open_browser: bool = True,
    say: Callable[[str], None] = print,
) -> None:
    """Serve the page on a loopback address until Ctrl-C is pressed.

    Parameters
    ----------
    data_dir, model, backbone, all_tabs
        See `create_app`.
    host : str
        Loopback address such as 127.0.0.1; other addresses are refused.
    port : int
        Port number; 0 selects any free port.
    open_browser : bool
        Whether to open the page in the default browser.
    say : callable
        Called with each status line, such as the address of the page once it is ready.

    Examples
    --------
    >>> from udtw.explorer import serve
    >>> serve(host="0.0.0.0")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    udtw.errors.OptionError: The explorer is for this machine only and listens on a loopback address ...
    """
    address = check_loopback(host)
    listening = bind(address, port)  # before building the app, to report a busy port at once
    try:
        app = create_app(data_dir, model=model, backbone=backbone, all_tabs=all_tabs)
        say("starting …")
        warm_up()
        server = make_server(app, listening)
    except BaseException:
        listening.close()
        raise
    url = f"http://{f'[{address}]' if ':' in address else address}:{server.port}/"
    say(f"The explorer is at {url} (press Ctrl-C to stop)")
    if open_browser:
        threading.Thread(target=webbrowser.open, args=(url,), daemon=True).start()
    try:
        server.serve_forever()  # Werkzeug returns on Ctrl-C
    finally:
        server.server_close()
        listening.close()
    say("stopped")


def bind(address: str, port: int) -> socket.socket:
    """Open a socket that listens on the address and port, or raise an error with the reason."""
    if not 0 <= port <= 65535:
        raise OptionError(f"port must be from 0 (any free port) to 65535; got {port}.")
    family = socket.AF_INET6 if ipaddress.ip_address(address).version == 6 else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((address, port))
        listening.listen(32)
    except OSError as error:
        listening.close()
        if error.errno == errno.EADDRINUSE:
            raise OptionError(
                f"Port {port} is in use by another program. Choose another port, or 0 for any free one."
            ) from error
        if error.errno == errno.EACCES:
            raise OptionError(f"Permission denied for port {port}. Choose a port above 1023.") from error
        raise OptionError(f"Cannot listen on {address}, port {port}: {error.strerror}.") from error
    return listening


def make_server(app: Any, listening: socket.socket) -> Any:
    """Create a threaded server of the app on a listening socket."""
    logging.getLogger("werkzeug").setLevel(logging.ERROR)  # one line per request would hide everything else
    address, port = listening.getsockname()[:2]
    return make_werkzeug_server(address, port, app.server, threaded=True, fd=listening.fileno())
