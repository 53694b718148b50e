"""Sets of clips: lazy, split into subsets without reading, and strict about their input."""

import pickle

import numpy as np
import pytest

from tests.skeleton.datasets.clips import clip, many, same
from udtw.errors import LengthError, OptionError, ShapeError
from udtw.skeleton.datasets import Clip, Entry, SkeletonSet

CLIPS = many(10)


@pytest.fixture
def skeletons():
    return SkeletonSet.from_clips("toy", "toy4", ("a", "b", "c"), CLIPS)


def test_a_set_of_clips_gives_them_back(skeletons):
    assert len(skeletons) == 10
    assert all(same(one, other) for one, other in zip(skeletons, CLIPS, strict=True))
    assert same(skeletons[-1], CLIPS[-1])
    assert skeletons.labels.tolist() == [i % 3 for i in range(10)]
    assert skeletons.subjects.tolist() == [i % 4 for i in range(10)]
    assert "10 clips, 3 of 3 classes" in repr(skeletons)


def test_subsets_of_subsets(skeletons):
    part = skeletons.subset([7, 2, -1, 2]).subset(np.array([1, 2]))
    assert [one.name for one in part] == ["clip 2", "clip 9"]
    assert same(part[1], CLIPS[9])
    assert part.labels.tolist() == [2, 0]
    assert len(skeletons.subset([])) == 0
    assert [one.name for one in skeletons[2:4]] == ["clip 2", "clip 3"]


def test_classes_by_name_and_number(skeletons):
    part = skeletons.of_classes(["a", 2])
    assert set(part.labels.tolist()) == {0, 2}
    assert part.names == tuple(f"clip {i}" for i in range(10) if i % 3 != 1)
    assert part.classes == skeletons.classes
    with pytest.raises(OptionError, match="has no class 'd'"):
        skeletons.of_classes(["d"])
    with pytest.raises(OptionError, match="has no class 3"):
        skeletons.of_classes([3])


def test_frames_are_read_on_demand():
    read = []

    def reader(index):
        read.append(index)
        return CLIPS[index].frames

    entries = [Entry("x", 0), Entry("y", 1), Entry("z", 0)]
    skeletons = SkeletonSet("toy", "toy4", "ab", entries, reader)
    part = skeletons.of_classes("a")
    assert read == []
    assert same(part[1], Clip(CLIPS[2].frames, 0, "z"))
    assert read == [2]


def test_sets_can_be_sent_to_worker_processes(skeletons):
    assert same(pickle.loads(pickle.dumps(skeletons.subset([3])))[0], CLIPS[3])


@pytest.mark.parametrize("index", [10, -11])
def test_an_index_outside_is_an_index_error(skeletons, index):
    with pytest.raises(IndexError, match="10 clips"):
        skeletons[index]
    with pytest.raises(IndexError, match="10 clips"):
        skeletons.subset([0, index])


@pytest.mark.parametrize("indices", [[[1, 2]], [0.5], [True, False]])
def test_indices_are_whole_numbers(skeletons, indices):
    with pytest.raises(ShapeError, match="whole numbers"):
        skeletons.subset(indices)


def test_labels_must_fit_the_classes():
    with pytest.raises(OptionError, match="labels must index the 2 classes from 0; got 0 to 2"):
        SkeletonSet.from_clips("toy", "toy4", "ab", CLIPS)
    with pytest.raises(ShapeError, match=r"subjects must be one number per clip, shape \(1,\); got shape \(1, 2\)"):
        SkeletonSet("toy", "toy4", "a", [Entry("x", 0, subject=[1, 2])], lambda index: CLIPS[0].frames)


@pytest.mark.parametrize(
    ("frames", "error", "said"),
    [
        (np.zeros((3, 1, 4, 3)), ShapeError, "float32"),
        (np.zeros((3, 4, 3), np.float32), ShapeError, r"\(T, P, J, C\)"),
        (np.zeros((3, 3, 4, 3), np.float32), ShapeError, "1 or 2 people"),
        (np.zeros((3, 1, 4, 4), np.float32), ShapeError, "2 or 3 coordinates"),
        (np.zeros((0, 1, 4, 3), np.float32), LengthError, "no frames"),
        ([1, 2], ShapeError, "list"),
    ],
)
def test_frames_of_another_shape_are_refused(frames, error, said):
    with pytest.raises(error, match=said):
        Clip(frames, 0, "odd")


def test_a_clip_has_the_length_of_its_frames():
    assert len(clip(frames=7)) == 7
