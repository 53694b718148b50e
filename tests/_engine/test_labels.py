"""Results show themselves in one line, and keep the labels of pandas objects."""

import numpy as np
import pandas as pd
import pytest
import torch

import udtw
from udtw.errors import ShapeError
from udtw.timeseries import SubsequenceSearch, barycenter

X = pd.Series([0.0, 1.0, 2.0, 1.0, 0.0], index=pd.date_range("2026-01-01", periods=5, freq="h"), name="temperature")
Y = pd.DataFrame({"temperature": [0.0, 0.0, 1.0, 2.0, 1.0, 0.0]}, index=list("abcdef"))


def test_matches_have_the_index_of_the_series():
    found = udtw.align(X, Y, gamma=0.05).matches()
    frame = found.to_frame()
    assert frame.index.equals(X.index)
    assert frame["partner"].tolist() == [Y.index[j] for j in found.index]
    back = udtw.align(X, Y, gamma=0.05).matches(of="y").to_frame()
    assert back.index.tolist() == list("abcdef")
    assert back["partner"].tolist() == [X.index[i] for i in back["index"]]
    plain = udtw.align(X.to_numpy(), Y.to_numpy(), gamma=0.05).matches().to_frame()
    assert "partner" not in plain
    assert plain.index.tolist() == [0, 1, 2, 3, 4]
    pd.testing.assert_frame_equal(frame.drop(columns="partner").reset_index(drop=True), plain)


def test_a_step_without_a_partner_has_no_label():
    frame = udtw.align(X[1:4], Y, gamma=0.01, relax="y").matches(of="y").to_frame()
    assert frame["partner"].isna().tolist() == (frame["index"] < 0).tolist()
    assert frame["partner"].isna().any()


def test_tables_of_data_frames_have_labels():
    rows = pd.DataFrame(np.arange(12.0).reshape(3, 4), index=["u", "v", "w"])
    table = udtw.pairwise(rows, metric="dtw")
    assert table.index.tolist() == table.columns.tolist() == ["u", "v", "w"]
    np.testing.assert_array_equal(table, udtw.pairwise(rows.to_numpy(), metric="dtw"))
    some = udtw.pairwise(rows, rows[:2], metric="dtw")
    assert some.shape == (3, 2)
    assert some.columns.tolist() == ["u", "v"]
    assert udtw.pairwise(rows, rows.to_numpy(), metric="dtw").columns.tolist() == [0, 1, 2]
    distance, omega = udtw.pairwise(rows, return_parts=True)
    assert distance.loc["u", "w"] > 0
    assert omega.loc["u", "w"] == 0


SERIES = [
    np.sin(np.arange(30) / 4 + phase) + 0.1 * np.random.default_rng(phase).standard_normal(30) for phase in range(4)
]
BATCH = torch.zeros(2, 5, 1)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: udtw.align(SERIES[0], SERIES[1]), "1 pair(s) of 30 × 30 steps"),
        (lambda: udtw.align(SERIES[0], SERIES[1]).paths, "backend='numba'"),
        (lambda: udtw.align(SERIES[0], SERIES[1]).matches(), "30 steps, median interval of"),
        (lambda: udtw.align(BATCH, BATCH).matches(), "2 pair(s) of 5 steps"),
        (lambda: udtw.align(SERIES[0][10:15], SERIES[1], relax="y", gamma=0.01).matches(of="y"), "30 steps"),
        (lambda: udtw.calibrate(SERIES), "inside intervals of 90%"),
        (lambda: barycenter(SERIES, "dtw"), "30 steps, loss="),
        (lambda: SubsequenceSearch(SERIES[0][5:15]).search(SERIES[0], k=1)[0], "begin=5"),
    ],
)
def test_results_show_themselves_in_one_line(make, words):
    shown = repr(make())
    assert words in shown
    assert "\n" not in shown
    assert len(shown) < 200


def test_frames_are_matched_by_the_names_of_their_columns():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"temp": 100 * rng.random(12), "hum": rng.random(12)})
    turned = frame[["hum", "temp"]]
    assert udtw.dtw(frame, turned) == 0
    assert udtw.pairwise([frame, turned], [turned], metric="dtw").tolist() == [[0], [0]]
    with pytest.raises(ShapeError, match="lacks \\['temp'\\] and has \\['press'\\]"):
        udtw.dtw(frame, turned.rename(columns={"temp": "press"}))
    dated = frame.assign(when=pd.date_range("2024-01-01", periods=12))
    with pytest.raises(ShapeError, match="'when' of dates"):
        udtw.dtw(dated, dated)
