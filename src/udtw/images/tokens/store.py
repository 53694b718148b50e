"""The token cache: a folder of shards (see `shards`) and ``manifest.json``, which names them and all that made them."""

import hashlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from udtw.data.checked_shards import MANIFEST, Shards
from udtw.data.choosing import some
from udtw.data.skipping import Skipped
from udtw.data.versioned_json import read_described
from udtw.errors import DataError, FileFormatError
from udtw.images.tokens.shards import Contents, Layout, TokenShard
from udtw.images.tokens.token_set import TokenSet, TokenSetInfo

if TYPE_CHECKING:
    from PIL.Image import Image

FORMAT, VERSION = "udtw.TokenSet", 1


class Images(Protocol):
    """What is asked of an `ImageSet`: who the images are, their files, and the images themselves."""

    @property
    def name(self) -> str: ...
    @property
    def classes(self) -> tuple[str, ...]: ...
    @property
    def labels(self) -> np.ndarray: ...
    @property
    def names(self) -> tuple[str, ...]: ...
    @property
    def splits(self) -> Mapping[str, Sequence[int]]: ...
    def __len__(self) -> int: ...
    def read(self, index: int, /) -> bytes: ...
    def image(self, index: int, /) -> "Image": ...


def digest_of(images: Images, index: int) -> str:
    """sha256 of the image's file, as it is now."""
    return hashlib.sha256(images.read(index)).hexdigest()


def manifest_of(
    images: Images,
    digests: Mapping[str, str],
    identity: Mapping[str, Any],
    layout: Layout,
    parts: Sequence[tuple[str, Contents]],
    skipped: Sequence[Skipped],
) -> dict[str, Any]:
    """``parts``: file and contents of each shard; ``digests`` by name of the image."""
    names = [name for _, contents in parts for name in contents.names]
    place = {name: i for i, name in enumerate(images.names)}
    kept = [place[name] for name in names]
    return {
        "format": FORMAT,
        "version": VERSION,
        "name": images.name,
        **identity,
        "layout": asdict(layout),
        "classes": list(images.classes),
        "splits": {split: list(labels) for split, labels in images.splits.items()},
        "shards": [{"file": file, "images": len(contents.names)} for file, contents in parts],
        "names": names,
        "labels": [int(images.labels[i]) for i in kept],
        "sha256": [digests[name] for name in names],
        "skipped": [asdict(one) for one in skipped],
    }


def refuse_to_lose(folder: Path, images: Images, identity: Mapping[str, Any], views: int) -> None:
    """Raise if ``folder`` holds finished tokens that embedding ``images`` anew would give up."""
    try:
        manifest = read_described(folder / MANIFEST, FORMAT, VERSION, "a token cache")
        lost = len(set(manifest["names"]) - set(images.names))
        other = [key for key in identity if manifest[key] != identity[key]]
        fewer = views != manifest["layout"]["views"]
    except (FileFormatError, KeyError, TypeError):
        return  # nothing finished is there
    if lost or other or fewer:
        what = f"{lost} other images" if lost else f"another {other[0]}" if other else "another number of views"
        raise DataError(
            f"{folder} holds finished tokens of {images.name} with {what}, which would be given up. Choose another "
            "folder, or replace them (replace=True, --replace)."
        )


def open_tokens(folder: str | os.PathLike, images: Images | None = None) -> TokenSet:
    """The tokens that `embed` wrote into ``folder``; they stay on the disk until they are asked for.

    A shard is compared with its checksum when it is used first. With ``images`` the set is also compared with the image
    files as they are now, by `check_against`.
    """
    folder = Path(folder)
    manifest = read_described(folder / MANIFEST, FORMAT, VERSION, "a folder of tokens")
    try:
        info = TokenSetInfo(
            manifest["name"],
            manifest["classes"],
            manifest["splits"],
            identity={key: manifest[key] for key in ("backbone", "augmentation", "seed")},
            layout=Layout.from_json(manifest["layout"]),
            skipped=[Skipped(**one) for one in manifest["skipped"]],
        )
        shards = Shards(folder, manifest["shards"], len(manifest["names"]), TokenShard)
        tokens = TokenSet(info, manifest["labels"], manifest["names"], manifest["sha256"], shards)
    except (KeyError, TypeError, ValueError, OverflowError, AttributeError) as error:
        raise FileFormatError(f"{folder / MANIFEST} does not describe a set of tokens: {error!r}.") from error
    if images is not None:
        check_against(tokens, images)
    return tokens


def check_against(tokens: TokenSet, images: Images) -> None:
    """Raise a `DataError` that names the images that changed, are gone, or are new since they were embedded."""
    embedded = dict(zip(tokens.names, tokens.digests, strict=True))
    now = {name: index for index, name in enumerate(images.names)}
    skipped = {one.name for one in tokens.skipped}
    found = {
        "changed": [name for name in embedded if name in now and digest_of(images, now[name]) != embedded[name]],
        "gone": [name for name in embedded if name not in now],
        "new": [name for name in now if name not in embedded and name not in skipped],
    }
    if any(found.values()):
        said = "; ".join(f"{what}: {some(names)}" for what, names in found.items() if names)
        raise DataError(f"{images.name} is not what was embedded ({said}). Embed it again into the same folder.")
