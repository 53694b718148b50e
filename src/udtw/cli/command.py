"""What every command does with files: the flags that say how series are read, and a check of what would be written."""

import inspect
import os
import warnings
from collections.abc import Callable
from enum import StrEnum
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, get_origin

import typer
from typer.models import OptionInfo

from udtw.cli import output
from udtw.cli.options import WRITES, parse_list
from udtw.data.table import ReadOptions
from udtw.errors import OptionError


class MissingPolicy(StrEnum):
    raise_ = "raise"
    omit = "omit"
    interpolate = "interpolate"


LABELS, IDS = "labels", "ids"
"""In ``reading: Annotated[ReadOptions, LABELS, IDS]``: a command whose tables have labels or names of series."""
FLAGS: dict[str, Any] = {
    "label_column": Annotated[str | None, typer.Option(metavar="NAME", help="Column of the class labels.")],
    "id_column": Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="Column with the names of series; if names repeat, a row is a step (long format)."
        ),
    ],
    "columns": Annotated[
        str | None,
        typer.Option(metavar="NAMES", help="Columns to use, as in `temp,humidity`: names, or numbers counted from 1."),
    ],
    "time_column": Annotated[
        str | None, typer.Option(metavar="NAME", help="Time column; detected if unambiguous.", show_default=False)
    ],
    "transpose": Annotated[
        bool | None,
        typer.Option("--transpose/--no-transpose", help="Exchange rows and columns first.", show_default=False),
    ],
    "missing": Annotated[
        MissingPolicy | None,
        typer.Option(
            help="Treatment of missing cells: raise an error, omit their steps, or interpolate linearly.",
            show_default="raise",
        ),
    ],
    "decimal": Annotated[
        str | None, typer.Option(metavar=".|,", help="Decimal separator; the other character separates thousands.")
    ],
    "skip_rows": Annotated[
        int | None, typer.Option(min=0, help="Leave out this many lines above the header.", show_default="0")
    ],
    "encoding": Annotated[
        str | None, typer.Option(metavar="NAME", help="Encoding of text files, such as latin-1.", show_default="UTF-8")
    ],
}
"""Fields of `ReadOptions`. A saved model keeps them, and `udtw predict` overrides those that are given."""
Force = Annotated[
    bool,
    typer.Option(
        "--force", help="Write even over a file that is read, or into a foreign folder.", rich_help_panel=WRITES
    ),
]


def command(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the command with a flag for each field of its ``reading``, and with ``--force`` if it writes files.

    No file is written over one that is read, and no two outputs have the same name. An output that cannot be written
    is an error before anything is computed; if writing fails afterwards, the exit code is 1 and the result is printed.
    """
    own = inspect.signature(function).parameters
    writes = [name for name, one in own.items() if _is_written(one)]
    parameters: list[inspect.Parameter] = []
    for name, one in own.items():
        flags = _reading_flags(one.annotation) if name == "reading" else {}
        parameters += [_optional(flag, annotation, None) for flag, annotation in flags.items()]
        if not flags:
            parameters.append(one.replace(kind=inspect.Parameter.KEYWORD_ONLY))
    if writes and "force" not in own:
        parameters.append(_optional("force", Force, False))

    @wraps(function)
    def run(**given: Any) -> None:
        force = given["force"] if "force" in own else given.pop("force", False)
        outputs = {_flag(own[name], name): given[name] for name in writes if given[name] is not None}
        inputs = [one for name, value in given.items() if name not in writes for one in _files(value)]
        check_outputs(outputs, inputs, force)
        if "reading" in own:
            fields = {name: given.pop(name) for name in FLAGS if name in given}
            fields = {name: value for name, value in fields.items() if value is not None}
            if "columns" in fields:
                fields["columns"] = tuple(parse_list(fields["columns"]) or ())
            if "missing" in fields:
                fields["missing"] = str(fields["missing"])
            as_given = _kind(own["reading"].annotation) is not ReadOptions
            given["reading"] = fields if as_given else ReadOptions(**fields)
        output.failures.clear()
        with warnings.catch_warnings():
            warnings.showwarning = lambda message, *rest: output.note(f"warning: {message}")
            function(**given)
        if output.failures:
            raise typer.Exit(1)

    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {one.name: one.annotation for one in parameters}
    del run.__wrapped__
    return run


def check_outputs(outputs: dict[str, Path], inputs: list[Any], force: bool) -> None:
    """Raise `OptionError` for an output (by its flag) that is an input or another output, or cannot be written."""
    read = {Path(one).resolve() for one in inputs}
    taken: dict[Path, str] = {}
    for flag, path in outputs.items():
        place = path.resolve()
        if place in read and not force:
            raise OptionError(f"{flag} {path} is one of the files that are read; choose another name, or add --force.")
        if place in taken:
            raise OptionError(f"{flag} and {taken[place]} are the same file, {path}; choose two names.")
        taken[place] = flag
        there = next(one for one in (place.parent, *place.parents) if one.exists())
        if not there.is_dir() or not os.access(there, os.W_OK | os.X_OK):
            raise OptionError(f"{flag} {path} cannot be written: {there} is not a folder that you may write to.")


def _reading_flags(annotation: Any) -> dict[str, Any]:
    extra = getattr(annotation, "__metadata__", ())
    left_out = {name for name, mark in (("label_column", LABELS), ("id_column", IDS)) if mark not in extra}
    return {name: one for name, one in FLAGS.items() if name not in left_out}


def _kind(annotation: Any) -> Any:
    return annotation.__origin__ if get_origin(annotation) is Annotated else annotation


def _optional(name: str, annotation: Any, default: Any) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def _option(parameter: inspect.Parameter) -> OptionInfo | None:
    return next((one for one in getattr(parameter.annotation, "__metadata__", ()) if isinstance(one, OptionInfo)), None)


def _is_written(parameter: inspect.Parameter) -> bool:
    option = _option(parameter)
    named = parameter.name == "out" or (option is not None and option.rich_help_panel == WRITES)
    return option is not None and named and parameter.name != "force"


def _flag(parameter: inspect.Parameter, name: str) -> str:
    """Return the flag as the user types it."""
    option = _option(parameter)
    named = [one for one in (option.default, *(option.param_decls or ())) if isinstance(one, str)] if option else []
    return next((one for one in named if one.startswith("--")), f"--{name.replace('_', '-')}")


def _files(value: Any) -> list[Path]:
    """Return the files that an option names: a file, several, or those of a saved forecaster, which is a folder."""
    if isinstance(value, list | tuple):
        return [file for one in value for file in _files(one)]
    if not isinstance(value, str | Path):
        return []
    place = Path(value)
    try:
        if (place / "config.json").is_file():
            return list(place.glob("*.json"))
        return [place] if place.is_file() else []
    except OSError:  # a text too long to be a name
        return []
