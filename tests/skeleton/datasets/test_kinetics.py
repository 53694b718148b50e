"""Kinetics-skeleton: people of OpenPose from JSON, lifted ones from .npz, labels from the published lists."""

import io
import json
import random

import numpy as np
import pytest

from tests.skeleton.datasets.clips import outcome, zip_bytes
from udtw.errors import DataError, UdtwError
from udtw.skeleton.datasets import load_skeletons
from udtw.skeleton.datasets.clip import Clip
from udtw.skeleton.datasets.kinetics import read_clip, read_lifted

RNG = np.random.default_rng(0)


def person(score=0.5, seed=0, **changes):
    pose = np.random.default_rng(seed).uniform(0.1, 0.9, 36).round(3).tolist()
    return {"pose": pose, "score": [score] * 18, **changes}


def clip_of(*frames, **known):
    return {"data": [{"frame_index": i + 1, "skeleton": list(people)} for i, people in enumerate(frames)], **known}


def read(clip, label=None):
    return read_clip(clip if isinstance(clip, bytes) else json.dumps(clip).encode(), "x.json", label)[0]


def pose(seed):
    return np.array(person(seed=seed)["pose"], np.float32).reshape(18, 2)


def test_one_person():
    frames = read(clip_of([person(seed=1)], [person(seed=2)], label="archery", label_index=5), label=5)
    assert frames.shape == (2, 1, 18, 2)
    assert frames.dtype == np.float32
    np.testing.assert_array_equal(frames[:, 0], [pose(1), pose(2)])


def test_the_two_with_the_highest_score_of_each_frame():
    frames = read(clip_of([person(0.3, 1), person(0.9, 2), person(0.5, 3)], [person(0.2, 4)], [], [person(0, 5)]))
    assert frames.shape == (2, 2, 18, 2)
    np.testing.assert_array_equal(frames[0], [pose(2), pose(3)])
    np.testing.assert_array_equal(frames[1, 0], pose(4))
    assert np.isnan(frames[1, 1]).all()


def test_joints_without_score_are_missing():
    scores = [0.5] * 18
    scores[4], scores[7] = 0, float("nan")
    frames = read(clip_of([{**person(seed=1), "score": scores}]))
    assert np.flatnonzero(np.isnan(frames[0, 0]).all(-1)).tolist() == [4, 7]


def test_scores_are_confidences():
    scores = [0.25] * 18
    scores[4], scores[5], scores[6] = 0, 1.01, -0.5
    clip = clip_of([person(0.9, 1), {**person(seed=2), "score": scores}], [person(0.75, 3)])
    _, confidence = read_clip(json.dumps(clip).encode(), "x.json")
    assert confidence.shape == (2, 2, 18)
    np.testing.assert_allclose(confidence[0, 0], 0.9)
    np.testing.assert_allclose(confidence[0, 1, 3:8], [0.25, 0, 1, 0, 0.25])
    np.testing.assert_allclose(confidence[1], np.repeat([[0.75], [0]], 18, 1))


def test_frames_are_ordered_by_their_index():
    clip = clip_of([person(seed=1)], [person(seed=2)])
    clip["data"].reverse()
    np.testing.assert_array_equal(read(clip)[:, 0], [pose(1), pose(2)])


@pytest.mark.parametrize(
    ("clip", "said"),
    [
        (b"{", "x.json is not JSON"),
        (b"\xff", "x.json is not JSON"),
        (b"[" * 100_000, "x.json is not JSON"),
        ([], "expected"),
        ({"data": 3}, "expected"),
        (clip_of([]), "there is no person in any of its 1 frames"),
        ({"data": [{"skeleton": []}]}, "frame 1: frame_index must be a whole number"),
        ({"data": [{"frame_index": 1, "skeleton": []}] * 2}, "frame 2: frame_index"),
        ({"data": [{"frame_index": 1}]}, "frame 1: skeleton must be a list"),
        (clip_of([3]), "person 1: expected pose and score; got int"),
        (clip_of([person(pose=[0.1] * 35)]), "pose must be a list of 36 numbers"),
        (clip_of([person(pose=["0.1"] * 36)]), "pose must be a list of 36 numbers"),
        (clip_of([{**person(), "score": [0.1, None] * 9}]), "score must be a list of 18 numbers"),
        (clip_of([person()], label_index=3), "label_index is 3, but in the list of labels it is 5"),
    ],
)
def test_damage_is_named(clip, said):
    with pytest.raises(DataError, match=said):
        read(clip, label=5)


