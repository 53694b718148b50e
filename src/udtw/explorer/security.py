"""Who may talk to the server: this machine's own browser, by a loopback name, from the page itself.

A page of another site can make the browser send requests to 127.0.0.1 under a name of its own (DNS rebinding), or from
its own origin; both are refused by their headers. The policy keeps the page from loading anything from elsewhere.
"""

import ipaddress
from collections.abc import Sequence
from typing import Any
from urllib.parse import urlsplit

from flask import Flask, Response, abort, request

from udtw.errors import OptionError

MAX_REQUEST = 10 * 2**20
"""Bytes: an image of the largest size allowed in base64, and some settings."""


def check_loopback(host: str) -> str:
    """The address to bind to, or an error unless it is this machine only."""
    if host == "localhost":
        return "127.0.0.1"
    try:
        address = ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        address = None
    if address is None or not address.is_loopback:
        raise OptionError(
            f"The explorer is for this machine only and listens on a loopback address such as 127.0.0.1; got {host!r}. "
            "From another machine, use an SSH tunnel."
        )
    return str(address)


def is_loopback_name(netloc: str) -> bool:
    """Whether a Host header, with or without a port, names this machine."""
    try:
        name = urlsplit(f"//{netloc}").hostname or ""
    except ValueError:
        return False
    if name == "localhost":
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


def protect(server: Flask, script_hashes: Sequence[str]) -> None:
    """Check every request, and send the policy with every answer."""
    server.config["MAX_CONTENT_LENGTH"] = MAX_REQUEST
    scripts = " ".join(f"'{one.strip(chr(39))}'" for one in script_hashes)
    # plotly.js and Dash's components set styles in place; images to be downloaded are blobs.
    policy = (
        f"default-src 'self'; script-src 'self' {scripts}; style-src 'self' 'unsafe-inline'; "
        "img-src 'self' data: blob:; connect-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
    )

    @server.before_request
    def refuse_others() -> None:
        if not is_loopback_name(request.host):
            abort(403, "This server answers to its loopback address only.")
        origin: Any = request.headers.get("Origin")
        if origin is not None and urlsplit(origin).netloc != request.host:
            abort(403, "This server answers its own page only.")

    @server.after_request
    def add_policy(response: Response) -> Response:
        response.headers["Content-Security-Policy"] = policy
        response.headers["X-Content-Type-Options"] = "nosniff"
        response.headers["Referrer-Policy"] = "no-referrer"
        return response
