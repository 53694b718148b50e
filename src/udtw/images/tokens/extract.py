"""From images to the arrays of one shard: decode, augment, run the backbone, check the values."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from udtw._io.items import Skipped
from udtw._io.shard_store import Contents, ShardStore
from udtw.errors import DataError, FileFormatError, NonFiniteError, RangeError, ShapeError
from udtw.images.backbones.base import Backbone, TokenGrid
from udtw.images.tokens.store import Images
from udtw.images.tokens.token_set import Layout, TokenShard
from udtw.images.views import Augmentation, Views, torch_threads


@dataclass(frozen=True, eq=False)
class Job:
    """All that a worker needs to make any of the shards."""

    images: Images
    backbone: Backbone
    folder: Path
    views: int
    augmentation: Augmentation | None
    seed: int
    attention: bool
    dtype: str
    batch_size: int
    on_error: str


@dataclass(frozen=True)
class Part:
    """A shard to be made, of the images at ``indices``; files of the images ``skipped`` could not be read."""

    number: int
    plan: str
    indices: tuple[int, ...]
    skipped: tuple[Skipped, ...]

    def __len__(self) -> int:
        return len(self.indices)


def make_shard(job: Job, part: Part, advance: Callable[..., None] = lambda steps=1: None) -> Contents:
    """Write the shard ``part``; its contents, read back and checked."""
    extractor = _Extractor(job, len(part.indices), torch.get_num_threads())
    # Preparing one image gains nothing from threads, and is slow where other processes use the cores.
    with torch_threads(1):
        skipped = _extract(extractor, job, part, advance)
    layout, arrays = extractor.layout(), extractor.arrays()
    contents = Contents(part.plan, extractor.names, skipped, layout=asdict(layout))
    return ShardStore(job.folder, TokenShard).write(part.number, contents, arrays)


def _extract(extractor: "_Extractor", job: Job, part: Part, advance: Callable[..., None]) -> list[Skipped]:
    skipped = list(part.skipped)
    for index in part.indices:
        try:
            pixels = _prepared(job, index)
        except DataError as error:
            if job.on_error == "raise":
                raise
            skipped.append(Skipped(job.images.names[index], str(error)))
        else:
            extractor.add(job.images.names[index], pixels)
        advance()
    extractor.flush()
    place = {name: i for i, name in enumerate(job.images.names)}
    return sorted(skipped, key=lambda one: place[one.name])


def _prepared(job: Job, index: int) -> Tensor:
    """Return the prepared image (3, H, W) in [0, 1]; raise a `DataError` that names the image if that fails."""
    try:
        return job.backbone.prepare(job.images.image(index))
    except (DataError, FileFormatError, OSError) as error:
        raise unreadable(job.images, index, error) from error


def unreadable(images: Images, index: int, error: Exception) -> DataError:
    return DataError(f"{images.name}: the image {images.names[index]!r} cannot be read: {error}")


class _Extractor:
    """Collects prepared images into batches, and their tokens in arrays for a whole shard."""

    def __init__(self, job: Job, capacity: int, threads: int) -> None:
        """Make room for ``capacity`` images; the backbone runs with ``threads``."""
        self.job, self.capacity, self.threads = job, capacity, threads
        self.names: list[str] = []
        self._waiting: list[tuple[str, Tensor]] = []
        self._grid = (0, 0)
        self._arrays: dict[str, np.ndarray] = {}
        self._views = Views(job.augmentation, job.seed) if job.augmentation else None

    def add(self, name: str, pixels: Tensor) -> None:
        self._waiting.append((name, pixels))
        if len(self._waiting) == self.job.batch_size:
            self.flush()

    def flush(self) -> None:
        if not self._waiting:
            return
        names = [name for name, _ in self._waiting]
        start, stop = len(self.names), len(self.names) + len(names)
        plain = self._run(names, [pixels for _, pixels in self._waiting], "", self.job.attention)
        self._allocate(plain)
        self._arrays["tokens"][start:stop] = plain.tokens.numpy()
        if plain.attention is not None:
            self._arrays["attention"][start:stop] = plain.attention.numpy()
        if self._views:
            for k in range(self.job.views):
                pixels = [self._views(pixels, name, k) for name, pixels in self._waiting]
                self._arrays["views"][start:stop, k] = self._run(names, pixels, f", view {k}", False).tokens.numpy()
        self.names += names
        self._waiting.clear()

    def layout(self) -> Layout:
        dim = self._arrays["tokens"].shape[2] if self._arrays else self.job.backbone.dim
        return Layout(self._grid, dim, self.job.views, self.job.attention, self.job.dtype)

    def arrays(self) -> dict[str, np.ndarray]:
        if not self._arrays:  # every image was skipped
            self._make_arrays(self.job.backbone.dim)
        return {name: array[: len(self.names)] for name, array in self._arrays.items()}

    def _run(self, names: Sequence[str], pixels: Sequence[Tensor], view: str, attention: bool) -> TokenGrid:
        shapes = {tuple(one.shape) for one in pixels}
        if len(shapes) > 1:
            raise ShapeError(f"The backbone must prepare all images to one size; got {sorted(shapes)}.")
        batch = torch.stack(list(pixels))
        with torch.no_grad(), torch_threads(self.threads):
            found = self.job.backbone(batch, attention=attention)
        tokens = found.tokens.detach().cpu().float()
        kept = None
        if attention:
            if found.attention is None:
                raise ShapeError("The backbone returned no attention. Use attention=False.")
            kept = found.attention.detach().cpu().float()
        self._check_values(names, tokens, kept, view)
        return TokenGrid(tokens, found.grid, kept)

    def _check_values(self, names: Sequence[str], tokens: Tensor, attention: Tensor | None, view: str) -> None:
        if len(tokens) != len(names):
            raise ShapeError(f"The backbone must return tokens of all {len(names)} images; got {len(tokens)}.")
        finite = tokens.isfinite().flatten(1).all(dim=1)
        if attention is not None:
            finite &= attention.isfinite().all(dim=1)
        if not finite.all():
            name = names[int(finite.int().argmin())]
            raise NonFiniteError(f"The backbone returns NaN or infinity for the image {name!r}{view}.")
        peaks = tokens.abs().flatten(1).amax(dim=1)
        if peaks.max() > torch.finfo(getattr(torch, self.job.dtype)).max:
            name, peak = names[int(peaks.argmax())], float(peaks.max())
            raise RangeError(
                f"A token of the image {name!r}{view} reaches {peak:g}, too large for {self.job.dtype}. "
                'Use dtype="float32".'
            )

    def _allocate(self, first: TokenGrid) -> None:
        if not self._arrays:
            self._grid = (int(first.grid[0]), int(first.grid[1]))
            self._make_arrays(first.tokens.shape[2])
        if tuple(first.grid) != self._grid or first.tokens.shape[2] != self._arrays["tokens"].shape[2]:
            raise ShapeError(
                f"The backbone must return one grid for all images; got {self._grid}, then {tuple(first.grid)}."
            )

    def _make_arrays(self, dim: int) -> None:
        n, count = self.capacity, self._grid[0] * self._grid[1]
        self._arrays["tokens"] = np.empty((n, count, dim), self.job.dtype)
        if self.job.views:
            self._arrays["views"] = np.empty((n, self.job.views, count, dim), self.job.dtype)
        if self.job.attention:
            self._arrays["attention"] = np.empty((n, count), np.float32)
