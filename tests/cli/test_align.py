"""`udtw align`: the numbers of `udtw.align`, from files."""

import json
import re

import numpy as np
import pytest

pytest.importorskip("typer")
pytest.importorskip("matplotlib")

import udtw
from tests.cli.helpers import fails, run_json, run_ok
from udtw._engine.problem import Problem
from udtw._kernels.cpu.backend import NumbaBackend


@pytest.fixture
def pair(tmp_path):
    """Two series of two features in files of different kinds."""
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((12, 2)), rng.standard_normal((9, 2))
    np.savetxt(tmp_path / "a.csv", x, delimiter=",", header="left,right", comments="")
    np.save(tmp_path / "b.npy", y)
    return tmp_path / "a.csv", tmp_path / "b.npy", x, y


def test_prints_what_align_finds(pair):
    a, b, x, y = pair
    said = run_json("align", a, b, "--gamma", 0.5, "--sigma", "none")
    found = udtw.align(x, y, gamma=0.5)
    assert said["distance"] == pytest.approx(float(found.distance))
    assert said["loss"] == said["free_energy"] == pytest.approx(float(found.free_energy))
    assert said["regularizer"] == 0
    assert said["entropy"] == pytest.approx(float(found.paths.entropy))
    assert said["path_length"] == pytest.approx(float(found.coupling.sum()))
    assert said["best_path_length"] == len(found.paths.mode())
    assert said["steps"] == [12, 9]


def test_table_for_people(pair):
    shown = run_ok("align", *pair[:2], "--sigma", "estimate").stdout
    assert shown.splitlines()[-2].startswith("distance ")
    assert "a.csv and b.npy" in shown
    assert "Intervals count the noise of --sigma and --gamma only" in shown
    assert "calibrated" not in run_ok("align", *pair[:2], "--gamma", 1).stdout


@pytest.mark.parametrize("metric", ["dtw", "soft_dtw", "soft_dtw_divergence"])
def test_other_metrics(pair, metric):
    a, b, x, y = pair
    value = udtw.dtw(x, y, band=3) if metric == "dtw" else getattr(udtw, metric)(x, y, gamma=0.3, band=3)
    said = run_json("align", a, b, "--metric", metric, "--gamma", 0.3, "--band", 3)
    assert said["distance"] == pytest.approx(float(value))
    assert said["loss"] == said["distance"]


def test_euclidean_needs_equal_lengths(pair):
    a, b, *_ = pair
    assert run_json("align", a, a, "--metric", "euclidean")["distance"] == 0
    assert "one length" in fails(1, "align", a, b, "--metric", "euclidean")


def test_sigma_in_the_last_column(pair):
    a, b, x, y = pair
    x, y = np.abs(x) + 0.1, np.abs(y) + 0.1
    np.savetxt(a, x, delimiter=",")
    np.save(b, y)
    found = udtw.align(x[:, :1], y[:, :1], x[:, 1] ** 2, y[:, 1] ** 2, beta=0.5)
    said = run_json("align", a, b, "--sigma", "column", "--beta", 0.5, "--gamma", 1)
    assert said["features"] == 1
    assert said["loss"] == pytest.approx(float(found.loss))


def test_learned_sigma_lowers_the_loss(pair):
    a, b, *_ = pair
    learned, estimated = (run_json("align", a, b, "--sigma", one) for one in ("learn", "estimate"))
    assert estimated["sigma"] == "estimate"
    assert learned["loss"] < estimated["loss"]
    first, second = (np.log([row["sigma_i"] for row in one["matches"]]) for one in (learned, estimated))
    assert np.abs(first - second).max() < 0.95 * np.log(4)


def test_znormalize(pair):
    a, b, x, y = pair
    x, y = ((s - s.mean(0)) / s.std(0) for s in (x, y))
    said = run_json("align", a, b, "--znormalize", "--sigma", "none")
    assert said["distance"] == pytest.approx(float(udtw.align(x, y).distance))


@pytest.mark.parametrize("view", ["matches", "matrix"])
@pytest.mark.parametrize("kind", ["png", "pdf", "svg"])
def test_plot(pair, tmp_path, kind, view):
    picture = tmp_path / "new" / f"out.{kind}"
    result = run_ok("align", *pair[:2], "--plot", picture, "--view", view, "--json")
    assert picture.stat().st_size > 5_000
    assert str(picture) in result.stderr
    assert str(picture) not in result.stdout


