"""Northwestern-UCLA and MSR Action3D: from a folder or a zip file, and only named errors from damaged files."""

import json
import random

import numpy as np
import pytest

from tests.skeleton.datasets.clips import outcome, zip_bytes
from udtw.errors import DataError, UdtwError
from udtw.fewshot import EpisodeSampler
from udtw.skeleton.datasets import load_skeletons, protocol
from udtw.skeleton.datasets.numbered_sets import SINGLE_FRAMES, read_json, read_text
from udtw.skeleton.datasets.protocols import cross_view

RNG = np.random.default_rng(0)
JOINTS = RNG.standard_normal((5, 20, 3)).round(4)


def json_bytes(joints=JOINTS, **known):
    return json.dumps({"file_name": "x", "skeletons": np.asarray(joints).tolist(), "label": 1} | known).encode()


def text_bytes(joints=JOINTS, confidence=1.0):
    rows = np.concatenate([joints, np.broadcast_to(confidence, joints.shape[:2])[..., None]], -1).reshape(-1, 4)
    return "\n".join("  ".join(f"{value:.4f}" for value in row) for row in rows).encode()


def nw_ucla_files():
    return {
        f"a{action:02d}_s{subject:02d}_e00_v{view:02d}.json": json_bytes(JOINTS + action)
        for action in (1, 2, 3, 4, 5, 6, 8, 9, 11, 12)
        for subject in (1, 2)
        for view in (1, 2, 3)
    }


@pytest.fixture(params=["folder", "zip"])
def nw_ucla(request, tmp_path):
    files = nw_ucla_files() | {f"{SINGLE_FRAMES[0]}.json": json_bytes(JOINTS[:1]), "readme.json": b"[]"}
    if request.param == "zip":
        (tmp_path / "all_sqe.zip").write_bytes(zip_bytes({f"all_sqe/{name}": one for name, one in files.items()}))
    else:
        for name, content in files.items():
            (tmp_path / name).write_bytes(content)
    return tmp_path


def test_nw_ucla(nw_ucla):
    skeletons = load_skeletons("nw-ucla", nw_ucla)
    assert len(skeletons) == 60
    assert [one.name for one in skeletons.skipped] == [SINGLE_FRAMES[0]]
    assert skeletons.names[-1] == "a12_s02_e00_v03"
    assert (skeletons.labels[-1], skeletons.subjects[-1], skeletons.cameras[-1]) == (9, 2, 3)
    np.testing.assert_allclose(skeletons[0].frames[:, 0], JOINTS + 1, rtol=1e-6)


def test_other_views_are_tested(nw_ucla):
    skeletons = load_skeletons("nw-ucla", nw_ucla)
    train, test = cross_view(skeletons)
    assert set(skeletons.cameras[train]) == {1, 2}
    assert set(skeletons.cameras[test]) == {3}
    parts = protocol(skeletons)
    assert not set(skeletons.labels[parts.train]) & set(skeletons.labels[parts.novel])
    assert set(skeletons.cameras[parts.train]) == {1, 2}
    novel = skeletons.subset(parts.novel)
    sampler = EpisodeSampler(novel.labels, 5, 1, 2, queries=parts.queries)
    for number in range(20):
        episode = sampler.episode(number)
        assert set(novel.cameras[episode.query.ravel()]) == {3}
        assert 3 not in novel.cameras[episode.support.ravel()]
        assert (novel.labels[episode.query] == episode.classes[:, None]).all()
    with pytest.raises(DataError, match="n_query = 3 samples"):
        EpisodeSampler(novel.labels, 5, 1, 3, queries=parts.queries)
    with pytest.raises(DataError, match="has no cross-view protocol"):
        cross_view(skeletons.subset(train))


