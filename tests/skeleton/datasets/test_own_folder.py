"""Clips of one's own in a folder: what is read, and what is refused by name."""

import json

import numpy as np
import pytest

from udtw.errors import DataError, LengthError, NonFiniteError, OptionError, ShapeError
from udtw.skeleton import ActionRecognizer, Recipe, from_edges
from udtw.skeleton.datasets import Faults, SkeletonSet, load_skeletons, protocol

EDGES = [(0, 1), (1, 2), (2, 3)]
SMALL = {"n_steps": 1, "n_way": 2, "n_query": 1, "dim": 8, "joint_dim": 4, "width": 8, "depth": 0}


def frames(seed=0, steps=20, joints=4):
    return np.random.default_rng(seed).standard_normal((steps, joints, 2))


@pytest.fixture
def folder(tmp_path):
    for c, name in enumerate(("bow", "jump", "kick", "wave")):
        (tmp_path / name).mkdir()
        for i in range(4):
            np.save(tmp_path / name / f"{i}.npy", frames(10 * c + i))
    (tmp_path / "graph.json").write_text(json.dumps({"edges": EDGES, "centre": 1}))
    return tmp_path


def test_classes_are_subfolders_and_the_layout_is_described(folder):
    found = load_skeletons("folder", folder)
    assert found.classes == ("bow", "jump", "kick", "wave")
    assert found.graph == from_edges(EDGES, 4, 1).text
    np.testing.assert_allclose(found[4].frames[:, 0], frames(10), rtol=1e-6)
    assert found[4].confidence.min() == 1
    assert found.labels.tolist() == np.repeat(range(4), 4).tolist()
    assert set(found.labels[protocol(found).novel]) == {1}


def test_json_and_confidence(folder):
    values = frames(seed=5).tolist()
    values[3][2] = [None, None]
    (folder / "wave" / "5.json").write_text(json.dumps(values))
    (folder / "wave" / "6.json").write_text(
        json.dumps({"frames": values, "confidence": np.full((20, 4), 0.5).tolist()})
    )
    np.save(folder / "bow" / "0.confidence.npy", np.full((20, 4), 0.25))
    found = load_skeletons("folder", folder)
    clips = {clip.name: clip for clip in found}
    assert len(found) == 18
    assert np.isnan(clips["wave/5.json"].frames[3, 0, 2]).all()
    assert clips["wave/6.json"].confidence.max() == 0.5
    assert clips["bow/0.npy"].confidence.max() == 0.25
    assert clips["bow/1.npy"].confidence.min() == 1


def test_the_layout_by_the_number_of_joints(tmp_path):
    (tmp_path / "wave").mkdir()
    np.save(tmp_path / "wave" / "1.npy", frames(joints=17))
    assert load_skeletons("folder", tmp_path).graph == "coco17"
    np.save(tmp_path / "wave" / "1.npy", frames(joints=20))
    with pytest.raises(
        DataError, match=r"20 joints, and kinect20, kinect-sdk20, msr20 have that many. Write graph.json"
    ):
        load_skeletons("folder", tmp_path)
    np.save(tmp_path / "wave" / "1.npy", frames(joints=5))
    with pytest.raises(DataError, match=r"no known layout has that many"):
        load_skeletons("folder", tmp_path)
    (tmp_path / "graph.json").write_text('{"graph": "coco17"}')
    with pytest.raises(ShapeError, match=r"1.npy has 5 joints; the layout, coco17, has 17"):
        load_skeletons("folder", tmp_path)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "is not JSON"),
        ("[1]", "must be"),
        ('{"graph": "smpl"}', "graph must be one of"),
        ('{"edges": [[0, 9]]}', "joint numbers from 0 to 3"),
        ('{"edges": [[0, 1.5]]}', "must be"),
        ('{"edges": [[0, 1]], "centre": "hip"}', "must be"),
    ],
)
def test_a_wrong_description_is_named(folder, text, said):
    (folder / "graph.json").write_text(text)
    with pytest.raises(DataError, match=said) as caught:
        load_skeletons("folder", folder)
    assert "graph.json" in str(caught.value)


