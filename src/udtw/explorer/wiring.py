"""How controls reach the server, alike in all tabs.

While a slider is dragged the browser would send more than can be answered, and Dash drops answers that newer requests
have overtaken. So `assets/explorer.js` gathers all controls of a tab into one store, TAB-request, and fills it again
only when the answer to the last request is there (TAB-done).
"""

from collections.abc import Callable, Mapping
from typing import Any

from dash import ClientsideFunction, Dash, Input, Output, State, dcc

from udtw.errors import OptionError
from udtw.explorer.answers import guarded

Said = Mapping[str, Any]
"""Values of the controls by their short names."""

Where = tuple[str, str]
"""A component and its property."""

Work = Callable[[Said], dict[str, Any]]


def stores(tab: str) -> list[dcc.Store]:
    return [dcc.Store(id=f"{tab}-request"), dcc.Store(id=f"{tab}-done"), dcc.Store(id=f"{tab}-idle")]


def said_by(request: Any, controls: Mapping[str, Where]) -> dict[str, Any]:
    """Short names and values from what the browser put into the store."""
    values = request.get("values") if isinstance(request, dict) else None
    if not isinstance(values, dict):
        raise OptionError("The page sent no settings. Load it again.")
    missing = [name for name, (component, prop) in controls.items() if f"{component}.{prop}" not in values]
    if missing:
        raise OptionError(f"The page did not send {', '.join(missing)}. Load it again.")
    return {name: values[f"{component}.{prop}"] for name, (component, prop) in controls.items()}


def register_update(app: Dash, tab: str, controls: Mapping[str, Where], shown: Mapping[str, Where], work: Work) -> None:
    """``work`` fills ``shown`` (components and properties by short names) whenever a control changes."""
    app.clientside_callback(
        ClientsideFunction("explorer", "request"),
        Output(f"{tab}-request", "data"),
        Input("tabs", "value"),
        *(Input(*where) for where in controls.values()),
    )
    app.clientside_callback(
        ClientsideFunction("explorer", "done"),
        Output(f"{tab}-idle", "data"),
        Input(f"{tab}-done", "data"),
        prevent_initial_call=True,
    )
    outputs = {name: Output(*where) for name, where in shown.items()}
    outputs |= {name: Output(f"{tab}-{name}", "children") for name in ("message", "took")}
    outputs["done"] = Output(f"{tab}-done", "data")

    @app.callback(output=outputs, inputs={"request": Input(f"{tab}-request", "data")}, prevent_initial_call=True)
    def update(request: Any) -> dict[str, Any]:
        answer = guarded(lambda: work(said_by(request, controls)), outputs)
        # Always, or the page would wait for it.
        return answer | {"done": {"number": request.get("number") if isinstance(request, dict) else None}}


def register_download(app: Dash, tab: str, button: str, controls: Mapping[str, Where], work: Work) -> None:
    """``work`` makes the file that is downloaded when ``button`` is pressed."""
    outputs = {"file": Output(f"{tab}-{button}-file", "data"), "message": _message(tab)}

    @app.callback(
        output=outputs,
        inputs={"clicks": Input(f"{tab}-{button}", "n_clicks")},
        state={"values": {name: State(*where) for name, where in controls.items()}},
        prevent_initial_call=True,
    )
    def download(clicks: Any, values: dict[str, Any]) -> dict[str, Any]:
        return guarded(lambda: {"file": work(values)}, outputs)


def register_items(app: Dash, tab: str, source: str, target: str, work: Callable[[Any], dict[str, Any]]) -> None:
    """``work`` gives the options and the value of dropdown ``target`` for what is chosen in ``source``."""
    outputs = {name: Output(target, name) for name in ("options", "value", "disabled")} | {"message": _message(tab)}

    @app.callback(output=outputs, inputs={"chosen": Input(source, "value")}, prevent_initial_call=True)
    def items(chosen: Any) -> dict[str, Any]:
        return guarded(lambda: work(chosen), outputs)


def register_upload(app: Dash, tab: str, upload: str, target: str, limit: int, work: Callable[..., tuple]) -> None:
    """A file of at most ``limit`` bytes is read by ``work(contents, name)``, which gives its key, its description, and
    what dropdown ``target`` is set to."""
    app.clientside_callback(
        f"function(contents, name) {{ return dash_clientside.explorer.take(contents, name, {limit}, '{tab}'); }}",
        Output(f"{upload}-file", "data"),
        Input(upload, "contents"),
        State(upload, "filename"),
        prevent_initial_call=True,
    )
    outputs = {
        "key": Output(f"{upload}-key", "data"),
        "name": Output(f"{upload}-name", "children"),
        "set": Output(target, "value"),
        "message": _message(tab),
    }

    @app.callback(output=outputs, inputs={"file": Input(f"{upload}-file", "data")}, prevent_initial_call=True)
    def take(file: Any) -> dict[str, Any]:
        given = file if isinstance(file, dict) else {}
        names = ("key", "name", "set")
        return guarded(lambda: dict(zip(names, work(given.get("contents"), given.get("name")), strict=True)), outputs)


def register_shown(app: Dash, slider: str, kind: str) -> None:
    """The value of a slider beside its label; ``kind`` is a function of explorer.js: plain, power, percent or range."""
    app.clientside_callback(
        ClientsideFunction("explorer", kind), Output(f"{slider}-shown", "children"), Input(slider, "value")
    )


def _message(tab: str) -> Output:
    return Output(f"{tab}-message", "children", allow_duplicate=True)
