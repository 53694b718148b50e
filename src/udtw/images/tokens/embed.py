"""`embed`: run a frozen backbone once over a data set, in one or several processes, and keep its tokens."""

import json
import os
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from udtw._io import joblib_tasks
from udtw._io.items import Skipped, check_on_error
from udtw._io.progress import progress_bar
from udtw._io.shard_store import Contents, Part, ShardStore, checksum
from udtw._io.training import torch_threads
from udtw.errors import (
    DataError,
    FileFormatError,
    NonFiniteError,
    OptionError,
    RangeError,
    ShapeError,
    UdtwError,
    WorkerError,
)
from udtw.images.backbones.base import Backbone, TokenGrid, needed
from udtw.images.tokens.store import Images, digest_of, refuse_to_lose, token_store, write_manifest
from udtw.images.tokens.token_set import TYPES, Layout, TokenShard
from udtw.images.views import Augmentation, Views, as_augmentation


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
            grid = self.job.backbone(batch, attention=attention)
        tokens = grid.tokens.detach().cpu().float()
        kept = None
        if attention:
            if grid.attention is None:
                raise ShapeError("The backbone returned no attention. Use attention=False.")
            kept = grid.attention.detach().cpu().float()
        self._check_values(names, tokens, kept, view)
        return TokenGrid(tokens, grid.grid, kept)

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


IMAGES_PER_SHARD = 256


@dataclass(frozen=True)
class Embedded:
    """Result of `embed`: images in the set, shards written now and kept from before, and images left out."""

    folder: Path
    images: int
    written: int
    kept: int
    skipped: tuple[Skipped, ...]


def embed(  # noqa: PLR0913 (keyword options that users type)
    images: Images,
    backbone: Backbone,
    folder: str | os.PathLike,
    *,
    views: int = 0,
    augmentation: str | Augmentation | Mapping[str, Any] | None = None,
    seed: int = 0,
    attention: bool = False,
    dtype: str = "float16",
    batch_size: int = 32,
    images_per_shard: int = IMAGES_PER_SHARD,
    n_jobs: int = 1,
    on_error: str = "raise",
    replace: bool = False,
    progress: bool = False,
    origin: Mapping[str, str] | None = None,
) -> Embedded:
    """Write the tokens of all ``images`` into ``folder``; `open_tokens` reads them.

    A shard that is complete and was made in the same way from the same image files is kept: an interrupted run
    continues, and a changed image costs one shard. With another number of threads or ``batch_size``, tokens may differ
    in their last bit.

    Parameters
    ----------
    images : ImageSet
        Or any object with the same names, see `udtw.images.tokens.store.Images`.
    backbone : Backbone
    folder : path
        Created if needed.
    views : int
        Number K of augmented views of each image whose tokens are written too.
    augmentation : "photo", "drawing", Augmentation or mapping
        How views are made, with ``seed``.
    attention : bool
        Whether the backbone's attention is written too.
    dtype : "float16" or "float32"
    batch_size : int
        Images per call of the backbone.
    n_jobs : int
        Number of processes with one torch thread each; −1: all cores. Where ``joblib.parallel_config`` names a backend,
        such as Dask, its workers are used; they must see the images and ``folder`` under the same paths.
    on_error : "raise" or "skip"
        "raise" stops at the first image that cannot be read, "skip" leaves it out and lists it.
    replace : bool
        Whether tokens in ``folder`` of other images, or of another backbone or augmentation, may be replaced.
    progress : bool
        Whether a progress bar is shown.
    origin : mapping, optional
        How the images and the backbone are called, kept with the tokens: ``data_dir``, ``split_file``, ``backbone``.

    Examples
    --------
    >>> import tempfile
    >>> from udtw.images import PatchBackbone, embed, make_images, open_tokens
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     done = embed(make_images(2), PatchBackbone(48, patch=16), folder)
    ...     print(done.images, open_tokens(folder))
    48 TokenSet('synthetic', 48 images, 3 × 3 tokens of 780, 0 views)
    """
    check_on_error(on_error)
    _check_counts(views=(views, 0), batch_size=(batch_size, 1), images_per_shard=(images_per_shard, 1))
    if dtype not in TYPES:
        raise OptionError(f"dtype must be one of {tuple(TYPES)}; got {dtype!r}.")
    if attention and not backbone.has_attention:
        raise OptionError("This backbone has no attention to keep. Use attention=False.")
    if views and augmentation is None:
        raise OptionError(f'views={views} needs an augmentation: "photo", "drawing", or your own settings.')
    processes = _processes(n_jobs)
    chosen = as_augmentation(augmentation) if views and augmentation is not None else None
    folder = Path(folder)
    job = Job(images, backbone, folder, views, chosen, seed, attention, dtype, batch_size, on_error)
    identity = _identity(job)
    store = token_store(folder)
    store.start(images.name)
    if not replace:
        refuse_to_lose(store, images, identity, views)
    digests: dict[str, str] = {}
    with progress_bar(f"embedding {images.name}", len(images), progress) as advance:
        parts = _parts(job, identity, images_per_shard, digests, advance)
        shards, written = store.fill(
            parts, lambda missing: make_shards(job, missing, processes, advance), on_error=on_error, advance=advance
        )
    skipped = [one for shard in shards for one in shard.skipped]
    _check_layouts(images, shards, skipped)
    write_manifest(store, images, digests, identity, shards, origin or {})
    total = sum(len(shard.names) for shard in shards)
    return Embedded(folder, total, written, len(shards) - written, tuple(skipped))


