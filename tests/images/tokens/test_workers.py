"""Shards made by two processes: the same files, errors come through, and nothing is left running."""

import os
import signal
import time

import pytest

pytest.importorskip("safetensors")
pytest.importorskip("PIL")
pytest.importorskip("kornia")
pytest.importorskip("joblib")

from tests.images.tokens.fakes import Backbone, Images
from udtw._io.shard_store import Part
from udtw.errors import DataError, WorkerError
from udtw.images.tokens import embed
from udtw.images.tokens.embed import Job, make_shards

IMAGES = Images(10)


def test_two_workers_write_the_same_files(tmp_path):
    options = {"views": 1, "augmentation": "photo", "attention": True, "images_per_shard": 3, "batch_size": 2}
    embed(IMAGES, Backbone(), tmp_path / "one", **options)
    assert embed(IMAGES, Backbone(), tmp_path / "two", **options, n_jobs=2).written == 4
    one, two = ({path.name: path.read_bytes() for path in (tmp_path / side).iterdir()} for side in ("one", "two"))
    assert one == two


def test_an_error_in_a_worker_comes_through_and_finished_shards_stay(tmp_path):
    broken = IMAGES.changed({7: b"no image"})
    with pytest.raises(DataError, match=r"'1/7.png' cannot be read"):
        embed(broken, Backbone(), tmp_path, images_per_shard=3, n_jobs=2)
    assert 1 <= embed(IMAGES, Backbone(), tmp_path, images_per_shard=3).kept <= 3


class Dying(Backbone):
    def __call__(self, pixels, *, attention=False):
        os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs signals")
def test_a_killed_worker_is_named(tmp_path):
    with pytest.raises(WorkerError, match=r"A worker process was killed, .* run again, with a smaller n_jobs"):
        embed(IMAGES, Dying(), tmp_path, images_per_shard=3, n_jobs=2)


class Slow(Backbone):
    def __call__(self, pixels, *, attention=False):
        time.sleep(0.1)  # so that shards are left when the run is given up, on a busy machine too
        return super().__call__(pixels, attention=attention)


def test_a_run_that_is_given_up_ends_its_workers(tmp_path):
    """As by Ctrl-C: it neither waits for the shards that are left nor hangs."""
    job = Job(Images(100), Slow(), tmp_path, 0, None, 0, False, "float16", 1, "raise")
    parts = [Part(i, f"plan {i}", (i,), ()) for i in range(100)]
    made = make_shards(job, parts, 2, lambda steps=1: None)
    next(made)
    made.close()
    there = sorted(tmp_path.glob("shard-*"))
    assert 1 <= len(there) < 100
    time.sleep(0.5)
    assert sorted(tmp_path.glob("shard-*")) == there
