"""Sets of clips: lazy, split into subsets without reading, and strict about their input."""

import pickle

import numpy as np
import pytest

from tests.skeleton.datasets.clips import clip, many, same, source
from udtw.errors import DataError, LengthError, NonFiniteError, OptionError, ShapeError
from udtw.skeleton import graph
from udtw.skeleton.datasets import SkeletonSet
from udtw.skeleton.datasets.clip import Clip
from udtw.skeleton.datasets.skeleton_set import Entry, read_all

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


def test_clips_shorter_than_a_block_can_be_left_out(skeletons):
    found = skeletons.at_least(6)  # clip i has 2 + i frames
    assert found.names == tuple(f"clip {i}" for i in range(4, 10))
    assert [one.name for one in found.skipped] == [f"clip {i}" for i in range(4)]
    assert found.skipped[0].reason == "2 frames are fewer than 6"
    assert skeletons.skipped == ()
    with pytest.raises(LengthError, match="none of the 10 clips has 12 frames or more; the longest has 11"):
        skeletons.at_least(12)


FRAMES = np.ones((3, 1, 4, 3), np.float32)


def test_without_confidence_it_is_one():
    assert (Clip(FRAMES, 0, "x").confidence == np.ones((3, 1, 4))).all()


def test_missing_joints_are_not_tracked():
    frames = FRAMES.copy()
    frames[1, 0, 2, 1] = np.nan
    one = Clip(frames, 0, "x", confidence=np.full((3, 1, 4), 0.5))
    assert one.confidence.dtype == np.float32
    assert one.tracked[1, 0].tolist() == [0.5, 0.5, 0, 0.5]


@pytest.mark.parametrize(
    ("confidence", "error", "said"),
    [
        (np.ones((3, 4)), ShapeError, r"shape \(3, 1, 4\); got float64 of shape \(3, 4\)"),
        (np.full((3, 1, 4), 1.5), OptionError, r"must lie in \[0, 1\]; got 1.5 to 1.5"),
        (np.full((3, 1, 4), -0.1), OptionError, r"must lie in \[0, 1\]"),
        (np.full((3, 1, 4), np.inf), OptionError, r"must lie in \[0, 1\]"),
        (np.full((3, 1, 4), np.nan), NonFiniteError, "12 confidences are NaN"),
        (np.full((3, 1, 4), "sure"), ShapeError, "one number per frame"),
        (np.zeros((3, 1, 4)), DataError, "no joint is tracked in any of its 3 frames"),
    ],
)
def test_bad_confidence_is_refused_by_name(confidence, error, said):
    with pytest.raises(error, match=f"clip 'odd': .*{said}"):
        Clip(FRAMES, 0, "odd", confidence=confidence)


def test_a_clip_in_which_nothing_is_tracked_is_refused_or_skipped():
    clips = many(4)
    clips[2].confidence[:] = 0
    with pytest.raises(DataError, match="clip 'clip 2': no joint is tracked"):
        read_all(source(clips))
    found = read_all(source(clips), "skip")
    assert found.names == ("clip 0", "clip 1", "clip 3")
    assert [one.name for one in found.skipped] == ["clip 2"]


def test_arrays_become_clips():
    rng = np.random.default_rng(0)
    X, sure = [rng.standard_normal((n, 3, 2)) for n in (5, 7)], [rng.random((n, 3)) for n in (5, 7)]
    found = SkeletonSet.from_arrays(X, ["wave", "kick"], edges=[(0, 1), (1, 2)], centre=1, confidence=sure)
    assert found.classes == ("kick", "wave")
    assert found.labels.tolist() == [1, 0]
    np.testing.assert_array_equal(found[1].frames[:, 0], X[1].astype(np.float32))
    np.testing.assert_array_equal(found[1].confidence[:, 0], sure[1].astype(np.float32))
    assert graph(found.graph).edges == ((0, 1), (1, 2))
    assert graph(found.graph).centre == 1
    two = SkeletonSet.from_arrays(np.ones((2, 5, 2, 20, 3)), [1, 2], edges="kinect20")
    assert two[0].frames.shape == (5, 2, 20, 3)
    assert (two[0].confidence == 1).all()


@pytest.mark.parametrize(
    ("change", "error", "said"),
    [
        ({"y": [0]}, ShapeError, "got 2 clips, 1 labels"),
        ({"confidence": np.ones((1, 5, 3))}, ShapeError, "1 arrays of confidence"),
        ({"confidence": np.ones((2, 4, 3))}, ShapeError, r"clip 'clip 0': confidence .* shape \(5, 1, 3\)"),
        ({"confidence": np.full((2, 5, 3), 2)}, OptionError, "clip 'clip 0': confidence must lie in"),
        ({"edges": "kinect20"}, ShapeError, r"the 20 joints of the layout; X\[0\] has 3"),
        ({"edges": [(0, 9)]}, OptionError, "joint numbers from 0 to 2"),
        ({"X": np.ones((2, 5, 3))}, ShapeError, r"X\[0\] must be \(T, P, J, C\), or without P"),
        ({"X": [], "y": []}, DataError, "X is empty"),
    ],
)
def test_arrays_that_do_not_fit_are_refused(change, error, said):
    given = {"X": np.ones((2, 5, 3, 2)), "y": [0, 1], "edges": [(0, 1), (1, 2)]} | change
    with pytest.raises(error, match=said):
        SkeletonSet.from_arrays(given.pop("X"), given.pop("y"), **given)
