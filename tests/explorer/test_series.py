"""The first tab: numbers and figures agree with the library, and wrong values are refused with a message."""

import base64
import re

import numpy as np
import pytest
from dash import no_update

import udtw
from tests.explorer.helpers import FIRST, SERIES, data_url
from udtw.errors import DataError, OptionError, ShapeError
from udtw.explorer.figures import blocks, corners, typed
from udtw.explorer.match_lines import PANELS, WRONG_COLOR
from udtw.explorer.series_alignment import (
    ComparedDistance,
    SeriesSettings,
    align_series,
    mean_errors,
    prepare_series,
    roughness,
)
from udtw.explorer.series_choices import ChosenSeries
from udtw.explorer.series_figures import PATH, panel_pixels
from udtw.explorer.series_tab import SeriesTab
from udtw.explorer.uploads import UPLOAD


@pytest.fixture(scope="module")
def tab():
    return SeriesTab()


def shown(text):
    return float(text.replace("−", "-"))


def array(typed_array):
    found = np.frombuffer(base64.b64decode(typed_array["bdata"]), typed_array["dtype"])
    return found.reshape([int(side) for side in typed_array["shape"].split(",")]) if "shape" in typed_array else found


def test_the_numbers_are_those_of_align(tab):
    found = tab.update(SERIES)
    x, y = (tab.choices.pick("cbf-128", item) for item in (0, 3))
    p = prepare_series(x, y, SeriesSettings(noise=1.0, variance="known", znormalize=True))
    a = udtw.align(p.x, p.y, p.var_x, p.var_y, gamma=0.1)
    assert shown(found["distance"]) == pytest.approx(float(a.distance), rel=1e-4)
    assert shown(found["regularizer"]) == pytest.approx(float(a.regularizer), rel=1e-4)
    assert shown(found["loss"]) == pytest.approx(float(a.loss), rel=1e-4)
    assert shown(found["entropy"]) == pytest.approx(float(a.paths.entropy), rel=1e-4)
    assert found["length"].endswith(f"({len(a.paths.mode())})")


@pytest.mark.parametrize(
    ("change", "number"),
    [
        ({"gamma": 0}, "distance"),
        ({"gamma": 0}, "entropy"),
        ({"beta": 3}, "loss"),
        ({"band": 0}, "distance"),
        ({"noise": 2}, "regularizer"),
        ({"variance": "match"}, "regularizer"),
        ({"scale": []}, "distance"),
        ({"side": "both"}, "distance"),
        ({"y-item": 5}, "distance"),
    ],
    ids=str,
)
def test_every_control_changes_what_it_should(tab, change, number):
    assert tab.update(SERIES | change)[number] != tab.update(SERIES)[number]


def test_the_figure_holds_the_coupling_and_the_variance(tab):
    figure = tab.update(SERIES)["alignment"]
    coupling, variance = (trace for trace in figure["data"] if trace["type"] == "heatmap")
    probabilities, sigmas = array(coupling["customdata"]), array(variance["z"])
    assert probabilities.shape == sigmas.shape == (128, 128)
    assert probabilities[0, 0] == probabilities[-1, -1] == pytest.approx(1)
    assert probabilities.sum(1).min() >= 1 - 1e-5
    np.testing.assert_allclose(sigmas[[0, 64], 0], [1, 1.5])  # ½(1 + 1) and ½(2 + 1)


def test_four_distances_are_shown_side_by_side(tab):
    *_, result = tab.aligned(SERIES | {"noise": 0, "variance": "none"})
    names = [one.name for one in result.compared]
    values = {one.name: one.value for one in result.compared}
    assert names == ["Euclidean", "DTW", "soft-DTW", "uDTW"]
    assert values["soft-DTW"] <= values["DTW"] <= values["uDTW"] <= values["Euclidean"] + values["uDTW"]
    assert values["DTW"] == pytest.approx(float(udtw.dtw(result.prepared.x, result.prepared.y)))
    panels = tab.update(SERIES)["comparison"]
    assert [panel.children[0].children[0].children for panel in panels] == names
    assert all(panel.children[1].src.startswith("data:image/png") for panel in panels)


def test_a_panel_shows_the_path_over_the_coupling():
    path = np.array([[0, 0], [1, 1], [2, 1]])
    drawn = panel_pixels(ComparedDistance("DTW", 1.0, None, path), (3, 2))
    assert drawn.tolist() == [[PATH, 0], [0, PATH], [0, PATH]]
    assert panel_pixels(ComparedDistance("uDTW", 1.0, np.eye(600), path), (600, 600)).shape == (200, 200)
    assert panel_pixels(
        ComparedDistance("uDTW", 1.0, np.array([[1.0, 1 / 16], [0, 0.5]]), path[:1]), (2, 2)
    ).tolist() == [
        [PATH, 128],
        [0, 214],
    ]


