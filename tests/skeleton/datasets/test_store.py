"""The prepared form: exact round trip, interrupted runs continue, and a damaged shard is never read silently."""

import hashlib
import json
import os
import pickle
import random
import time

import numpy as np
import pytest

pytest.importorskip("safetensors")
from safetensors.numpy import save

from tests.skeleton.datasets.clips import clip, many, outcome, same, source
from udtw._io.items import Skipped
from udtw._io.shard_store import MANIFEST
from udtw.errors import DataError, FileFormatError, OptionError, ShapeError, UdtwError
from udtw.skeleton.datasets import open_prepared, prepare
from udtw.skeleton.datasets.clip import Clip
from udtw.skeleton.datasets.store import ClipShard

CLIPS = many(10)


def files(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def shards(folder):
    return sorted(folder.glob("shard-*"))


def shard_file(folder, arrays, described):
    """A shard written by safetensors alone, with the checksum in its name."""
    content = save(arrays, metadata={"clips": json.dumps(described)})
    path = folder / f"shard-00000-{hashlib.sha256(content).hexdigest()}.safetensors"
    path.write_bytes(content)
    return path


@pytest.mark.parametrize("size", [1, 3, 256])
def test_the_round_trip_is_exact(tmp_path, size):
    done = prepare(source(CLIPS), tmp_path / "new" / "out", clips_per_shard=size)
    skeletons = open_prepared(tmp_path / "new" / "out")
    assert (done.clips, done.written, done.kept, done.skipped) == (10, -(-10 // size), 0, ())
    assert (skeletons.name, skeletons.graph, skeletons.classes) == ("toy", "toy4", ("a", "b", "c"))
    assert all(same(one, other) for one, other in zip(skeletons, CLIPS, strict=True))
    assert same(skeletons.subset([7, 2])[0], CLIPS[7])


def test_sets_that_were_written_without_confidence_are_read_with_ones(tmp_path):
    sure = [Clip(one.frames, one.label, one.name, one.subject, one.camera) for one in CLIPS]
    prepare(source(sure), tmp_path)
    [file] = shards(tmp_path)
    assert "confidence" not in ClipShard(file).arrays
    assert all(same(one, other) for one, other in zip(open_prepared(tmp_path), sure, strict=True))


def test_frames_are_read_on_demand(tmp_path):
    prepare(source(CLIPS), tmp_path, clips_per_shard=5)
    skeletons = open_prepared(tmp_path)
    shards(tmp_path)[1].unlink()
    assert same(skeletons[4], CLIPS[4])
    with pytest.raises(FileFormatError, match=r"shard-00001-.* is missing. Prepare the data set again"):
        skeletons[5]


def test_an_opened_set_can_be_sent_to_worker_processes(tmp_path):
    prepare(source(CLIPS), tmp_path)
    skeletons = open_prepared(tmp_path)
    assert same(skeletons[1], CLIPS[1])
    assert same(pickle.loads(pickle.dumps(skeletons))[1], CLIPS[1])


def test_the_second_call_does_nothing(tmp_path):
    prepare(source(CLIPS), tmp_path, clips_per_shard=4)
    before = {path.name: path.stat().st_mtime_ns for path in shards(tmp_path)}
    reads = []
    done = prepare(source(CLIPS, reads=reads), tmp_path, clips_per_shard=4)
    assert (done.written, done.kept, reads) == (0, 3, [])
    assert {path.name: path.stat().st_mtime_ns for path in shards(tmp_path)} == before


class Stop(BaseException):
    pass


@pytest.mark.parametrize("stop", range(10))
def test_a_stopped_run_continues_and_ends_with_the_same_files(tmp_path, stop):
    prepare(source(CLIPS), tmp_path / "whole", clips_per_shard=3)

    def until(index):
        if index == stop:
            raise Stop
        return CLIPS[index].frames, CLIPS[index].confidence

    broken = source(CLIPS)
    object.__setattr__(broken, "read", until)
    with pytest.raises(Stop):
        prepare(broken, tmp_path / "out", clips_per_shard=3)
    with pytest.raises(FileFormatError, match=MANIFEST):
        open_prepared(tmp_path / "out")
    done = prepare(source(CLIPS), tmp_path / "out", clips_per_shard=3)
    assert done.kept == stop // 3
    assert files(tmp_path / "out") == files(tmp_path / "whole")


def test_the_old_set_stays_until_the_new_one_is_complete(tmp_path):
    prepare(source(CLIPS), tmp_path, clips_per_shard=3)
    changed = source(CLIPS, broken={8}, stamps={0: "2", 8: "2"})
    with pytest.raises(DataError, match="file 8"):
        prepare(changed, tmp_path, clips_per_shard=3)
    assert all(same(one, other) for one, other in zip(open_prepared(tmp_path), CLIPS, strict=True))


def test_old_temporary_files_are_removed_and_recent_ones_kept(tmp_path):
    for name, age in (("old", 7200), ("young", 60)):
        (tmp_path / f".shard-{name}.tmp").touch()
        os.utime(tmp_path / f".shard-{name}.tmp", times=(time.time() - age,) * 2)
    prepare(source(CLIPS), tmp_path)
    assert [path.name for path in tmp_path.glob(".*")] == [".shard-young.tmp"]


def test_a_truncated_shard_is_written_again(tmp_path):
    prepare(source(CLIPS), tmp_path, clips_per_shard=4)
    whole = files(tmp_path)
    victim = shards(tmp_path)[1]
    victim.write_bytes(whole[victim.name][:-5])
    assert prepare(source(CLIPS), tmp_path, clips_per_shard=4).written == 1
    assert files(tmp_path) == whole


def test_a_changed_file_renews_only_its_shard(tmp_path):
    prepare(source(CLIPS), tmp_path, clips_per_shard=4)
    changed = [*CLIPS[:5], clip("clip 5", label=1, frames=9), *CLIPS[6:]]
    done = prepare(source(changed, stamps={5: "2"}), tmp_path, clips_per_shard=4)
    assert (done.written, done.kept) == (1, 2)
    assert all(same(one, other) for one, other in zip(open_prepared(tmp_path), changed, strict=True))
    assert len(shards(tmp_path)) == 3


def test_broken_files_are_refused_or_skipped(tmp_path):
    with pytest.raises(DataError, match="file 4, line 1: nonsense"):
        prepare(source(CLIPS, broken={4}), tmp_path, clips_per_shard=3)
    assert len(shards(tmp_path)) == 1
    done = prepare(source(CLIPS, broken={4, 3, 5, 9}), tmp_path, clips_per_shard=3, on_error="skip")
    assert (done.clips, done.kept) == (6, 1)
    skeletons = open_prepared(tmp_path)
    assert [one.name for one in skeletons.skipped] == ["clip 3", "clip 4", "clip 5", "clip 9"]
    assert all(same(one, other) for one, other in zip(skeletons, [CLIPS[i] for i in (0, 1, 2, 6, 7, 8)], strict=True))
    with pytest.raises(DataError, match="file 3, line 1: nonsense"):
        prepare(source(CLIPS, broken={3}), tmp_path, clips_per_shard=3)


def test_only_broken_files_are_an_error(tmp_path):
    with pytest.raises(DataError, match=r"none of the 2 clips could be read. The first: file 0"):
        prepare(source(CLIPS[:2], broken={0, 1}), tmp_path, on_error="skip")


def test_every_altered_byte_of_a_shard_is_detected(tmp_path):
    prepare(source(CLIPS), tmp_path)
    path = shards(tmp_path)[0]
    whole = path.read_bytes()
    rng = random.Random(0)
    for _ in range(50):
        content = bytearray(whole)
        content[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
        path.write_bytes(bytes(content))
        with pytest.raises(FileFormatError, match="is damaged: its checksum"):
            open_prepared(tmp_path)[0]
    for length in (0, 7, 100, len(whole) - 1):
        path.write_bytes(whole[:length])
        with pytest.raises(FileFormatError, match="is damaged"):
            open_prepared(tmp_path)[0]


def test_a_mutated_manifest_gives_the_set_or_a_named_error(tmp_path):
    prepare(source(CLIPS), tmp_path, clips_per_shard=4)
    path = tmp_path / MANIFEST
    whole = path.read_bytes()
    rng = random.Random(0)
    for _ in range(500):
        content = bytearray(whole)
        for _ in range(rng.randrange(1, 4)):
            content[rng.randrange(len(content))] = rng.randrange(256)
        path.write_bytes(bytes(content[: rng.choice([len(content)] * 5 + [rng.randrange(len(content))])]))
        result = outcome(lambda: list(open_prepared(tmp_path)))
        assert str(tmp_path) in str(result) if isinstance(result, UdtwError) else len(result) == 10


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"format": "other"}, "is not a folder of shards of skeletons"),
        ({"version": 9}, "has version 9"),
        ({"shards": [{"file": "../x", "clips": 10}]}, "not the name of a shard"),
        ({"labels": [7] * 10}, "labels must index"),
        ({"labels": [[0]] * 10}, "labels must be one number per clip"),
        ({"names": ["a"]}, "do not add up"),
        ({"skipped": [3]}, "does not describe"),
        ({"classes": 3}, "does not describe"),
    ],
)
def test_a_foreign_manifest_is_refused(tmp_path, changes, said):
    prepare(source(CLIPS), tmp_path)
    path = tmp_path / MANIFEST
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))
    with pytest.raises(FileFormatError, match=said):
        open_prepared(tmp_path)


