"""UTD-MHAD: from a folder or the zip file, and only named errors from damaged ones."""

import io
import random

import numpy as np
import pytest

pytest.importorskip("scipy")
from scipy.io import loadmat

from tests.skeleton.datasets.clips import mat_bytes, outcome, zip_bytes
from udtw.errors import DataError, UdtwError
from udtw.skeleton.datasets import load_skeletons
from udtw.skeleton.datasets.numbered_sets import MAX_BYTES, UTD_MHAD, read_mat

NAMES = ("a1_s1_t1", "a2_s3_t4", "a10_s1_t1", "a27_s8_t2")
FILES = {f"{name}_skeleton.mat": mat_bytes(4 + i, seed=i) for i, name in enumerate(NAMES)}


@pytest.fixture(params=["folder", "zip", "zip file itself"])
def place(request, tmp_path):
    if request.param == "folder":
        (tmp_path / "Skeleton").mkdir()
        for name, content in FILES.items():
            (tmp_path / "Skeleton" / name).write_bytes(content)
        (tmp_path / "Skeleton" / "readme.txt").write_text("joints")
        return tmp_path
    members = {f"Skeleton/{name}": content for name, content in FILES.items()}
    (tmp_path / "Skeleton.zip").write_bytes(zip_bytes({"Skeleton/joints.txt": b"head", **members}))
    (tmp_path / "other.zip").write_bytes(zip_bytes({"paper.pdf": b""}))
    return tmp_path if request.param == "zip" else tmp_path / "Skeleton.zip"


def test_all_clips_in_the_order_of_their_numbers(place):
    skeletons = load_skeletons("utd-mhad", place)
    assert skeletons.names == NAMES
    assert skeletons.labels.tolist() == [0, 1, 9, 26]
    assert skeletons.subjects.tolist() == [1, 3, 1, 8]
    assert skeletons.graph == "kinect20"
    assert len(skeletons.classes) == 27
    for one, content in zip(skeletons, FILES.values(), strict=True):
        expected = loadmat(io.BytesIO(content))["d_skel"]
        assert np.array_equal(one.frames[:, 0], expected.transpose(2, 0, 1).astype(np.float32))


def test_class_names_are_those_of_the_set():
    classes = tuple(UTD_MHAD.actions.values())
    assert len(set(classes)) == 27
    assert (classes[2], classes[22], classes[26]) == ("wave", "walk", "squat")


def test_a_joint_with_a_value_that_is_not_finite_is_missing():
    joints = np.ones((20, 3, 2))
    joints.view(np.uint64)[0, 0, 0] = 0x7FF0000000000001  # a signalling NaN, which a cast would warn of
    joints[3, 1, 0], joints[4, 2, 1], joints[5, 0, 1] = np.nan, np.inf, 1e300
    frames = read_mat(mat_bytes(d_skel=joints), "x.mat")
    assert np.argwhere(np.isnan(frames).all(-1)).tolist() == [[0, 0, 0], [0, 0, 3], [1, 0, 4], [1, 0, 5]]
    assert np.isnan(frames).sum() == 12


@pytest.mark.parametrize(
    ("arrays", "said"),
    [
        ({"other": np.ones(3)}, "no array called d_skel"),
        ({"d_skel": "text"}, "d_skel is not an array of real numbers"),
        ({"d_skel": np.ones((25, 3, 9))}, r"must be \(20, 3, T\); got \(25, 3, 9\)"),
        ({"d_skel": np.ones((20, 3))}, r"must be \(20, 3, T\)"),
        ({"d_skel": np.ones((20, 3, 0))}, r"must be \(20, 3, T\)"),
    ],
)
def test_other_arrays_are_refused(arrays, said):
    with pytest.raises(DataError, match=f"x.mat.*{said}"):
        read_mat(mat_bytes(**arrays), "x.mat")


def test_mutated_files_give_frames_or_a_named_error():
    rng = random.Random(0)
    whole = mat_bytes(8)
    outcomes = {"frames": 0, "error": 0}
    for _ in range(300):
        content = bytearray(whole[: rng.choice([len(whole), rng.randrange(len(whole))])])
        for _ in range(rng.randrange(4)):
            if content:
                content[rng.randrange(min(len(content), rng.choice([200, len(content)])))] = rng.randrange(256)
        result = outcome(read_mat, bytes(content), "x.mat")
        if isinstance(result, UdtwError):
            assert "x.mat" in str(result)
            outcomes["error"] += 1
        else:
            assert result.shape[1:] == (1, 20, 3)
            outcomes["frames"] += 1
    assert min(outcomes.values()) > 10


def test_a_broken_file_is_named_and_refused_or_skipped(tmp_path):
    for name, content in FILES.items():
        (tmp_path / name).write_bytes(content[:100] if "a2_" in name else content)
    with pytest.raises(DataError, match=r"a2_s3_t4_skeleton.mat is not a .mat file with an array d_skel: 100 bytes"):
        load_skeletons("utd-mhad", tmp_path)
    skeletons = load_skeletons("utd-mhad", tmp_path, on_error="skip")
    assert len(skeletons) == 3
    assert [one.name for one in skeletons.skipped] == ["a2_s3_t4"]
    assert "a2_s3_t4_skeleton.mat" in skeletons.skipped[0].reason


def test_a_member_that_unpacks_to_more_than_a_clip_is_refused(tmp_path):
    bomb = {"a1_s1_t1_skeleton.mat": bytes(MAX_BYTES + 1)}
    (tmp_path / "bomb.zip").write_bytes(zip_bytes(bomb))
    with pytest.raises(DataError, match=r"member a1_s1_t1_skeleton.mat is damaged: more than 16777216 bytes"):
        load_skeletons("utd-mhad", tmp_path)


def test_members_are_never_written_anywhere(tmp_path):
    (tmp_path / "data").mkdir()
    members = {"../../a1_s1_t1_skeleton.mat": FILES["a1_s1_t1_skeleton.mat"]}
    (tmp_path / "data" / "evil.zip").write_bytes(zip_bytes(members))
    assert len(load_skeletons("utd-mhad", tmp_path / "data")) == 1
    assert [path.name for path in tmp_path.rglob("*")] == ["data", "evil.zip"]


def test_damaged_archives_are_named(tmp_path):
    whole = zip_bytes(FILES)
    rng = random.Random(1)
    for _ in range(100):
        content = bytearray(whole)
        for _ in range(3):
            content[rng.randrange(len(content))] = rng.randrange(256)
        (tmp_path / "x.zip").write_bytes(bytes(content))
        result = outcome(load_skeletons, "utd-mhad", tmp_path, on_error="skip")
        assert not isinstance(result, UdtwError) or str(tmp_path) in str(result)
    (tmp_path / "x.zip").write_bytes(whole[:-30])
    with pytest.raises(DataError, match=r"x.zip is not a complete zip file"):
        load_skeletons("utd-mhad", tmp_path)


def test_a_folder_without_it_says_what_was_expected(tmp_path):
    (tmp_path / "a28_s1_t1_skeleton.mat").write_bytes(b"")
    with pytest.raises(DataError, match=r"expected files such as a1_s1_t1_skeleton.mat"):
        UTD_MHAD(tmp_path)
