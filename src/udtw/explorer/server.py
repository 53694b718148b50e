"""Run the explorer on this machine until Ctrl-C."""

import errno
import ipaddress
import logging
import os
import socket
import threading
import webbrowser
from collections.abc import Callable
from typing import Any

from werkzeug.serving import make_server as make_werkzeug_server

from udtw.errors import OptionError
from udtw.explorer.app import create_app, warm_up
from udtw.explorer.security import check_loopback

HOST, PORT = "127.0.0.1", 8050


def serve(
    data_dir: str | os.PathLike | None = None,
    *,
    host: str = HOST,
    port: int = PORT,
    model: str | os.PathLike | None = None,
    backbone: str | None = None,
    open_browser: bool = True,
    say: Callable[[str], None] = print,
) -> None:
    """Serve the page on a loopback address until Ctrl-C is pressed.

    Parameters
    ----------
    data_dir, model, backbone
        See `create_app`.
    host : str
        A loopback address such as 127.0.0.1; all others are refused.
    port : int
        0 takes any free port.
    open_browser : bool
        Open the page in the default browser.
    say : callable
        Called with each line to report, such as the address of the page once it is ready.

    Examples
    --------
    >>> from udtw.explorer import serve
    >>> serve(port=0)  # doctest: +SKIP
    starting …
    The explorer is at http://127.0.0.1:35127/ (press Ctrl-C to stop)
    stopped

    >>> serve(host="0.0.0.0")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    udtw.errors.OptionError: The explorer is for this machine only and listens on a loopback address ...
    """
    address = check_loopback(host)
    listening = bind(address, port)  # first, so that a busy port is reported at once
    try:
        app = create_app(data_dir, model=model, backbone=backbone)
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
    """A socket that listens on the address and port, or an error with the reason."""
    if not 0 <= port <= 65535:
        raise OptionError(f"A port is a number from 0 (any free one) to 65535; got {port}.")
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
                f"Port {port} is in use by another program. Choose another, or 0 for any free one."
            ) from error
        if error.errno == errno.EACCES:
            raise OptionError(f"This user may not use port {port}. Choose one above 1023.") from error
        raise OptionError(f"Cannot listen on {address}, port {port}: {error.strerror}.") from error
    return listening


def make_server(app: Any, listening: socket.socket) -> Any:
    """A threaded server of the app on a socket that already listens."""
    logging.getLogger("werkzeug").setLevel(logging.ERROR)  # one line per request would hide everything else
    address, port = listening.getsockname()[:2]
    return make_werkzeug_server(address, port, app.server, threaded=True, fd=listening.fileno())