def _identity(job: Job) -> dict[str, Any]:
    """Return all that the tokens depend on except the images, as JSON values. Only views depend on the seed."""
    augmentation = job.augmentation.as_json() if job.augmentation else None
    identity = {
        "backbone": job.backbone.identity,
        "augmentation": augmentation,
        "seed": job.seed if job.views else None,
    }
    return json.loads(json.dumps(identity, sort_keys=True))


def _parts(
    job: Job, identity: dict[str, Any], images_per_shard: int, digests: dict[str, str], advance: Callable[[int], None]
) -> Iterator[Part]:
    """Yield the shards that there should be; read the images' files and add their checksums to ``digests``."""
    for number, start in enumerate(range(0, len(job.images), images_per_shard)):
        readable, skipped = [], []
        for index in range(start, min(start + images_per_shard, len(job.images))):
            name = job.images.names[index]
            try:
                digests[name] = digest_of(job.images, index)
                readable.append(index)
            except (DataError, FileFormatError, OSError) as error:
                named = unreadable(job.images, index, error)
                if job.on_error == "raise":
                    raise named from error
                skipped.append(Skipped(name, str(named)))
        advance(len(skipped))
        files = [[job.images.names[index], digests[job.images.names[index]]] for index in readable]
        unread = [one.name for one in skipped]
        made_from = (job.images.name, identity, job.views, job.attention, job.dtype, files, unread)
        yield Part(number, checksum(TokenShard.version, *made_from), tuple(readable), tuple(skipped))


def _check_layouts(images: Images, shards: list[Contents], skipped: list[Skipped]) -> None:
    grids = {tuple(shard.layout["grid"]) for shard in shards if shard.names}
    if not grids:
        first = skipped[0].reason if skipped else "there are no images"
        raise DataError(f"{images.name}: none of the {len(images)} images could be read. The first: {first}")
    if len({checksum(shard.layout) for shard in shards if shard.names}) > 1:
        raise ShapeError(f"The backbone must return one grid for all images; got {sorted(grids)}.")


def _check_counts(**counts: tuple[int, int]) -> None:
    for name, (value, least) in counts.items():
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise OptionError(f"{name} must be a whole number of at least {least}; got {value!r}.")


def _processes(n_jobs: int) -> int:
    joblib_tasks.check_jobs(n_jobs)
    if n_jobs == 1:
        return 1
    return needed("joblib", "Worker processes").effective_n_jobs(n_jobs)


THREADS = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")

_state: dict[str, Any] = {}


def make_shards(
    job: Job, parts: Sequence[Part], n_jobs: int, advance: Callable[..., None]
) -> Iterator[tuple[int, Contents]]:
    """Make the shards; yield number and contents of each, in the order in which they are finished."""
    if joblib_tasks.chosen():
        yield from _make_elsewhere(job, parts, advance)
        return
    if n_jobs == 1 or len(parts) < 2:
        for part in parts:
            yield part.number, make_shard(job, part, advance)
        return
    from joblib.externals.loky import ProcessPoolExecutor

    pool = ProcessPoolExecutor(min(n_jobs, len(parts)), initializer=_start, initargs=(job, os.getpid()), env=THREADS)
    futures = {pool.submit(_make, part): part for part in parts}
    kill = True
    try:
        for future in as_completed(futures):
            made = future.result()
            advance(len(futures[future].indices))
            yield futures[future].number, made
        kill = False
    except BrokenProcessPool as error:
        raise WorkerError(
            "A worker process was killed, or crashed: perhaps it ran out of memory, or the backbone cannot be sent to "
            f"it. Finished shards are kept in {job.folder}; run again, with a smaller n_jobs."
        ) from error
    except UdtwError:
        for future in futures:  # Running shards are finished and kept. loky cannot both cancel and kill.
            future.cancel()
        kill = False
        raise
    finally:
        pool.shutdown(kill_workers=kill)


def _make_elsewhere(job: Job, parts: Sequence[Part], advance: Callable[..., None]) -> Iterator[tuple[int, Contents]]:
    """Make the shards by the workers of joblib's backend, which write into the same folder."""
    for k, made in joblib_tasks.spread(_make_alone, [(job, part) for part in parts]):
        if not (job.folder / made.file).exists():
            raise WorkerError(
                f"A worker wrote {made.file}, but it is not in {job.folder} here. The workers must see the same folder."
            )
        advance(len(parts[k].indices))
        yield parts[k].number, made


def _make_alone(job: Job, part: Part) -> Contents:
    with torch_threads(1):
        return make_shard(job, part)


def _start(job: Job, parent: int) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # On Ctrl-C the parent ends its workers.
    torch.set_num_threads(1)
    _state.update(job=job, parent=parent)


def _make(part: Part) -> Contents:
    if os.getppid() != _state["parent"]:
        os._exit(1)  # The parent was killed: its next run must not compete with orphans.
    return make_shard(_state["job"], part)