def test_a_line_only_needs_the_corners_of_a_path():
    path = np.array([[0, 0], [1, 1], [2, 2], [2, 3], [2, 4], [3, 5]])
    assert corners(path).tolist() == [[0, 0], [2, 2], [2, 4], [3, 5]]
    assert corners(path[:1]).tolist() == [[0, 0]]


def test_series_of_different_lengths_have_no_euclidean_distance(tab):
    found = tab.update(SERIES | {"y-set": "cbf-256", "y-item": 1})
    assert found["comparison"][0].children[1].children == "needs equal lengths"


def test_uploads_of_several_features_are_shown(tab):
    rows = "\n".join(f"{i},{i * i},{-i}" for i in range(20))
    key, _, name = tab.take(data_url(rows.encode()), "a.csv")
    both = {"x-set": name, "x-key": key, "y-set": name, "y-key": key}
    own = {"noise": 0, "gamma": -3, "variance": "none"}
    assert shown(tab.update(SERIES | both | own)["distance"]) < 1e-3
    with pytest.raises(ShapeError, match="2 feature"):
        tab.update(SERIES | own | {"x-set": UPLOAD, "x-key": key})


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("gamma", [None, "0.1", float("nan"), float("inf"), 5, True]),
        ("beta", [-1, 1e9, "x"]),
        ("band", [-1, 101, None]),
        ("noise", [-0.1, 1e9]),
        ("stretch", [None, 5, [1], [60, 40], [0, 200], ["a", "b"]]),
        ("side", ["z", None]),
        ("variance", ["exec", 1]),
        ("view", ["", None]),
        ("theme", ["blue", 3]),
        ("paths", [-1, 2.5, 10**6]),
        ("seed", [-1, 10**6]),
    ],
)
def test_values_outside_the_range_of_a_control_are_refused(tab, name, values):
    for value in values:
        with pytest.raises(OptionError):
            tab.update(SERIES | {name: value})


def test_roughness_estimates_the_variance_of_white_noise():
    rng = np.random.default_rng(0)
    line = np.linspace(0, 30, 4000)[:, None] + 0.5 * rng.standard_normal((4000, 1))
    assert roughness(line).shape == (4000,)
    assert roughness(line).mean() == pytest.approx(0.25, rel=0.05)
    assert roughness(np.arange(3.0)[:, None]).tolist() == [0, 0, 0]


def test_no_noise_means_no_known_variance():
    x = ChosenSeries(np.sin(np.arange(30.0))[:, None], "x", "")
    settings = SeriesSettings(noise=0.0, paths=0, variance="known")
    p = prepare_series(x, x, settings)
    assert p.var_x.tolist() == [1] * 30
    assert align_series(p, settings).samples == []


def test_long_matrices_are_drawn_in_blocks():
    matrix = np.arange(1300.0 * 7).reshape(1300, 7)
    shown, rows, columns = blocks(matrix, 512)
    assert shown.shape == (434, 7)
    assert (rows, columns) == (3, 1)
    assert shown[0, 0] == matrix[2, 0]
    means, _, _ = blocks(matrix, 512, np.add)
    assert means[-1, 0] == matrix[1299, 0]
    assert means[0, 0] == matrix[1, 0]


def test_arrays_are_sent_as_bytes():
    assert typed(np.array([[1, 2]]), np.uint8) == {"dtype": "u1", "bdata": "AQI=", "shape": "1, 2"}


EXAMPLE = FIRST | {"paths": 5}


def test_in_the_first_example_uncertainty_pays(tab):
    """And the chips say how much, with errors against the true matches."""
    *_, result = tab.aligned(EXAMPLE)
    plain, soft, uncertain = result.errors
    assert uncertain < soft < 0.6 * plain
    found = tab.update(EXAMPLE)
    assert [found[f"own-{name}"] for name in PANELS] == ["this pair"] * 3, "the number in the chip is its own"
    assert tab.means(EXAMPLE) == [f"{one:.1f}" for one in (plain, soft, uncertain)]
    broken = tab.update(EXAMPLE | {"noise": 2})
    assert broken["own-DTW"].startswith("mean of 20 seeds; this pair: ")
    assert "lets them count less" in found["sentence"]
    off = EXAMPLE | {"variance": "none"}
    assert "σ is off" in tab.update(off)["sentence"]
    *_, same = tab.aligned(off)
    assert same.errors[1] == same.errors[2], "with σ = 1, uDTW is soft-DTW"
    assert "is told" in tab.update(EXAMPLE | {"variance": "known"})["sentence"]