BAD = {
    "text.npy": (b"not an array", DataError, "text.npy cannot be read"),
    "objects.npy": (np.array([None]), DataError, "objects.npy cannot be read"),
    "flat.npy": (np.zeros((20, 4)), ShapeError, r"flat.npy must be \(T, P, J, C\)"),
    "joints.npy": (frames(joints=5), ShapeError, "joints.npy has 5 joints"),
    "empty.npy": (frames(steps=0), LengthError, "has no frames"),
    "lost.npy": (np.full((20, 4, 2), np.nan), DataError, "no joint is tracked"),
    "ragged.json": (b"[[[1, 2], [1]]]", DataError, "ragged.json cannot be read"),
    "words.json": (b'{"frames": "none"}', DataError, "words.json"),
    "nothing.json": (b"{}", ShapeError, "nothing.json"),
    "half.json": (b"[[[1, 2", DataError, "half.json cannot be read"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_file_is_named_or_left_out(folder, name):
    content, kind, said = BAD[name]
    file = folder / "wave" / name
    if isinstance(content, bytes):
        file.write_bytes(content)
    else:
        np.save(file, content)
    with pytest.raises(kind, match=said):
        load_skeletons("folder", folder)
    kept = load_skeletons("folder", folder, on_error="skip")
    assert len(kept) == 16
    assert [one.name for one in kept.skipped] == [f"wave/{name}"]


CONFIDENCE = {
    "another shape": (np.ones((20, 3)), ShapeError, r"shape \(20, 1, 4\)"),
    "outside": (np.full((20, 4), 1.5), OptionError, r"must lie in \[0, 1\]"),
    "negative": (np.full((20, 4), -0.1), OptionError, r"must lie in \[0, 1\]"),
    "NaN": (np.full((20, 4), np.nan), NonFiniteError, "80 confidences are NaN"),
    "never tracked": (np.zeros((20, 4)), DataError, "no joint is tracked"),
    "words": (np.full((20, 4), "sure"), ShapeError, "confidence"),
}


@pytest.mark.parametrize("what", CONFIDENCE)
def test_bad_confidence_is_named_and_the_rest_is_kept(folder, what):
    values, kind, said = CONFIDENCE[what]
    np.save(folder / "kick" / "2.confidence.npy", values)
    with pytest.raises(kind, match=said):
        load_skeletons("folder", folder)
    kept = load_skeletons("folder", folder, on_error="skip")
    assert [one.name for one in kept.skipped] == ["kick/2.npy"]
    X, sure = [frames(i) for i in range(3)], [np.ones((20, 4)), values, np.ones((20, 4))]
    with pytest.raises(kind, match=said):
        SkeletonSet.from_arrays(X, ["a", "b", "a"], edges=EDGES, confidence=sure)
    arrays = SkeletonSet.from_arrays(X, ["a", "b", "a"], edges=EDGES, confidence=sure, on_error="skip")
    assert arrays.names == ("clip 0", "clip 2")
    assert arrays.classes == ("a", "b")
    assert [one.name for one in arrays.skipped] == ["clip 1"]


def test_nothing_that_can_be_read(tmp_path, folder):
    (tmp_path / "none").mkdir()
    with pytest.raises(DataError, match="holds no clips: expected a subfolder for each class"):
        load_skeletons("folder", tmp_path / "none")
    (folder / "graph.json").unlink()
    for file in folder.glob("*/*.npy"):
        file.write_bytes(b"no")
    with pytest.raises(DataError, match=r"None of the 16 clips could be read. The first: .*0.npy"):
        load_skeletons("folder", folder, on_error="skip")


@pytest.mark.parametrize("edges", [EDGES, from_edges(EDGES, 4), "4 joints: 0-1 1-2 2-3, centre 0"])
def test_own_graphs_and_text_labels_train_and_compare(edges):
    X = [frames(i, 16 + i) for i in range(8)]
    own = SkeletonSet.from_arrays(X, ["wave", "bow"] * 4, edges=edges)
    layout = from_edges(EDGES, 4)
    recognizer = ActionRecognizer(Recipe(**SMALL), layout, 2).fit(Faults().of(own))
    assert recognizer.scores(own[:2], own).shape == (2, 8)
    assert SkeletonSet.from_clips("mine", layout, own.classes, list(own)).graph == own.graph
