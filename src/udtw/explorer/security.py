"""Control access: answer only requests from this machine, under a loopback name, and from the page itself.

A page of another site can make the browser send requests to 127.0.0.1 under its own host name (DNS rebinding) or from
its own origin; both are recognized by their headers and refused. The content security policy keeps the page from
loading anything from other servers.
"""

import ipaddress
from collections.abc import Sequence
from typing import Any
from urllib.parse import urlsplit

from flask import Flask, Response, abort, request

from udtw.errors import OptionError

MAX_REQUEST = 10 * 2**20
"""Largest request in bytes: an image of the largest allowed size in base64, and the settings."""


def check_loopback(host: str) -> str:
    """Return the address to bind to, or raise an error if other machines could reach it."""
    if host == "localhost":
        return "127.0.0.1"
    try:
        address = ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        address = None
    if address is None or not address.is_loopback:
        raise OptionError(
            f"The explorer is for this machine only and listens on a loopback address such as 127.0.0.1; got {host!r}. "
            "Use an SSH tunnel for access from another machine."
        )
    return str(address)


def is_loopback_name(netloc: str) -> bool:
    """Return whether a Host header, with or without a port, names this machine."""
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
    """Check every request, and send the content security policy with every response."""
    server.config["MAX_CONTENT_LENGTH"] = MAX_REQUEST
    scripts = " ".join(f"'{one.strip(chr(39))}'" for one in script_hashes)
    # plotly.js and Dash components set inline styles; downloaded images are blobs.
    policy = (
        f"default-src 'self'; script-src 'self' {scripts}; style-src 'self' 'unsafe-inline'; "
        "img-src 'self' data: blob:; connect-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
    )

    @server.before_request
    def refuse_others() -> None:
        if not is_loopback_name(request.host):
            abort(403, "This server only answers under its loopback address.")
        origin: Any = request.headers.get("Origin")
        if origin is not None and urlsplit(origin).netloc != request.host:
            abort(403, "This server only answers its own page.")

    @server.after_request
    def add_policy(response: Response) -> Response:
        response.headers["Content-Security-Policy"] = policy
        response.headers["X-Content-Type-Options"] = "nosniff"
        response.headers["Referrer-Policy"] = "no-referrer"
        return response
