"""Options that several commands share, and how their values are parsed."""

from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from udtw._engine.metrics import METRICS, get_metric, metric_names
from udtw.cli.output import check_figure_name, check_table_name
from udtw.errors import OptionError
from udtw.images.datasets import NAMES

WRITES = "Files that are written"
"""Panel of the help, by which `udtw.cli.command` knows the options that name a file to be written."""


def name_option(what: str, kind: str, names: Callable[[], Sequence[str]], **shown: Any) -> Any:
    """Return an option whose value is one of ``names()``, called when the command is parsed; ``what`` is its help."""

    def known(name: str | None) -> str | None:
        if name is not None and name not in names():
            raise typer.BadParameter(f"{name!r} is not a {kind}; choose one of {', '.join(names())}.")
        return name

    text = f"{what}: {', '.join(names())}, or a registered {kind}."
    return typer.Option(metavar="NAME", help=text, callback=known, autocompletion=lambda: list(names()), **shown)


Metric = Annotated[str, name_option("Distance between series", "metric", metric_names)]
Gamma = Annotated[
    float | None,
    typer.Option(
        help="Temperature γ of the paths, > 0: near 0 only the best path counts, large values count all paths.",
        show_default="that of the metric or model",
    ),
]
Beta = Annotated[
    float | None,
    typer.Option(help="Weight β of the uncertainty regularizer Ω (udtw).", show_default="that of the metric or model"),
]
Band = Annotated[
    str | None,
    typer.Option(
        help="Restrict paths to a band around the diagonal: a radius in steps (`5`), a fraction (`0.1`), or `itakura`."
    ),
]
DataDir = Annotated[
    Path | None, typer.Option(envvar="UDTW_DATA", help="Folder of the data. Not needed for generated data.")
]
SkeletonDir = Annotated[
    Path | None,
    typer.Option(envvar="UDTW_DATA", help="Folder of the prepared or original files, or one that holds it as NAME."),
]
IMAGE_SETS = "|".join(NAMES)
ImageDir = Annotated[
    Path | None,
    typer.Option(envvar="UDTW_DATA", help="Folder or archive of the images, or a folder that holds it as NAME."),
]
SplitFile = Annotated[
    Path | None, typer.Option(help="Your own split: JSON or CSV with the classes of train, val and test.")
]
PerClass = Annotated[int | None, typer.Option(help="Use at most this many images per class.")]


def _checked(check: Callable[[Path, str], None]) -> Callable[..., Path | None]:
    """Return a callback that checks the name of a file before the command begins."""

    def callback(param: typer.CallbackParam, value: Path | None) -> Path | None:
        if value is not None:
            check(value, param.opts[0])
        return value

    return callback


def table_option(what: str) -> Any:
    """Return an option for a table that the command writes."""
    text = f"Write {what} here (.csv, .tsv or .json)."
    return typer.Option(help=text, callback=_checked(check_table_name), rich_help_panel=WRITES)


def _check_model_name(path: Path, flag: str) -> None:
    if path.suffix.lower() != ".safetensors":
        hint = " The kind of classifier is chosen by --classifier." if str(path) in ("knn", "centroid") else ""
        raise OptionError(f"{flag} {path.name}: a model is saved under a name that ends in .safetensors.{hint}")


def model_option(what: str) -> Any:
    """Return an option for a model that the command saves."""
    text = f"Save {what} here (.safetensors), for `udtw predict`."
    return typer.Option(help=text, callback=_checked(_check_model_name), rich_help_panel=WRITES)


Plot = Annotated[
    Path | None,
    typer.Option(
        help="Write a figure here (.png, .pdf or .svg).", callback=_checked(check_figure_name), rich_help_panel=WRITES
    ),
]
Predictions = Annotated[Path | None, table_option("the predictions")]


class OnError(StrEnum):
    stop = "raise"
    skip = "skip"


Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
Seed = Annotated[int, typer.Option(help="Seed of everything random.")]


def given(**options: Any) -> dict[str, Any]:
    """Return the options that are not None; for the others the called function has its own defaults."""
    return {name: value for name, value in options.items() if value is not None}


def parse_band(text: str | None) -> int | float | str | None:
    """Return a radius (``"5"``), a fraction (``"0.1"``), ``"itakura"`` or None."""
    if text is None or text == "itakura":
        return text
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    raise OptionError(f"--band must be a radius such as 5, a fraction such as 0.1, or itakura; got {text!r}.")


def parse_relax(text: str | None) -> str | tuple[int, ...] | None:
    """Return ``"x"``, ``"y"``, ``"both"`` or None as they are, and the four counts of ``"0,3,5,0"``."""
    if text is None or text in ("x", "y", "both"):
        return text
    try:
        counts = tuple(int(part) for part in text.split(","))
    except ValueError:
        counts = ()
    if len(counts) != 4 or min(counts) < 0:
        raise OptionError(
            "--relax must be x, y, both, or four counts of steps that may stay unmatched at x begin, x end, y begin, "
            f"y end, such as 0,3,5,0; got {text!r}."
        )
    return counts


def check_known(metric: str, given: Mapping[str, Any]) -> None:
    """Raise `OptionError` for options (by their names in Python) that the metric does not have."""
    unknown = [name for name in given if name not in get_metric(metric).params]
    if unknown:
        having = ", ".join(name for name, row in METRICS.items() if unknown[0] in row.params)
        raise OptionError(f"{unknown[0]} belongs to the metrics {having}; got --metric {metric}.", parameter=unknown[0])


def parse_list(text: str | None) -> list[str] | None:
    """Return ``"A,B"`` as ["A", "B"]."""
    return None if text is None else [part.strip() for part in text.split(",") if part.strip()]