def test_a_joint_at_the_camera_is_missing():
    joints = JOINTS.copy()
    joints[1, 3] = 0
    frames = read_json(json_bytes(joints), "x.json")
    assert np.argwhere(np.isnan(frames).all(-1)).tolist() == [[1, 0, 3]]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"{", "is not JSON"),
        (b"[]", "expected"),
        (json_bytes(skeletons=[]), "with 1 to 10000 frames"),
        (json_bytes(JOINTS[:, :19]), "frame 1: expected 20 joints of three numbers"),
        (json_bytes(skeletons=[[["a", 0, 0]] * 20]), "frame 1: expected 20 joints of three numbers"),
    ],
)
def test_other_json_is_refused(content, said):
    with pytest.raises(DataError, match=f"x.json.*{said}"):
        read_json(content, "x.json")


def test_the_fourth_column_is_the_confidence(tmp_path):
    sure = RNG.random((5, 20)).round(4)
    joints = JOINTS.copy()
    joints[2, 5] = 0
    (tmp_path / "a03_s10_e02_skeleton3D.txt").write_bytes(text_bytes(joints, sure))
    (tmp_path / "a03_s10_e02_skeleton.txt").write_bytes(text_bytes(joints + 1, sure))
    skeletons = load_skeletons("msr-action3d", tmp_path)
    assert (skeletons.names, skeletons.labels[0], skeletons.subjects[0]) == (("a03_s10_e02",), 2, 10)
    clip = skeletons[0]
    assert np.isnan(clip.frames[2, 0, 5]).all()
    sure[2, 5] = 0
    np.testing.assert_allclose(clip.confidence[:, 0], sure, rtol=1e-6)
    np.testing.assert_allclose(clip.frames[0, 0], joints[0], rtol=1e-6)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "got 0 lines"),
        (text_bytes()[:-60], "got 9[0-9] lines|values where"),
        (b"1 2 3\n" * 20, "line 1: found 3 values where x, y, z and confidence belong"),
        (b"1 2 3 x\n" * 20, "could not convert"),
    ],
)
def test_other_text_is_refused(content, said):
    with pytest.raises(DataError, match=f"x.txt.*({said})"):
        read_text(content, "x.txt")


def test_absurd_numbers_cost_a_joint_and_not_the_clip(tmp_path):
    joints, sure = JOINTS.copy(), np.full(JOINTS.shape[:2], 0.5)
    joints[1, 3, 2], joints[2, 4, 0], sure[3, 5], sure[4, 6] = 1e9, -1e300, 7.0, np.nan
    (tmp_path / "a01_s01_e01_skeleton3D.txt").write_bytes(text_bytes(joints, sure))
    (tmp_path / "a02_s01_e01_skeleton3D.txt").write_bytes(text_bytes(confidence=0.0))
    clip, doubted = load_skeletons("msr-action3d", tmp_path)
    assert np.argwhere(np.isnan(clip.frames[:, 0]).all(-1)).tolist() == [[1, 3], [2, 4]]
    assert np.argwhere(clip.confidence[:, 0] == 0).tolist() == [[1, 3], [2, 4], [3, 5], [4, 6]]
    assert np.isfinite(doubted.frames).all()
    assert (doubted.confidence == 1).all()
    frames = read_json(json_bytes(joints), "x.json")
    assert np.argwhere(np.isnan(frames[:, 0]).all(-1)).tolist() == [[1, 3], [2, 4]]


@pytest.mark.parametrize(("read", "whole"), [(read_json, json_bytes()), (read_text, text_bytes())])
def test_mutated_files_give_frames_or_a_named_error(read, whole):
    rng = random.Random(0)
    for _ in range(300):
        content = bytearray(whole)
        for _ in range(rng.randint(1, 3)):
            content[rng.randrange(len(content))] = rng.choice([*b'0123456789.-e ,[]{}"', rng.randrange(256)])
        result = outcome(read, bytes(content), "x")
        if not isinstance(result, UdtwError):
            frames = result[0] if isinstance(result, tuple) else result
            assert frames.shape[1:] == (1, 20, 3)
            assert not np.isinf(frames).any()


@pytest.mark.parametrize(("name", "said"), [("nw-ucla", "a01_s01_e00_v01.json"), ("msr-action3d", "skeleton3D.txt")])
def test_a_folder_without_it_says_what_was_expected(tmp_path, name, said):
    with pytest.raises(DataError, match=f"expected files such as .*{said}"):
        load_skeletons(name, tmp_path)
