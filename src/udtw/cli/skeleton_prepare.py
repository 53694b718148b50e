"""``udtw skeleton prepare``: parse a data set of skeletons once, into a form that is fast and safe to load."""

import time
from pathlib import Path
from typing import Annotated

import typer

from udtw.cli import options
from udtw.cli.output import show
from udtw.cli.skeleton_data import OnError, OnErrorOption, list_skipped
from udtw.skeleton.datasets.loading import DATASETS

FILES = {name: dataset.files for name, dataset in DATASETS.items() if dataset.find is not None}


def prepare(
    name: Annotated[str, typer.Argument(metavar="|".join(FILES), help="Which data set.")],
    out: Annotated[Path, typer.Option(help="Folder for the prepared form, created if needed.")],
    data_dir: options.SkeletonDir = None,
    on_error: OnErrorOption = OnError.stop,
    ignore: Annotated[
        Path | None,
        typer.Option(
            help="NTU: text file with samples to leave out, such as the published lists of missing skeletons."
        ),
    ] = None,
    json: options.Json = False,
) -> None:
    """Parse the original files of a data set once; training then starts at once and needs little memory.

    Stop it at any time: the same command continues where it stopped. Run it again after files were added or replaced,
    and only shards with changed files are written again. Files that each data set needs:

    FILES

    Examples:

    - `udtw skeleton prepare utd-mhad --data-dir ~/utd-mhad --out prepared/utd-mhad`

    - `udtw skeleton prepare folder --data-dir ~/my-clips --on-error skip --out prepared/my-clips`

    - `udtw skeleton prepare ntu120 --data-dir ~/ntu --ignore missing.txt --on-error skip --out prepared/ntu120`
    """
    from udtw.skeleton.datasets import prepare
    from udtw.skeleton.datasets.loading import find_source

    begin = time.perf_counter()
    source = find_source(name, data_dir, ignore=ignore)
    done = prepare(source, out, on_error=str(on_error), progress=True)
    list_skipped(done.skipped, f", all listed in {out / 'manifest.json'}")
    result = {
        "dataset": source.name,
        "folder": str(out),
        "clips": done.clips,
        "left_out": len(done.skipped),
        "classes": len(source.classes),
        "joints": source.graph,
        "shards_written": done.written,
        "shards_kept": done.kept,
        "seconds": time.perf_counter() - begin,
    }
    if json:
        result["skipped"] = [{"name": one.name, "reason": one.reason} for one in done.skipped]
    show(f"Prepared {source.name}", result, json)


prepare.__doc__ = (prepare.__doc__ or "").replace(
    "FILES", "\n\n    ".join(f"- `{name}`: {files}" for name, files in FILES.items())
)