@pytest.fixture
def waves(tmp_path):
    """A good pair with a time column, in other units, with a faulty stretch."""
    rng = np.random.default_rng(0)
    time = np.linspace(0, 1, 60)
    a = np.sin(9 * time) + 0.1 * rng.normal(size=60)
    a[25:33] += rng.normal(size=8)
    b = np.sin(9 * time**1.3) + 0.1 * rng.normal(size=60)
    minutes = np.datetime64("2024-03-01T10:00") + np.arange(60)
    for name, values in (("a", 5 * a + 20), ("b", b)):
        rows = [f"{when},{value!r}\n" for when, value in zip(minutes, values.tolist(), strict=True)]
        (tmp_path / f"{name}.csv").write_text("timestamp,temp\n" + "".join(rows))
    return tmp_path / "a.csv", tmp_path / "b.csv", 5 * a + 20, b


def test_a_good_match_says_so_first(waves, tmp_path):
    a, b, x, y = waves
    wanted = udtw.match(x, y, level=0.8)
    shown = run_ok("align", a, b, "--level", 0.8, "--out", tmp_path / "m.csv").stdout.splitlines()
    assert shown[0] == wanted.trust.sentence
    assert shown[0].startswith("Good match")
    assert "the 80 % intervals hold" in shown[2]
    assert [line for line in shown if "distance" in line] == shown[-1:]
    assert any("(2024-03-01T10:" in line for line in shown), "doubtful stretches have times"
    rows = read_rows(tmp_path / "m.csv")
    assert [int(row["low"]) for row in rows] == wanted.low.tolist()
    np.testing.assert_allclose([float(row["expected"]) for row in rows], wanted.expected)
    np.testing.assert_allclose([float(row["sigma_i"]) for row in rows], np.sqrt(wanted.noise.var_x))
    assert rows[3]["time_i"] == "2024-03-01T10:03"


def test_json_holds_the_verdict_and_the_noise(waves):
    a, b, x, y = waves
    wanted = udtw.match(x, y)
    said = run_json("align", a, b)
    assert said["verdict"] == "good"
    for name in ("sentence", "p_value", "coverage"):
        assert said[name] == getattr(wanted.trust, name)
    for name in ("gain", "offset", "drift", "correlation_time"):
        assert said["noise"][name] == pytest.approx(getattr(wanted.noise, name))
    assert 4 < said["noise"]["gain"] < 6
    assert len(said["matches"]) == 60
    assert said["columns"] == ["temp"]
    assert said["time_columns"] == ["timestamp", "timestamp"]
    other = run_json("align", a, b, "--of", "y")
    assert other["files"] == [str(b), str(a)]
    assert other["of"] == "y"
    assert 0.1 < other["noise"]["gain"] < 0.4


def test_unrelated_series_have_no_match_and_no_lines(tmp_path, monkeypatch):
    walks = np.random.default_rng(0).standard_normal((2, 80)).cumsum(1)
    names = [tmp_path / f"{name}.csv" for name in "ab"]
    for path, walk in zip(names, walks, strict=True):
        np.savetxt(path, walk)
    figures = []
    monkeypatch.setattr("udtw.cli.align.save_figure", lambda figure, path: figures.append(figure))
    result = run_ok("align", *names, "--plot", tmp_path / "m.png", "--out", tmp_path / "m.csv")
    lines = result.stdout.splitlines()
    assert lines[0].startswith("No match: ")
    assert "interval" not in "".join(lines[1:])
    assert "m.csv is not to be trusted" in result.stderr
    run_ok("align", *names, "--plot", tmp_path / "m.png", "--view", "matrix")
    for figure in figures:
        assert figure.get_suptitle().startswith("No match")
        drawn = [one for axes in figure.axes for one in axes.collections if type(one).__name__ == "LineCollection"]
        assert not any(len(path.vertices) for one in drawn for path in one.get_paths() if axes_of(one) != "colorbar")
    assert run_json("align", *names)["verdict"] == "none"


def axes_of(artist):
    label = artist.axes.get_label()
    return "colorbar" if label == "<colorbar>" else label


