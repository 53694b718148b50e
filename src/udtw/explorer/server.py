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
    """Serve the page on a loopback address; port 0 takes a free one. ``say`` gets the address when it is ready."""
    address = check_loopback(host)
    listening = bind(address, port)  # before the slow part: a busy port is known at once
    try:
        app = create_app(data_dir, model=model, backbone=backbone)
        say("getting ready …")
        warm_up()
        server = make_server(app, listening)
    except BaseException:
        listening.close()
        raise
    url = f"http://{f'[{address}]' if ':' in address else address}:{server.port}/"
    say(f"The explorer is at {url} (Ctrl-C ends it)")
    if open_browser:
        threading.Thread(target=webbrowser.open, args=(url,), daemon=True).start()
    try:
        server.serve_forever()  # Werkzeug returns from it at Ctrl-C
    finally:
        server.server_close()
        listening.close()
    say("stopped")


def bind(address: str, port: int) -> socket.socket:
    """A socket that listens there, or an error that says why not."""
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
            raise OptionError(f"Port {port} may not be used by this user. Choose one above 1023.") from error
        raise OptionError(f"Nothing can listen on {address}, port {port}: {error.strerror}.") from error
    return listening


def make_server(app: Any, listening: socket.socket) -> Any:
    """A threaded server of the app on a socket that listens already."""
    from werkzeug.serving import make_server as werkzeug_server

    logging.getLogger("werkzeug").setLevel(logging.ERROR)  # a line for each request would hide all else
    address, port = listening.getsockname()[:2]
    return werkzeug_server(address, port, app.server, threaded=True, fd=listening.fileno())
