"""Requests as the page posts them: each gets an answer, or a message while everything else stays unchanged."""

import json

import pytest

from tests.explorer.helpers import IMAGES, SERIES, SKELETONS, answer, post, request_body
from udtw.explorer import create_app


@pytest.mark.parametrize(
    ("tab", "values", "figures"),
    [
        ("series", SERIES, ("alignment",)),
        ("images", IMAGES, ("match", "maps")),
        ("skeletons", SKELETONS, ("match", "sigma")),
    ],
)
def test_a_request_is_answered_with_everything_that_is_shown(app, tab, values, figures):
    found = answer(app, tab, values)
    assert found[f"{tab}-message"]["children"] == ""
    assert found[f"{tab}-done"]["data"] == {"number": 1}
    assert float(found[f"{tab}-distance"]["children"]) > 0
    assert "udtw.align(" in found[f"{tab}-code"]["children"]
    for name in figures:
        assert found[f"{tab}-{name}"]["figure"]["data"]


def test_an_error_is_a_message_and_the_page_goes_on(app):
    found = answer(app, "series", SERIES | {"x-set": "../../etc/passwd"})
    assert "must be one of" in found["series-message"]["children"]
    assert found["series-done"]["data"] == {"number": 1}
    assert "series-alignment" not in found


@pytest.mark.parametrize("value", [None, 3, [], {}, {"values": 5}, {"values": {}}])
def test_a_request_without_settings_is_a_message_too(app, value):
    body = request_body(app, "series", SERIES)
    body["inputs"][0]["value"] = value
    response = post(app, body)
    assert response.status_code == 200
    assert "Reload the page" in json.loads(response.text)["response"]["series-message"]["children"]


def test_an_unexpected_error_is_reported_without_its_details(app, monkeypatch, caplog):
    monkeypatch.setattr("udtw.explorer.series_tab.align_series", lambda *_: 1 / 0)
    found = answer(app, "series", SERIES)
    assert found["series-message"]["children"] == "Unexpected error (ZeroDivisionError); see the terminal for details."
    assert "ZeroDivisionError" in caplog.text


def test_a_newcomer_sees_series_only(app):
    """Images and skeletons do not show yet what uncertainty gains there."""
    pages = [
        json.dumps(one.layout.to_plotly_json(), default=lambda part: part.to_plotly_json())
        for one in (create_app(), app)
    ]
    for tab, expected in (("series", [True, True]), ("images", [False, True]), ("skeletons", [False, True])):
        assert [f'"id": "{tab}-page"' in page for page in pages] == expected
    assert ['"hidden": true' in page for page in pages] == [True, False], "one tab needs no choice"