def test_swapped_shards_are_detected(tmp_path):
    prepare(source(CLIPS), tmp_path, clips_per_shard=4)
    path = tmp_path / MANIFEST
    manifest = json.loads(path.read_text())
    manifest["shards"][0]["file"] = manifest["shards"][2]["file"]
    path.write_text(json.dumps(manifest))
    with pytest.raises(FileFormatError, match=r"holds 2 clips; manifest.json says 4"):
        open_prepared(tmp_path)[0]


def test_another_set_is_not_overwritten(tmp_path):
    prepare(source(CLIPS), tmp_path)
    with pytest.raises(DataError, match=r"holds the prepared data set 'toy'. Choose another folder for 'other'"):
        prepare(source(CLIPS, name="other"), tmp_path)


def test_options_and_clips_that_do_not_fit(tmp_path):
    with pytest.raises(OptionError, match="on_error must be one of"):
        prepare(source(CLIPS), tmp_path, on_error="ignore")
    with pytest.raises(OptionError, match="clips_per_shard"):
        prepare(source(CLIPS), tmp_path, clips_per_shard=0)
    with pytest.raises(ShapeError, match="must agree in joints"):
        prepare(source([clip(joints=4), clip(joints=5)]), tmp_path)


def test_missing_joints_stay_missing(tmp_path):
    prepare(source(CLIPS), tmp_path)
    assert np.isnan(open_prepared(tmp_path)[3].frames[0, :, 3]).all()


