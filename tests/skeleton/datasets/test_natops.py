"""NATOPS: eight joints of three coordinates from 24 channels."""

import numpy as np
import pytest

from udtw.errors import DataError
from udtw.skeleton.datasets import load_skeletons

HEADER = """@problemName NATOPS
@timeStamps false
@missing false
@univariate false
@dimensions {channels}
@equalLength true
@seriesLength 5
@classLabel true {labels}
@data
"""
LABELS = "1.0 2.0 3.0 4.0 5.0 6.0"


def write(folder, part, X, labels, header_labels=LABELS):
    lines = []
    for series, label in zip(X.tolist(), labels, strict=True):
        lines.append(":".join([*(",".join(map(repr, channel)) for channel in series), label]))
    header = HEADER.format(channels=X.shape[1], labels=header_labels)
    (folder / f"NATOPS_{part}.ts").write_text(header + "\n".join(lines) + "\n")


def test_channels_become_joints(tmp_path):
    X = np.random.default_rng(0).standard_normal((3, 24, 5)).round(4)
    write(tmp_path, "TRAIN", X[:2], ["6.0", "1.0"])
    write(tmp_path, "TEST", X[2:], ["3.0"])
    skeletons = load_skeletons("natops", tmp_path)
    assert skeletons.names == ("train-001", "train-002", "test-001")
    assert skeletons.labels.tolist() == [5, 0, 2]
    assert skeletons.classes[2] == "not clear"
    assert skeletons.graph == "upperbody8"
    assert skeletons[0].frames.shape == (5, 1, 8, 3)
    # The third joint is the left elbow: channels 7, 8 and 9.
    np.testing.assert_array_equal(skeletons[2].frames[:, 0, 2], X[2, 6:9].T.astype(np.float32))


@pytest.mark.parametrize(("channels", "label", "said"), [(23, "1.0", "24 channels"), (24, "7.0", "from 1 to 6")])
def test_another_set_of_that_name_is_refused(tmp_path, channels, label, said):
    for part in ("TRAIN", "TEST"):
        write(tmp_path, part, np.ones((1, channels, 5)), [label], LABELS + " 7.0")
    with pytest.raises(DataError, match=said):
        load_skeletons("natops", tmp_path)


def test_a_missing_split_is_named(tmp_path):
    write(tmp_path, "TRAIN", np.ones((1, 24, 5)), ["1.0"])
    with pytest.raises(DataError, match="NATOPS_TEST"):
        load_skeletons("natops", tmp_path)
