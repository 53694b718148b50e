"""Loading of skeleton data sets for the commands, with what was left out said."""

from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from udtw.cli.output import note

if TYPE_CHECKING:
    from udtw._io.skipping import Skipped
    from udtw.skeleton.datasets import SkeletonSet

LISTED = 5


class OnError(StrEnum):
    stop = "raise"
    skip = "skip"


OnErrorOption = Annotated[
    OnError, typer.Option(help="A file that cannot be read stops the run, or is left out and listed.")
]


def load(name: str, data_dir: Path | None, on_error: OnError, block_size: int, shown: bool = True) -> "SkeletonSet":
    """The data set; of a folder of one's own also what was made of it, without clips shorter than a block."""
    from udtw.skeleton.datasets import load_skeletons
    from udtw.skeleton.datasets.protocols import class_split

    skeletons = load_skeletons(name, data_dir, on_error=str(on_error), progress=shown)
    if name == "folder":  # published sets have published clips
        skeletons = skeletons.at_least(block_size)
    if shown:
        list_skipped(skeletons.skipped)
        if name == "folder":
            split = class_split(skeletons)
            parts = {"train": split.train, "validation": split.validation, "novel": split.novel}
            named = "; ".join(
                f"{part}: {', '.join(skeletons.classes[label] for label in labels)}" for part, labels in parts.items()
            )
            note(f"{len(skeletons)} clips of {len(skeletons.classes)} classes, joints {skeletons.graph}. {named}")
    return skeletons


def list_skipped(skipped: "Sequence[Skipped]", more: str = "") -> None:
    """Print the first clips that were left out, and how many others; ``more`` says where these are listed."""
    for one in skipped[:LISTED]:
        note(f"left out {one.name}: {one.reason}")
    if len(skipped) > LISTED:
        note(f"… and {len(skipped) - LISTED} more{more}")
