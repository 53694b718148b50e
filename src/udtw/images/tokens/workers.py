"""Shards made by several processes, one torch thread each; the backbone is sent to each process once."""

import os
import signal
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import as_completed
from concurrent.futures.process import BrokenProcessPool
from typing import Any

import torch

from udtw._io import joblib_tasks
from udtw._io.shard_store import Contents
from udtw.errors import UdtwError, WorkerError
from udtw.images.tokens.extract import Job, Part, make_shard
from udtw.images.views import torch_threads

THREADS = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")

_state: dict[str, Any] = {}


def make_shards(
    job: Job, parts: Sequence[Part], n_jobs: int, advance: Callable[..., None]
) -> Iterator[tuple[int, Contents]]:
    """Number and contents of each shard, in the order in which they are finished."""
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
    """`make_shards` by the workers of joblib's backend, which write into the same folder."""
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