def test_mutated_files_give_frames_or_a_named_error():
    rng = random.Random(0)
    whole = json.dumps(clip_of([person(0.4, 1), person(0.6, 2)], [person(seed=3)], label="a", label_index=5)).encode()
    kinds = set()
    for _ in range(500):
        content = bytearray(whole)
        for _ in range(rng.randint(1, 4)):
            at = rng.randrange(len(content))
            content[at : at + rng.choice([0, 1, 1, 5])] = rng.choice(
                [
                    b"",
                    b"9",
                    b"-",
                    b"e",
                    b"NaN",
                    b"Infinity",
                    b"null",
                    b"1e999",
                    b"[",
                    b"}",
                    b'"',
                    bytes([rng.randrange(256)]),
                ]
            )
        result = outcome(read_clip, bytes(content), "x.json", 5)
        if isinstance(result, UdtwError):
            assert "x.json" in str(result)
        else:
            Clip.of(result, 0, "x")
            assert not np.isinf(result[0]).any()
        kinds.add(type(result).__name__)
    assert kinds == {"tuple", "DataError"}


def npz_bytes(**arrays):
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **arrays)
    return buffer.getvalue()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_lifted_clips(dtype):
    frames = RNG.standard_normal((4, 2, 18, 3)).astype(dtype)
    frames[1, 1, 3, 0] = np.nan
    for array in (frames, np.asfortranarray(frames)):
        found = read_lifted(npz_bytes(frames=array, other=np.ones(3)), "x.npz")
        assert np.isnan(found[1, 1, 3]).all()
        frames[1, 1, 3] = np.nan
        np.testing.assert_array_equal(found, frames.astype(np.float32))


def test_lifted_clips_may_have_confidence():
    frames, sure = np.ones((4, 1, 18, 3)), RNG.random((4, 1, 18))
    found = read_lifted(npz_bytes(frames=frames, confidence=sure), "x.npz")
    np.testing.assert_array_equal(found[1], sure.astype(np.float32))
    with pytest.raises(DataError, match=r"x.npz: confidence must be \(4, 1, 18\) like its frames.*got float64 of"):
        read_lifted(npz_bytes(frames=frames, confidence=sure[:3]), "x.npz")


def npy_claiming(shape):
    buffer = io.BytesIO()
    np.lib.format.write_array_header_1_0(buffer, {"descr": "<f4", "fortran_order": False, "shape": shape})
    return zip_bytes({"frames.npy": buffer.getvalue()})


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "not an .npz file"),
        (npz_bytes(other=np.ones(3)), "not an .npz file with an array frames"),
        (npz_bytes(frames=np.ones((4, 18, 3))), r"must be \(T, P, 18, 3\)"),
        (npz_bytes(frames=np.ones((4, 3, 18, 3))), "P 1 or 2"),
        (npz_bytes(frames=np.ones((4, 1, 18, 3), complex)), "float32 or float64; got complex128"),
        (npz_bytes(frames=np.array([[[[{}] * 3] * 18]], dtype=object)), "got object"),
        (npy_claiming((10**15, 1, 18, 3)), "T up to 10000"),
        (npy_claiming((10**4, 1, 18, 3)), r"0 bytes of numbers do not make the shape \(10000, 1, 18, 3\)"),
        (zip_bytes({"frames.npy": b"nonsense"}), "not an .npz file"),
    ],
)
def test_other_npz_files_are_refused(content, said):
    with pytest.raises(DataError, match=rf"x.npz.*{said}"):
        read_lifted(content, "x.npz")