@pytest.mark.parametrize("view", ["matches", "matrix"])
def test_a_lag_leaves_steps_without_a_partner(tmp_path, view):
    rng = np.random.default_rng(0)
    base = np.convolve(rng.standard_normal(160), np.hanning(15), "same")
    np.savetxt(tmp_path / "a.csv", base[20:120] + 0.1 * rng.normal(size=100))
    np.savetxt(tmp_path / "b.csv", base[40:150] + 0.1 * rng.normal(size=110))
    words = ("align", tmp_path / "a.csv", tmp_path / "b.csv")
    result = run_ok(
        *words,
        "--out",
        tmp_path / "m.csv",
        "--warped",
        tmp_path / "w.csv",
        "--plot",
        tmp_path / "p.png",
        "--view",
        view,
    )
    assert "have no partner in y" in result.stdout.splitlines()[0]
    rows, warped = read_rows(tmp_path / "m.csv"), read_rows(tmp_path / "w.csv")
    assert rows[5]["j"] == warped[5]["1_mean"] == warped[5]["1_std"] == ""
    partners = [int(row["j"]) - int(row["i"]) for row in rows[25:]]
    assert abs(np.median(partners) + 20) <= 1
    assert (tmp_path / "p.png").stat().st_size > 5_000


def test_warped_series_keep_their_columns(waves, tmp_path):
    a, b, x, y = waves
    run_ok("align", a, b, "--warped", tmp_path / "w.csv")
    rows = read_rows(tmp_path / "w.csv")
    assert list(rows[0]) == ["i", "timestamp", "temp_mean", "temp_std"]
    mean, std = udtw.match(x, y).warp(y)
    np.testing.assert_allclose([float(row["temp_mean"]) for row in rows], mean)
    np.testing.assert_allclose([float(row["temp_std"]) for row in rows], std)
    assert rows[-1]["timestamp"] == "2024-03-01T10:59"
    before = a.read_bytes()
    assert "one of the files that are read" in fails(2, "align", a, b, "--warped", a)
    assert "one of the files that are read" in fails(2, "align", a, b, "--out", tmp_path / "new" / ".." / "b.csv")
    assert a.read_bytes() == before
    assert "--warped belongs to the match" in fails(2, "align", a, b, "--warped", tmp_path / "w.csv", "--gamma", 1)


def test_constant_columns_are_left_out(tmp_path):
    rng = np.random.default_rng(0)
    for name in "ab":
        wave = np.sin(np.arange(50) / 5) + 0.1 * rng.normal(size=50)
        np.savetxt(
            tmp_path / f"{name}.csv", np.column_stack([wave, np.ones(50), 2 * wave]), delimiter=",",
            header="u,flat,v", comments="",
        )  # fmt: skip
    files = tmp_path / "a.csv", tmp_path / "b.csv"
    result = run_ok("align", *files, "--out", tmp_path / "m.csv", "--warped", tmp_path / "w.csv")
    assert "left out flat: constant" in result.stderr
    assert list(read_rows(tmp_path / "m.csv")[0])[-4:] == ["sigma_i_u", "sigma_j_u", "sigma_i_v", "sigma_j_v"]
    assert "flat_mean" in read_rows(tmp_path / "w.csv")[0]
    assert "x or y is constant" in fails(2, "align", *files, "--columns", "flat")


def read_rows(path):
    names, *lines = path.read_text().splitlines()
    return [dict(zip(names.split(","), line.split(","), strict=True)) for line in lines]


@pytest.mark.parametrize("of", ["x", "y"])
def test_matches_as_a_table_and_as_json(pair, tmp_path, of):
    a, b, x, y = pair
    words = ("align", a, b, "--sigma", "estimate", "--gamma", "auto", "--level", 0.8, "--of", of)
    said = run_json(*words, "--out", tmp_path / "new" / "m.csv")
    run_ok(*words, "--out", tmp_path / "m.json")
    alignment = udtw.align(x, y, "estimate", "estimate", gamma=4.0)
    found, variance = alignment.matches(0.8, of), alignment.step_variances[of == "y"]
    rows = read_rows(tmp_path / "new" / "m.csv")
    assert list(rows[0]) == ["i", "j", "probability", "low", "high", "expected", "matched", "sigma_i", "sigma_j"]
    for name, wanted in {**vars(found), "j": found.index, "sigma_i": np.sqrt(variance)}.items():
        if name != "index":
            np.testing.assert_allclose([float(row[name]) for row in rows], wanted, rtol=1e-9)
    assert said["matches"] == json.loads((tmp_path / "m.json").read_text())
    assert [row["j"] for row in said["matches"]] == found.index.tolist()
    assert said["gamma"] == 4
    assert said["of"] == of
    assert said["sure_share"] == pytest.approx((found.probability >= 0.5).mean())


