"""Connect the controls of a tab with the server; the same for all tabs.

While a slider is dragged, the browser would send more requests than the server can answer, and Dash drops answers
overtaken by newer requests. Therefore `assets/explorer.js` collects the controls of a tab in one store, TAB-request,
and fills it again only after the answer to the previous request has arrived (TAB-done).
"""

import logging
import time
from collections.abc import Callable, Mapping
from typing import Any

from dash import ClientsideFunction, Dash, Input, Output, State, dcc, no_update

from udtw.errors import OptionError, UdtwError
from udtw.explorer.control_values import ControlValues, Property, read_values

log = logging.getLogger("udtw.explorer")

Answer = Callable[[ControlValues], dict[str, Any]]
"""Function from the values of the controls to the outputs of a callback by name."""


def guarded(work: Callable[[], dict[str, Any]], outputs: Mapping[str, Any]) -> dict[str, Any]:
    """Return what ``work`` returns with an empty "message"; on an error, change only the message.

    The output "took", if present, is set to the elapsed time.
    """
    begin = time.perf_counter()
    unchanged = dict.fromkeys(outputs, no_update)
    try:
        answer = unchanged | work() | {"message": ""}
    except UdtwError as error:
        return unchanged | {"message": str(error)}
    except Exception as error:
        log.exception("unexpected error")
        return unchanged | {"message": f"Unexpected error ({type(error).__name__}); see the terminal for details."}
    if "took" in outputs:
        answer["took"] = f"computed in {1e3 * (time.perf_counter() - begin):.0f} ms"
    return answer


def stores(tab: str) -> list[dcc.Store]:
    """Create the stores that `register_update` uses."""
    return [dcc.Store(id=f"{tab}-{name}") for name in ("request", "done", "idle")]


def register_update(
    app: Dash, tab: str, controls: Mapping[str, Property], shown: Mapping[str, Property], work: Answer
) -> None:
    """Call ``work`` when a control changes; it returns the values of ``shown``."""
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
        answer = guarded(lambda: work(read_values(request, controls)), outputs)
        # Sent after errors as well, because the page waits for it.
        return answer | {"done": {"number": request.get("number") if isinstance(request, dict) else None}}


def register_download(app: Dash, tab: str, button: str, controls: Mapping[str, Property], work: Answer) -> None:
    """Call ``work`` when ``button`` is pressed; it returns the file to download."""
    outputs = {"file": Output(f"{tab}-{button}-file", "data"), "message": _message(tab)}

    @app.callback(
        output=outputs,
        inputs={"clicks": Input(f"{tab}-{button}", "n_clicks")},
        state={"values": {name: State(*where) for name, where in controls.items()}},
        prevent_initial_call=True,
    )
    def download(clicks: Any, values: dict[str, Any]) -> dict[str, Any]:
        return guarded(lambda: {"file": work(values)}, outputs)


def register_picture(app: Dash, tab: str) -> None:
    """Let the browser save the figures of the tab as they are shown: as NAME.png (of the button), NAME-2.png …"""
    app.clientside_callback(
        ClientsideFunction("explorer", "picture"),
        Output(f"{tab}-picture", "title"),
        Input(f"{tab}-picture", "n_clicks"),
        State(f"{tab}-picture", "name"),
        prevent_initial_call=True,
    )


def register_items(app: Dash, tab: str, source: str, target: str, work: Callable[[Any], dict[str, Any]]) -> None:
    """Call ``work`` when dropdown ``source`` changes; it returns the options and the value of dropdown ``target``."""
    outputs = {name: Output(target, name) for name in ("options", "value", "disabled")} | {"message": _message(tab)}

    @app.callback(output=outputs, inputs={"chosen": Input(source, "value")}, prevent_initial_call=True)
    def items(chosen: Any) -> dict[str, Any]:
        return guarded(lambda: work(chosen), outputs)


def register_files(app: Dash, upload: str, *keys: State) -> None:
    """Put uploaded files into the store UPLOAD-file as a list; with two ``keys``, a second file joins a first one."""
    app.clientside_callback(
        ClientsideFunction("explorer", "take"),
        Output(f"{upload}-file", "data"),
        Input(upload, "contents"),
        State(upload, "filename"),
        *keys,
        prevent_initial_call=True,
    )


def register_upload(app: Dash, tab: str, upload: str, target: str, work: Callable[..., tuple]) -> None:
    """Call ``work(contents, name)`` for an uploaded file.

    It returns the key of the file, its description, and the new value of dropdown ``target``.
    """
    register_files(app, upload)
    outputs = {
        "key": Output(f"{upload}-key", "data"),
        "name": Output(f"{upload}-name", "children"),
        "set": Output(target, "value"),
        "message": _message(tab),
    }

    @app.callback(output=outputs, inputs={"store": Input(f"{upload}-file", "data")}, prevent_initial_call=True)
    def take(store: Any) -> dict[str, Any]:
        def read() -> dict[str, Any]:
            [(contents, name)] = received(store)
            key, described, selected = work(contents, name)
            return {"key": key, "name": described, "set": selected}

        return guarded(read, outputs)


def received(store: Any) -> list[tuple[Any, Any]]:
    """Return contents and name of every file in a store of `register_files`."""
    files = store.get("files") if isinstance(store, dict) else None
    if not isinstance(files, list) or not all(isinstance(one, dict) for one in files) or not 1 <= len(files) <= 2:
        raise OptionError("The page sent no file. Choose it again.")
    return [(one.get("contents"), one.get("name")) for one in files]


def register_shown(app: Dash, slider: str, kind: str) -> None:
    """Write the value of a slider beside its label; ``kind`` is a function of explorer.js, such as plain or power."""
    app.clientside_callback(
        ClientsideFunction("explorer", kind), Output(f"{slider}-shown", "children"), Input(slider, "value")
    )


def _message(tab: str) -> Output:
    return Output(f"{tab}-message", "children", allow_duplicate=True)
