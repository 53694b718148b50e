"""The token cache: a folder of shards of tokens, and ``manifest.json``, which describes their origin."""

import hashlib
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from udtw._io.items import some
from udtw._io.shard_store import Contents, Shards, ShardStore
from udtw.errors import DataError, FileFormatError
from udtw.images.tokens.token_set import Layout, TokenSet, TokenSetInfo, TokenShard

if TYPE_CHECKING:
    from PIL.Image import Image


class Images(Protocol):
    """Interface of an `ImageSet` that `embed` needs: names and labels, bytes of the files, and decoded images."""

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
    """Return the sha256 of the image's file, or of what it is made from, as it is now."""
    return hashlib.sha256(getattr(images, "made_from", images.read)(index)).hexdigest()


def token_store(folder: str | os.PathLike) -> ShardStore[TokenShard]:
    """Return the store of tokens in ``folder``."""
    return ShardStore(Path(folder), TokenShard)


def write_manifest(
    store: ShardStore[TokenShard],
    images: Images,
    digests: Mapping[str, str],
    identity: Mapping[str, Any],
    shards: Sequence[Contents],
    origin: Mapping[str, Any],
) -> None:
    """Finish ``store`` with these ``shards``; ``digests`` are the checksums of the images' files by name."""
    names = [name for shard in shards for name in shard.names]
    place = {name: i for i, name in enumerate(images.names)}
    layout = next(shard.layout for shard in shards if shard.names)
    description = {
        **identity,
        "origin": dict(origin),
        "layout": layout,
        "classes": list(images.classes),
        "splits": {split: list(labels) for split, labels in images.splits.items()},
    }
    columns: dict[str, list] = {
        "labels": [int(images.labels[place[name]]) for name in names],
        "sha256": [digests[name] for name in names],
    }
    skipped = [one for shard in shards for one in shard.skipped]
    store.finish(images.name, description, shards, columns, skipped)


def refuse_to_lose(store: ShardStore[TokenShard], images: Images, identity: Mapping[str, Any], views: int) -> None:
    """Raise if ``store`` holds finished tokens that embedding ``images`` would discard."""
    try:
        manifest = store.read_manifest()
        lost = len(set(manifest["names"]) - set(images.names))
        other = [key for key in identity if manifest[key] != identity[key]]
        fewer = views != manifest["layout"]["views"]
    except (FileFormatError, KeyError, TypeError):
        return  # no finished tokens are there
    if lost or other or fewer:
        what = f"{lost} other images" if lost else f"another {other[0]}" if other else "another number of views"
        raise DataError(
            f"{store.folder} holds finished tokens of {images.name} with {what}, which would be discarded. Choose "
            "another folder, or replace them (replace=True, --replace)."
        )


def open_tokens(folder: str | os.PathLike, images: Images | None = None) -> TokenSet:
    """Open the tokens that `embed` wrote into ``folder``; they stay on disk until they are requested.

    A shard is compared with its checksum when it is first used. With ``images`` the set is also compared with the
    image files as they are now, by `check_against`.

    Examples
    --------
    >>> import tempfile
    >>> from udtw.images import PatchBackbone, embed, make_images, open_tokens
    >>> images = make_images(n_images=1)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     done = embed(images, PatchBackbone(32, 8), folder)
    ...     open_tokens(folder, images)
    TokenSet('synthetic', 24 images, 4 × 4 tokens of 204, 0 views)
    """
    tokens = token_store(folder).open(_set)
    if images is not None:
        check_against(tokens, images)
    return tokens


def _set(manifest: dict[str, Any], shards: Shards[TokenShard]) -> TokenSet:
    info = TokenSetInfo(
        manifest["name"],
        manifest["classes"],
        manifest["splits"],
        identity={key: manifest[key] for key in ("backbone", "augmentation", "seed")},
        layout=Layout.from_json(manifest["layout"]),
        skipped=manifest["skipped"],
        origin=_origin(manifest.get("origin")),  # not in the manifests of earlier versions
    )
    return TokenSet(info, manifest["labels"], manifest["names"], manifest["sha256"], shards)


def _origin(given: Any) -> dict[str, str]:
    """Return the texts of a manifest's ``origin``; anything else in it is damage, and is left out."""
    known = given.items() if isinstance(given, dict) else ()
    return {key: value for key, value in known if isinstance(value, str)}


def check_against(tokens: TokenSet, images: Images) -> None:
    """Raise a `DataError` that names the images that changed, are gone, or are new since they were embedded."""
    embedded = dict(zip(tokens.names, tokens.digests, strict=True))
    now = {name: index for index, name in enumerate(images.names)}
    skipped = {one.name for one in tokens.skipped}
    lists = {
        "changed": [name for name in embedded if name in now and digest_of(images, now[name]) != embedded[name]],
        "gone": [name for name in embedded if name not in now],
        "new": [name for name in now if name not in embedded and name not in skipped],
    }
    if any(lists.values()):
        differences = "; ".join(f"{what}: {some(names)}" for what, names in lists.items() if names)
        raise DataError(f"{images.name} is not what was embedded ({differences}). Embed it again into the same folder.")