def test_the_path_of_dtw(pair, tmp_path):
    a, b, x, y = pair
    said = run_json("align", a, b, "--metric", "dtw", "--warp-penalty", 0.3)
    path = udtw.align(x, y, warp_penalty=0.3).paths.mode()
    for row in said["matches"]:
        partners = path[path[:, 0] == row["i"], 1]
        assert row["probability"] == pytest.approx(1 / len(partners))
        assert partners[0] <= row["low"] <= row["j"] <= row["high"] <= partners[-1]
    assert "--metric udtw says how sure" in run_ok("align", a, b, "--metric", "dtw").stdout


def test_the_stretch_of_relaxed_ends(tmp_path):
    rng = np.random.default_rng(1)
    stream = rng.standard_normal((60, 1))
    np.savetxt(tmp_path / "query.csv", stream[20:32] + 0.3 * rng.standard_normal((12, 1)))
    np.savetxt(tmp_path / "stream.csv", stream)
    words = (
        "align",
        tmp_path / "query.csv",
        tmp_path / "stream.csv",
        "--relax",
        "y",
        "--gamma",
        0.5,
        "--level",
        0.9,
        "--sigma",
        "none",
    )
    said = run_json(*words)
    alignment = udtw.align(np.loadtxt(tmp_path / "query.csv"), stream[:, 0], gamma=0.5, relax="y")
    for name, cells in (("begin", alignment.paths.starts), ("end", alignment.paths.ends)):
        running = cells.sum(0).cumsum()
        expected = [int((running < share - 1e-12).sum()) for share in (0.05, 0.5, 0.95)]
        found = said["stretch"]["y"][name]
        assert [found["low"], found["index"], found["high"]] == pytest.approx(expected, abs=1)
        assert abs(found["index"] - expected[1]) == 0
    assert "matched are steps" in run_ok(*words).stdout
    assert "x" not in said["stretch"]
    unmatched = run_json(*words, "--of", "y")["matches"][0]
    assert unmatched["matched"] < 0.1
    four = run_json(*words[:3], "--relax", "0,0,59,59", "--gamma", 0.5, "--sigma", "none")
    assert four["loss"] == pytest.approx(said["loss"])
    assert "--relax allows 99" in fails(1, *words[:3], "--relax", "99,0,0,0")


def test_doubtful_stretches_in_words(tmp_path):
    rng = np.random.default_rng(0)
    ramp, sigma = np.linspace(0, 20, 80), np.full(80, 0.1)
    np.savetxt(tmp_path / "b.csv", np.column_stack([ramp + 0.1 * rng.standard_normal(80), sigma]))
    sigma[30:45] = 3.0
    np.savetxt(tmp_path / "a.csv", np.column_stack([ramp + sigma * rng.standard_normal(80), sigma]))
    shown = run_ok("align", tmp_path / "a.csv", tmp_path / "b.csv", "--sigma", "column", "--gamma", "auto").stdout
    [first, last, low, high] = map(
        int, re.search(r"steps (\d+) to (\d+) of x: between (\d+) and (\d+)", shown).groups()
    )
    assert 26 <= first <= 34
    assert 40 <= last <= 48
    assert low <= first
    assert high >= last - 3
    assert len(shown.splitlines()) < 12


@pytest.mark.parametrize("of", ["x", "y"])
def test_long_series_with_a_band_need_no_matrix(tmp_path, monkeypatch, of):
    steps = 3000
    rng = np.random.default_rng(0)
    for name in "ab":
        np.save(tmp_path / f"{name}.npy", np.sin(np.arange(steps) / 20) + 0.1 * rng.standard_normal(steps))

    def refuse(*_, **__):
        raise AssertionError("forms a matrix")

    for name in ("coupling", "transitions", "expectations"):
        monkeypatch.setattr(NumbaBackend, name, refuse)
    monkeypatch.setattr(Problem, "energy", refuse)
    monkeypatch.setattr("udtw._engine.prior.admissible", refuse)
    monkeypatch.setattr(NumbaBackend, "least_cost", refuse)
    words = ("align", tmp_path / "a.npy", tmp_path / "b.npy", "--band", 50, "--sigma", "estimate", "--of", of)
    said = run_json(*words, "--out", tmp_path / "m.csv", "--plot", tmp_path / "m.png")
    assert said["best_path_length"] is None
    assert len(read_rows(tmp_path / "m.csv")) == steps