def test_mutated_npz_files_give_frames_or_a_named_error():
    rng = random.Random(0)
    whole = npz_bytes(frames=np.ones((4, 1, 18, 3), np.float32))
    for _ in range(300):
        content = bytearray(whole)
        for _ in range(rng.randint(1, 3)):
            content[rng.randrange(len(content))] = rng.randrange(256)
        result = outcome(read_lifted, bytes(content), "x.npz")
        assert "x.npz" in str(result) if isinstance(result, UdtwError) else result.shape == (4, 1, 18, 3)


@pytest.fixture
def place(tmp_path):
    """Two lists with three clips that are there, one without skeleton and one that is absent; 2D and 3D."""
    labels = {
        "train": {"b": (0, "archery"), "a": (2, "bowling"), "gone": (0, "archery"), "none": (2, "bowling")},
        "val": {"c": (2, "bowling")},
    }
    for part, clips in labels.items():
        (tmp_path / f"kinetics_{part}").mkdir()
        known = {
            name: {"has_skeleton": name != "none", "label": text, "label_index": label}
            for name, (label, text) in clips.items()
        }
        (tmp_path / f"kinetics_{part}_label.json").write_text(json.dumps(known))
        for name in set(clips) - {"gone", "none"}:
            text = json.dumps(clip_of([person(seed=ord(name))], label=clips[name][1], label_index=clips[name][0]))
            (tmp_path / f"kinetics_{part}" / f"{name}.json").write_text(text)
            (tmp_path / f"kinetics_{part}" / f"{name}.npz").write_bytes(npz_bytes(frames=np.ones((3, 1, 18, 3))))
    return tmp_path


def test_clips_are_those_of_the_lists(place):
    skeletons = load_skeletons("kinetics", place)
    assert skeletons.names == ("a", "b", "c")
    assert skeletons.labels.tolist() == [2, 0, 2]
    assert skeletons.classes == ("archery", "class 1", "bowling")
    assert skeletons.graph == "openpose18"
    assert {one.name for one in skeletons.skipped} == {"gone", "none"}
    np.testing.assert_array_equal(skeletons[1].frames[0, 0], pose(ord("b")))
    lifted = load_skeletons("kinetics-3d", place)
    assert lifted.name == "kinetics-3d"
    assert lifted[0].frames.shape == (3, 1, 18, 3)


@pytest.mark.parametrize(
    ("labels", "said"),
    [
        ([], "expected"),
        ({"a": 3}, "expected"),
        ({"a": {"label": "x"}}, "'a': expected a label and a label_index"),
        ({"a": {"label": "x", "label_index": 10**9}}, "label_index from 0 to 999"),
        ({"a": {"label": "x", "label_index": 1}, "b": {"label": "y", "label_index": 1}}, "class 1 is called 'y' here"),
        ({"../../a": {"label": "x", "label_index": 1}}, "is not the name of a clip"),
        ({"\N{GOTHIC LETTER HWAIR}" * 100: {"label": "x", "label_index": 1}}, "is not the name of a clip"),
        ({"q": {"label": "x", "label_index": 0}}, "none of the 1 listed clips"),
    ],
)
def test_lists_that_cannot_be_used_are_named(place, labels, said):
    (place / "kinetics_val_label.json").unlink()
    (place / "kinetics_train_label.json").write_text(json.dumps(labels))
    with pytest.raises(DataError, match=said):
        load_skeletons("kinetics", place)


def test_a_folder_without_lists_says_what_was_expected(tmp_path):
    with pytest.raises(DataError, match=r"expected kinetics_train_label.json or kinetics_val_label.json"):
        load_skeletons("kinetics", tmp_path)
