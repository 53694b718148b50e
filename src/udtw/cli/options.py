"""Options that several commands share, and how their values are read."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from udtw.errors import OptionError
from udtw.images.datasets import NAMES


class MetricName(StrEnum):
    euclidean = "euclidean"
    dtw = "dtw"
    soft_dtw = "soft_dtw"
    soft_dtw_divergence = "soft_dtw_divergence"
    udtw = "udtw"


Metric = Annotated[MetricName, typer.Option(help="Distance between series.")]
Gamma = Annotated[float, typer.Option(help="Temperature γ of the paths, > 0; small: one path, large: all paths.")]
Beta = Annotated[float, typer.Option(help="Weight β of the uncertainty regulariser Ω (udtw).")]
Band = Annotated[
    str | None,
    typer.Option(help="Paths stay near the diagonal: a radius in steps (`5`), a fraction (`0.1`), or `itakura`."),
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
PerClass = Annotated[int | None, typer.Option(help="Use at most so many images of a class.")]
Plot = Annotated[Path | None, typer.Option(help="Write a picture here (.png, .pdf or .svg).")]
Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
Seed = Annotated[int, typer.Option(help="Seed of everything random.")]


def parse_band(text: str | None) -> int | float | str | None:
    """``"5"`` is a radius, ``"0.1"`` a fraction, ``"itakura"`` itself."""
    if text is None or text == "itakura":
        return text
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    raise OptionError(f"--band must be a radius such as 5, a fraction such as 0.1, or itakura; got {text!r}.")


def parse_list(text: str | None) -> list[str] | None:
    """``"A,B"`` as ["A", "B"]."""
    return None if text is None else [part.strip() for part in text.split(",") if part.strip()]


def parse_seeds(text: str | None) -> list[int] | None:
    """``"0,1,2"`` or ``"0-4"``, or both mixed; without repetitions."""
    found: list[int] = []
    for part in parse_list(text) or []:
        first, dash, last = part.partition("-")
        try:
            found += range(int(first), int(last) + 1) if dash else [int(first)]
        except ValueError:
            raise OptionError(f"--seeds must be whole numbers such as 0,1,2 or 0-4; got {text!r}.") from None
    if text is not None and not found:
        raise OptionError(f"--seeds names no seed; got {text!r}.")
    return list(dict.fromkeys(found)) or None