@pytest.mark.parametrize("change", [{"names": 10**30}, {"names": [1]}, {"labels": ["0"]}, {"cameras": [True]}])
def test_a_shard_with_an_impossible_description_is_refused(tmp_path, change):
    known = {"plan": "", "names": ["a"], "labels": [0], "subjects": [1], "cameras": [1], "skipped": [], **change}
    tensors = {
        "rows": np.zeros((1, 20, 3), np.float32),
        "offsets": np.array([0, 1], np.int64),
        "people": np.array([1], np.int64),
    }
    path = shard_file(tmp_path, tensors, known)
    with pytest.raises(FileFormatError, match="does not list its clips"):
        ClipShard(path)


def test_files_of_version_1_are_read(tmp_path):
    frames = np.arange(3 * 2 * 4 * 3, dtype=np.float32).reshape(3, 2, 4, 3)
    arrays = {
        "rows": frames.reshape(6, 4, 3),
        "offsets": np.array([0, 6], np.int64),
        "people": np.array([2], np.int64),
    }
    columns = {"names": ["a"], "labels": [1], "subjects": [7], "cameras": [-1]}
    skipped = [{"name": "b", "reason": "empty"}]
    path = shard_file(tmp_path, arrays, {"plan": "0", **columns, "skipped": skipped})
    manifest = {
        "format": "udtw.SkeletonSet", "version": 1, "name": "toy", "graph": "toy4", "classes": ["x", "y"],
        "shards": [{"file": path.name, "clips": 1}], **columns, "skipped": skipped,
    }  # fmt: skip
    (tmp_path / MANIFEST).write_text(json.dumps(manifest))
    skeletons = open_prepared(tmp_path)
    assert same(skeletons[0], Clip(frames, 1, "a", 7))
    assert skeletons.skipped == (Skipped("b", "empty"),)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"rows": np.zeros((2, 4, 3))}, "rows: F64"),
        ({"people": np.array([1, 1], np.int64)}, "people: I64"),
        ({"people": np.array([3], np.int64)}, "offsets that do not fit the rows"),
        ({"offsets": np.array([0, 3], np.int64)}, "offsets that do not fit the rows"),
        ({"rows": np.zeros((3, 4, 3), np.float32), "offsets": np.array([0, 3], np.int64)}, "number of people"),
    ],
)
def test_arrays_that_do_not_fit_are_refused(tmp_path, change, said):
    arrays = {
        "rows": np.zeros((2, 4, 3), np.float32),
        "offsets": np.array([0, 2], np.int64),
        "people": np.array([2], np.int64),
    }
    known = {"plan": "", "names": ["a"], "labels": [0], "subjects": [1], "cameras": [1], "skipped": []}
    with pytest.raises(FileFormatError, match=f"is not a shard of skeletons .*{said}"):
        ClipShard(shard_file(tmp_path, arrays | change, known))


def test_columns_of_different_lengths_are_refused(tmp_path):
    known = {"plan": "", "names": ["a", "b"], "labels": [0], "subjects": [1, 1], "cameras": [1, 1], "skipped": []}
    with pytest.raises(FileFormatError, match=r"different numbers of clips: \[1, 2\]"):
        ClipShard(shard_file(tmp_path, {"rows": np.zeros((0, 4, 3), np.float32)}, known))
    prepare(source(CLIPS), tmp_path)
    path = tmp_path / MANIFEST
    path.write_text(json.dumps({**json.loads(path.read_text()), "subjects": [1]}))
    with pytest.raises(FileFormatError, match="does not describe a set of skeletons"):
        open_prepared(tmp_path)
