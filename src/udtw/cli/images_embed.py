"""``udtw images embed``: run a frozen backbone over a data set once and store its tokens."""

import time
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from udtw.cli import options
from udtw.cli.cluster import Dask, cluster
from udtw.cli.output import note, show

LISTED = 5
N_WAY = 5
"""Classes per episode by default."""


class OnError(StrEnum):
    stop = "raise"
    skip = "skip"


class Preset(StrEnum):
    photo = "photo"
    drawing = "drawing"


def embed(
    name: Annotated[str, typer.Argument(metavar=options.IMAGE_SETS, help="Which data set.")],
    out: Annotated[Path, typer.Option(help="Folder for the tokens, created if needed.")],
    data_dir: options.ImageDir = None,
    backbone: Annotated[
        str,
        typer.Option(
            help="`patches`, `patches-grey`, `sift`, `dinov3`, `efficientnet-lite0`, `hf:ID-or-FOLDER`, "
            "`onnx:FILE#OUTPUT`; settings after a question mark, as in `dinov3?image_size=224&pool=7`."
        ),
    ] = "patches",
    views: Annotated[int, typer.Option(help="Augmented views of each image; needed for training without labels.")] = 0,
    augmentation: Annotated[Preset, typer.Option(help="How views are made.")] = Preset.photo,
    attention: Annotated[bool, typer.Option("--attention", help="Also store the backbone's attention.")] = False,
    split: Annotated[str | None, typer.Option(help="Only the classes of `train`, `val` or `test`.")] = None,
    split_file: options.SplitFile = None,
    per_class: options.PerClass = None,
    jobs: Annotated[int, typer.Option(help="Processes; -1: all cores.")] = 1,
    batch_size: Annotated[int, typer.Option(help="Images per batch of the backbone.")] = 32,
    on_error: Annotated[
        OnError, typer.Option(help="An image that cannot be read stops the run, or is left out and listed.")
    ] = OnError.skip,
    replace: Annotated[
        bool, typer.Option("--replace", help="Replace tokens in OUT that are of other images or of another backbone.")
    ] = False,
    seed: options.Seed = 0,
    dask: Dask = None,
    json: options.Json = False,
) -> None:
    """Extract the tokens of a data set once; training and evaluation read them and never run the backbone.

    Stop it at any time: the same command continues where it stopped. Run it again after images were changed, and only
    the shards with changed images are written again. Data sets are read as published, as folders or archives; `folder`
    is any folder with a subfolder of images for each class, `synthetic` is generated.

    Examples:

    - `udtw images embed synthetic --backbone patches --views 2 --out tokens/synthetic`

    - `udtw images embed cub --data-dir ~/CUB_200_2011 --backbone dinov3 --attention --jobs 2 --out tokens/cub`

    - `udtw images embed folder --data-dir ~/photos --backbone "hf:facebook/dinov2-small?pool=8" --out tokens/photos`
    """
    from udtw.images import embed as extract
    from udtw.images import load_backbone, load_images, open_tokens

    begin = time.perf_counter()
    images = load_images(name, data_dir, split_file=split_file)
    for one in images.notes:
        note(one)
    if split is not None:
        images = images.of_split(split)
    if per_class is not None:
        images = images.limited(per_class)
    with cluster(dask):
        found = extract(
            images, load_backbone(backbone), out, views=views, augmentation=str(augmentation) if views else None,
            seed=seed, attention=attention, n_jobs=jobs, batch_size=batch_size, on_error=str(on_error),
            replace=replace, progress=True, origin=_origin(backbone, data_dir, split_file),
        )  # fmt: skip
    for skipped in found.skipped[: None if json else LISTED]:
        note(f"left out {skipped.name}: {skipped.reason}")
    if len(found.skipped) > LISTED and not json:
        note(f"left out {len(found.skipped) - LISTED} more; --json lists all")
    for text in split_notes(open_tokens(out)):
        note(text)
    result = {
        "images": found.images, "left_out": [one.name for one in found.skipped] if json else len(found.skipped),
        "shards_written": found.written, "shards_kept": found.kept, "seconds": time.perf_counter() - begin,
        "tokens": str(out),
    }  # fmt: skip
    show(f"Tokens of {name}", result, json)


def _origin(backbone: str, data_dir: Path | None, split_file: Path | None) -> dict[str, str]:
    """What later commands need to find the images and the backbone again."""
    places = {"data_dir": data_dir, "split_file": split_file}
    found = {key: str(path.expanduser().absolute()) for key, path in places.items() if path is not None}
    return {"backbone": backbone, **found}


def split_notes(tokens: Any) -> list[str]:
    """How many classes each split has, and what that means for episodes if they are few."""
    there = set(tokens.labels.tolist())
    sizes = {split: len(there.intersection(labels)) for split, labels in tokens.splits.items()}
    total = sum(sizes.values())
    notes = [f"classes: {', '.join(f'{split} {count}' for split, count in sizes.items() if count)} of {total}"]
    if 1 < sizes.get("test", 0) < N_WAY:
        notes.append(f"test has {sizes['test']} of {total} classes; use --n-way {sizes['test']} in `udtw images eval`")
    if 1 < sizes.get("train", 0) < N_WAY:
        few = sizes["train"]
        notes.append(f"train has {few} of {total} classes; use --setting n_way={few} in `udtw images train`")
    return notes
