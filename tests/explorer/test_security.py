"""Only requests from this machine, under a loopback name, from the page itself and of bounded size are answered."""

import pytest

from tests.explorer.helpers import SERIES, post, request_body
from udtw.errors import OptionError
from udtw.explorer.security import MAX_REQUEST, check_loopback, is_loopback_name


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.5", "localhost", "::1", "[::1]"])
def test_loopback_addresses_may_be_bound(host):
    assert check_loopback(host) in ("127.0.0.1", "127.0.0.5", "::1")


@pytest.mark.parametrize(
    "host", ["0.0.0.0", "::", "192.168.1.2", "example.org", "", "127.0.0.1.example.org", "localhost "]
)
def test_other_addresses_are_refused(host):
    with pytest.raises(OptionError, match="this machine only"):
        check_loopback(host)


@pytest.mark.parametrize("host", ["localhost:8050", "127.0.0.1:1", "127.0.0.1", "[::1]:8050"])
def test_the_page_is_served_under_loopback_names(app, host):
    assert is_loopback_name(host)
    response = app.server.test_client().get("/", headers={"Host": host})
    assert response.status_code == 200
    policy = response.headers["Content-Security-Policy"]
    assert "default-src 'self'" in policy
    assert "http" not in policy


@pytest.mark.parametrize("host", ["evil.example", "evil.example:8050", "127.0.0.1.evil.example", "10.0.0.1", "[bad"])
def test_a_rebound_name_is_refused(app, host):
    for path in ("/", "/_dash-layout", "/assets/explorer.js"):
        assert app.server.test_client().get(path, headers={"Host": host}).status_code in (400, 403)
    assert post(app, request_body(app, "series", SERIES), Host=host).status_code in (400, 403)


def test_a_page_of_another_origin_is_refused(app):
    body = request_body(app, "series", SERIES)
    for origin in ("https://evil.example", "http://localhost:9", "null"):
        assert post(app, body, Origin=origin).status_code == 403
    assert post(app, body, Origin="http://localhost").status_code == 200


def test_requests_beyond_the_limit_are_refused(app):
    response = app.server.test_client().post(
        "/_dash-update-component", data=b"x" * (MAX_REQUEST + 1), content_type="application/json"
    )
    assert response.status_code == 413


@pytest.mark.parametrize(
    "path",
    ["/assets/../app.py", "/assets/%2e%2e/app.py", "/assets/..%2fapp.py", "/../../etc/passwd", "/assets//etc/passwd"],
)
def test_no_path_leads_out_of_the_assets(app, path):
    response = app.server.test_client().get(path)
    assert b"create_app" not in response.data
    assert b"root:" not in response.data


def test_the_page_loads_nothing_from_elsewhere(app):
    page = app.server.test_client().get("/").text
    assert "//cdn" not in page
    assert "https://" not in page
