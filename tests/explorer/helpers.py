"""Values and requests as the page sends them, and the answers to them."""

import base64
import json

SERIES = {
    "x-set": "cbf-128", "x-item": 0, "x-key": None, "y-set": "cbf-128", "y-item": 3, "y-key": None, "gamma": -1,
    "beta": 1, "band": 100, "noise": 1, "stretch": [40, 60], "side": "x", "variance": "known",
    "scale": ["znormalize"], "paths": 5, "seed": 0, "view": "matrix", "theme": "light",
}  # fmt: skip
FIRST = SERIES | {
    "x-set": "warps", "x-item": 1, "y-set": "warps", "y-item": 0, "gamma": 0.6, "noise": 0, "stretch": [40, 60],
    "variance": "match", "scale": [], "paths": 20, "view": "lines",
}  # fmt: skip
"""The first view of the page."""
IMAGES = {
    "x-set": "disc striped", "x-item": 0, "x-key": None, "y-set": "disc striped", "y-item": 1, "y-key": None,
    "gamma": -1.5, "beta": 1, "band": 100, "order": "raster", "position": 0.2, "variance": "contrast", "matches": 8,
    "patch": 50, "theme": "light",
}  # fmt: skip
SKELETONS = {
    "x-set": "wave left", "x-item": 0, "y-set": "wave left", "y-item": 1, "gamma": -1, "beta": 1, "band": 100,
    "variance": "rough", "frame": 50, "theme": "light",
}  # fmt: skip


def data_url(content, kind="text/csv"):
    return f"data:{kind};base64,{base64.b64encode(content).decode()}"


def request_body(app, tab, values, number=1):
    """What the page posts when a control of ``tab`` changes."""
    [output] = [
        key
        for key, one in app.callback_map.items()
        if [i["id"] for i in one["inputs"]] == [f"{tab}-request"] and f"{tab}-done" in key
    ]
    parts = [part.rsplit(".", 1) for part in output.strip(".").split("...")]
    sent = {
        f"{tab}-{name.replace('-key', '-upload-key')}.{'data' if name.endswith('-key') else 'value'}": value
        for name, value in values.items()
        if name != "theme"
    } | {"theme.data": values["theme"]}
    return {
        "output": output,
        "outputs": [{"id": component, "property": prop} for component, prop in parts],
        "inputs": [{"id": f"{tab}-request", "property": "data", "value": {"number": number, "values": sent}}],
        "changedPropIds": [f"{tab}-request.data"],
    }


def post(app, body, **headers):
    return app.server.test_client().post("/_dash-update-component", json=body, headers=headers)


def answer(app, tab, values):
    """The outputs of one request, by component."""
    response = post(app, request_body(app, tab, values))
    assert response.status_code == 200, response.text[:500]
    return json.loads(response.text)["response"]