def test_wrong_input_is_one_line(pair, tmp_path):
    a, b, _, y = pair
    np.save(tmp_path / "c.npy", y[:, :1])
    assert "a.csv has 2 feature(s) (left, right), but" in fails(1, "align", a, tmp_path / "c.npy")
    assert "no such file" in fails(1, "align", a, tmp_path / "d.csv")
    (tmp_path / "e.csv").write_text("1,2\n3,x\n")
    assert "e.csv, line 2: value 2 is 'x'" in fails(1, "align", a, tmp_path / "e.csv")
    assert "--sigma column" in fails(1, "align", tmp_path / "c.npy", b, "--sigma", "column")
    assert "positive" in fails(1, "align", a, b, "--sigma", "column")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--gamma", "-1"], "--gamma must be"),
        (["--band", "wide"], "--band must be"),
        (["--metric", "dtw", "--sigma", "learn"], "belongs to --metric udtw"),
        (["--plot", "picture.doc"], "picture.doc"),
        (["--out", "matches.xlsx"], "--out matches.xlsx"),
        (["--gamma", "warm"], "--gamma must be"),
        (["--gamma", "auto", "--sigma", "none"], "--gamma auto needs variances"),
        (["--level", "90"], "--level must lie between 0 and 1"),
        (["--relax", "begin"], "--relax must be x, y, both"),
        (["--relax", "0,1"], "--relax must be x, y, both"),
        (["--beta", "-1"], "--beta must not be negative"),
        (["--metric", "euclidean", "--relax", "y"], "--relax belongs to the metrics dtw"),
    ],
)
def test_wrong_options_are_one_line_and_code_2(pair, words, said):
    assert said in fails(2, "align", *pair[:2], *words)


def test_the_likelihood_with_estimated_variances_and_a_warp_penalty(pair):
    a, b, x, y = pair
    words = ("--sigma", "estimate", "--weighting", "likelihood", "--gamma", 4, "--warp-penalty", 0.1)
    said = run_json("align", a, b, *words)
    found = udtw.align(x, y, "estimate", "estimate", weighting="likelihood", gamma=4.0, warp_penalty=0.1)
    assert said["loss"] == pytest.approx(float(found.free_energy))
    assert said["warps"] == pytest.approx(float(found.warps))
    hard = run_json("align", a, b, "--metric", "dtw", "--warp-penalty", 0.5)
    assert hard["distance"] == pytest.approx(float(udtw.dtw(x, y, warp_penalty=0.5)))
    assert "--weighting belongs to" in fails(2, "align", a, b, "--metric", "dtw", "--weighting", "likelihood")
    assert "--weighting 'bayes'" in fails(2, "align", a, b, "--weighting", "bayes")


@pytest.mark.parametrize("text", ["i,j,sd\n3,4,1.5\n7,7,\n", "sd;J;I\n1.5;4;3\n;7;7\n", "3,4,1.5\n7,7,0\n"])
def test_tie_points_come_from_a_table(pair, text):
    a, b, x, y = pair
    ties = a.with_name("ties.csv")
    ties.write_text(text)
    said = run_json("align", a, b, "--sigma", "none", "--gamma", 0.5, "--anchors", ties)
    assert said["loss"] == pytest.approx(float(udtw.align(x, y, gamma=0.5, anchors=[(3, 4, 1.5), (7, 7, 0)]).loss))
    assert said["matches"][7]["j"] == 7
    assert said["matches"][7]["probability"] == pytest.approx(1)


@pytest.mark.parametrize(
    ("code", "text", "message"),
    [
        (1, "i,j,sd\n3,20,1\n", "B has no step 20"),
        (1, "i,j,sd\n3,x,1\n", "line 2"),
        (1, "i,k\n3,4\n", "columns i, j and sd"),
        (2, "i,j,sd\n3,4,1\n4,3,1\n", "cross"),
        (2, "i,j,sd\n3,4,-1\n", "not negative"),
    ],
)
def test_unusable_tie_points_are_named(pair, code, text, message):
    ties = pair[0].with_name("ties.csv")
    ties.write_text(text)
    assert message in fails(code, "align", *pair[:2], "--gamma", 1, "--anchors", ties)