def test_the_sentence_does_not_praise_a_pair_on_which_uncertainty_loses(tab):
    worst = {"variance": "match", "noise": 2, "side": "x"}
    for seed in range(4):
        example = EXAMPLE | worst | {"seed": seed}
        *_, result = tab.aligned(example)
        plain, soft, uncertain = (round(one, 1) for one in result.errors)
        assert ("Here uDTW is not the best" in tab.update(example)["sentence"]) == (uncertain > min(plain, soft))


def test_more_noise_never_reads_as_better(tab, monkeypatch):
    """The chips average over seeds, since with one seed noise may help by chance."""
    monkeypatch.setattr("udtw.explorer.series_alignment.SEEDS", 8)
    means = [list(map(float, tab.means(EXAMPLE | {"noise": noise}))) for noise in (0, 1, 3)]
    assert all(np.diff(np.array(means), axis=0).min(0) > -0.05), means


def test_means_end_when_a_newer_request_arrives_and_are_not_shown_without_a_truth(tab):
    x, y, settings = tab.chosen(EXAMPLE)
    assert mean_errors(x, y, settings, lambda: False) is None
    assert tab.means(EXAMPLE | {"y-item": 2}) == [no_update] * 3
    assert tab.update(EXAMPLE | {"y-item": 2})["own-DTW"] == ""


def test_one_series_twice_is_pointed_out(tab):
    assert "the same series" in tab.update(EXAMPLE | {"y-item": 1})["sentence"]


