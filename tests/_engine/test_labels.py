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
    assert back["partner"].tolist() == [X.index[i] for i in back["j"]]
    plain = udtw.align(X.to_numpy(), Y.to_numpy(), gamma=0.05).matches().to_frame()
    assert "partner" not in plain
    assert plain.index.tolist() == [0, 1, 2, 3, 4]
    pd.testing.assert_frame_equal(frame.drop(columns="partner").reset_index(drop=True), plain)


def test_a_step_without_a_partner_has_no_label():
    frame = udtw.align(X[1:4], Y, gamma=0.01, relax="y").matches(of="y").to_frame()
    assert frame["partner"].isna().tolist() == (frame["j"] < 0).tolist()
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


def test_every_call_of_the_first_hour_matches_frames_by_name():
    steps = np.arange(40)
    frame = pd.DataFrame({"temp": 20 + 5 * np.sin(steps / 5), "hum": 50 + 20 * np.cos(steps / 7)})
    turned, other = frame[["hum", "temp"]], frame.rename(columns={"hum": "press"})
    np.testing.assert_array_equal(udtw.match(frame, turned).low, udtw.match(frame, frame).low)
    joint = udtw.match_many([frame, turned, frame])
    np.testing.assert_allclose([one.explained for one in joint.trust], 1, atol=0.01)
    for normalize in (None, "window"):
        search = SubsequenceSearch(turned[10:25], normalize=normalize)
        [found] = search.search(frame, k=1)
        assert (found.begin, found.end) == (10, 24)
        assert found.distance < 1e-20
        with pytest.raises(ShapeError, match="lacks"):
            search.search(other)
    assert SubsequenceSearch([turned[10:25], frame[5:9]]).search(frame, k=1)[0].distance == 0
    assert udtw.Follower(frame).update(turned) == udtw.Follower(frame).update(frame)
    for call in (
        lambda: udtw.match(frame, other),
        lambda: udtw.match_many([frame, other]),
        lambda: udtw.Follower(frame).update(other),
        lambda: SubsequenceSearch([frame, other]),
    ):
        with pytest.raises(ShapeError, match="lacks \\['hum'\\] and has \\['press'\\]"):
            call()


class Polars:
    """A frame with a column of dates, as Polars has it: the array of all columns holds numbers."""

    columns, shape = ["when", "v"], (30, 2)

    def __getitem__(self, name):
        days = np.datetime64("2024-01-01", "us") + np.arange(30)
        return days if name == "when" else np.sin(np.arange(30.0))

    def __array__(self, dtype=None, copy=None):
        return np.column_stack([self["when"].astype(float), self["v"]])

    def __len__(self):
        return 30


@pytest.mark.parametrize(
    "call",
    [
        lambda: udtw.dtw(Polars(), Polars()),
        lambda: udtw.match(Polars(), Polars()),
        lambda: udtw.match_many([Polars(), Polars()]),
        lambda: udtw.pairwise([Polars(), Polars()], metric="dtw"),
        lambda: udtw.Follower(Polars()),
        lambda: SubsequenceSearch(Polars()),
        lambda: SubsequenceSearch(np.ones((3, 2))).search(Polars()),
    ],
)
def test_dates_of_polars_are_not_features(call):
    with pytest.raises(ShapeError, match="'when' of dates"):
        call()


def test_the_steps_of_wide_frames_are_matched_by_name():
    wide = pd.DataFrame(np.random.default_rng(0).random((3, 12)), columns=[f"t{step}" for step in range(12)])
    turned = wide[sorted(wide)]  # t0, t1, t10, t11, t2, …
    assert np.diag(udtw.pairwise(wide, turned, metric="dtw")).tolist() == [0, 0, 0]
    assert udtw.pairwise(wide, wide[["t0", "t1"]], metric="dtw").shape == (3, 3)