def test_lines_join_matched_steps_and_wrong_ones_are_red(tab):
    found = tab.update(EXAMPLE)
    lines = [one for one in found["alignment"]["data"] if one["line"].get("color") == WRONG_COLOR]
    by_panel = {one["yaxis"]: np.isfinite(array(one["x"])).sum() // 2 for one in lines}
    assert by_panel["y"] > 1.5 * by_panel["y3"]  # DTW above, uDTW below
    scale = [span.children[1] for span in found["key"][0].children[1:]]
    assert scale == ["0.04", "0.16", "0.36", "0.64", "1"]
    assert tab.update(EXAMPLE | {"view": "matrix"})["key"] == []


def test_a_pair_without_a_known_truth_has_no_errors(tab):
    found = tab.update(EXAMPLE | {"y-item": 2})
    assert re.match(r"Half of the 90% intervals hold at most \d+ steps? of y; ", found["sentence"])
    assert not any("true match" in span.children[1] for span in found["key"])


def test_nothing_is_added_to_uploads_and_sigma_is_estimated(tab):
    rng = np.random.default_rng(0)
    x, y = (np.sin(np.arange(70) / 9 + shift) + 0.1 * rng.standard_normal(70) for shift in (0, 0.3))
    texts = ["\n".join(map(repr, one.tolist())) for one in (x, y)]
    keys = [tab.take(data_url(one.encode()), f"{name}.csv")[0] for one, name in zip(texts, "ab", strict=True)]
    own = EXAMPLE | {"x-set": UPLOAD, "x-key": keys[0], "y-set": UPLOAD, "y-key": keys[1]}
    found = tab.update(own | {"noise": 3, "side": "both"})
    a = udtw.match(x, y).alignment
    assert shown(found["distance"]) == pytest.approx(float(a.distance), rel=1e-4)
    assert found["sentence"].startswith("Nothing was added to a.csv and b.csv. Half of ")
    with pytest.raises(OptionError, match=r"noise of a\.csv is unknown"):
        tab.update(own | {"variance": "known"})


def test_a_constant_upload_is_answered(tab):
    key = tab.take(data_url(b"1\n1\n1\n1\n"), "flat.csv")[0]
    with pytest.raises(DataError, match=r"flat\.csv is constant"):
        tab.update(EXAMPLE | {"x-set": UPLOAD, "x-key": key})


def test_times_of_a_file_are_written_at_the_axis(tab):
    rows = "".join(f"2024-03-01T10:{minute:02d},{minute % 7 + 0.1 * (minute % 3)}\n" for minute in range(40))
    key, described, name = tab.take(data_url(f"when,value\n{rows}".encode()), "a.csv")
    figure = tab.update(EXAMPLE | {"x-set": name, "x-key": key})["alignment"]
    assert "time column when" in described
    assert figure["layout"]["xaxis2"]["ticktext"][0] == "10:00"
    assert figure["layout"]["xaxis2"]["title"]["text"] == "time of x"


def test_the_verdict_of_match_is_shown_in_words_and_color(tab):
    *_, result = tab.aligned(EXAMPLE)
    found = udtw.match(result.prepared.x, result.prepared.y)
    [said] = tab.update(EXAMPLE)["verdict"]
    assert said.children[1] == found.trust.sentence
    assert said.className == "verdict good"
    np.testing.assert_array_equal(result.matches.low, found.low)
    assert tab.update(EXAMPLE | {"variance": "known"})["verdict"] == []


@pytest.mark.parametrize("view", ["lines", "matrix"])
def test_unrelated_series_have_no_lines(tab, view):
    unrelated = EXAMPLE | {"x-set": "cbf-128", "x-item": 0, "y-set": "charts-60", "y-item": 5, "view": view}
    found = tab.update(unrelated)
    assert found["verdict"][0].className == "verdict none"
    assert found["verdict"][0].children[1].startswith("No match")
    assert found["sentence"] == ""
    names = [one.get("name") for one in found["alignment"]["data"]]
    assert "most probable path" not in names
    if view == "lines":
        below = [one for one in found["alignment"]["data"] if one["yaxis"] == "y3"]
        related = [one for one in tab.update(EXAMPLE)["alignment"]["data"] if one["yaxis"] == "y3"]
        assert len(below) == 4 < len(related), "both series with their bands"
        assert not found["alignment"]["layout"]["shapes"]


@pytest.mark.parametrize("view", ["lines", "matrix"])
def test_a_lag_of_an_upload_keeps_the_shape_of_the_matrix(tab, view):
    rng = np.random.default_rng(0)
    base = np.convolve(rng.standard_normal(160), np.hanning(15), "same")
    pair = base[20:120] + 0.1 * rng.normal(size=100), base[40:150] + 0.1 * rng.normal(size=110)
    texts = ["\n".join(map(repr, one.tolist())) for one in pair]
    keys = [tab.take(data_url(one.encode()), f"{name}.csv")[0] for one, name in zip(texts, "ab", strict=True)]
    own = EXAMPLE | {"x-set": UPLOAD, "x-key": keys[0], "y-set": UPLOAD, "y-key": keys[1], "view": view}
    *_, result = tab.aligned(own)
    assert result.matches.noise.open_ends
    assert result.coupling.shape == result.variance.shape == (100, 110)
    assert (result.mode >= 0).all()
    assert (result.mode < (100, 110)).all()
    assert "have no partner in y" in tab.update(own)["verdict"][0].children[1]


@pytest.mark.parametrize("view", ["lines", "matrix"])
def test_figures_take_the_colours_of_the_theme(tab, view):
    light, dark = (tab.update(EXAMPLE | {"view": view, "theme": theme})["alignment"] for theme in ("light", "dark"))
    assert light["layout"]["paper_bgcolor"] == "#FFFFFF"
    assert dark["layout"]["paper_bgcolor"] == "#1A1F27"
    assert "#FFFFFF" not in str(dark)
    assert [one.get("x") for one in light["data"]] == [one.get("x") for one in dark["data"]]


def test_two_files_are_x_and_y_and_one_waits_for_the_other(tab):
    files = [{"contents": data_url(f"{k}\n2\n4\n".encode()), "name": f"{name}.csv"} for k, name in enumerate("ab")]
    found = tab.take_files({"files": files[:1]}, "")
    assert (found["x-name"], found["y-name"]) == ("x: a.csv: 3 steps", "y: waiting for its file")
    own = EXAMPLE | {"x-set": UPLOAD, "y-set": UPLOAD}
    with pytest.raises(DataError, match="Waiting for a second file"):
        tab.update(own | {"x-key": found["x-key"], "y-key": found["y-key"]})
    found = tab.take_files({"files": files}, "")
    assert found["source"] == "mine"
    assert (
        float(tab.update(own | {"x-key": found["x-key"], "y-key": found["y-key"], "variance": "none"})["distance"]) > 0
    )
    for wrong in (None, {}, {"files": []}, {"files": [1]}, {"files": files * 2}):
        with pytest.raises(OptionError, match="sent no file"):
            tab.take_files(wrong, "")


def test_a_file_with_decimal_commas_offers_the_choice(tab):
    files = {"files": [{"contents": data_url(b"t;a\n1;2,5\n2;3,5\n3;1,5\n"), "name": "a.csv"}]}
    with pytest.raises(DataError, match="Choose the decimal separator below the file"):
        tab.take_files(files, "")
    key = tab.take_files(files, ",")["x-key"]
    assert tab.choices.uploads.get(key)[1].values[:, -1].tolist() == [2.5, 3.5, 1.5]
    with pytest.raises(OptionError, match="decimal separator"):
        tab.take_files(files, "'")


@pytest.mark.parametrize("source", ["example", "ucr"])
def test_choosing_a_set_never_aligns_a_series_with_itself(tmp_path, source):
    for split in ("TRAIN", "TEST"):
        (tmp_path / f"Waves_{split}.tsv").write_text("1\t0\t1\t0\n2\t1\t0\t1\n")
    tab = SeriesTab(tmp_path)
    found = tab.sets_of(source)
    for option in found["options"]:
        assert len({tab.items(option["value"], side)["value"] for side in "xy"}) == 2
