"""`udtw align`: the numbers of `udtw.align`, from files."""

import numpy as np
import pytest

pytest.importorskip("typer")
pytest.importorskip("matplotlib")

import udtw
from tests.cli.helpers import fails, run_json, run_ok


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
    said = run_json("align", a, b, "--gamma", 0.5)
    found = udtw.align(x, y, gamma=0.5)
    assert said["distance"] == pytest.approx(float(found.distance))
    assert said["loss"] == said["distance"]
    assert said["regularizer"] == 0
    assert said["entropy"] == pytest.approx(float(found.paths.entropy))
    assert said["path_length"] == pytest.approx(float(found.coupling.sum()))
    assert said["best_path_length"] == len(found.paths.mode()[0])
    assert said["steps"] == [12, 9]


def test_table_for_people(pair):
    shown = run_ok("align", *pair[:2]).stdout
    assert "distance" in shown
    assert "a.csv and b.npy" in shown


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
    said = run_json("align", a, b, "--sigma", "column", "--beta", 0.5)
    assert said["features"] == 1
    assert said["loss"] == pytest.approx(float(found.loss))


def test_learned_sigma_lowers_the_loss(pair):
    a, b, *_ = pair
    assert run_json("align", a, b, "--sigma", "learn")["loss"] < run_json("align", a, b)["loss"]


def test_znormalize(pair):
    a, b, x, y = pair
    x, y = ((s - s.mean(0)) / s.std(0) for s in (x, y))
    said = run_json("align", a, b, "--znormalize")
    assert said["distance"] == pytest.approx(float(udtw.align(x, y).distance))


@pytest.mark.parametrize("kind", ["png", "pdf", "svg"])
def test_plot(pair, tmp_path, kind):
    picture = tmp_path / "new" / f"out.{kind}"
    result = run_ok("align", *pair[:2], "--plot", picture, "--json")
    assert picture.stat().st_size > 5_000
    assert str(picture) in result.stderr
    assert str(picture) not in result.stdout


def test_wrong_input_is_one_line(pair, tmp_path):
    a, b, _, y = pair
    np.save(tmp_path / "c.npy", y[:, :1])
    assert "a.csv has 2 feature(s), but" in fails(1, "align", a, tmp_path / "c.npy")
    assert "no such file" in fails(1, "align", a, tmp_path / "d.csv")
    (tmp_path / "e.csv").write_text("1,2\n3,x\n")
    assert "e.csv, line 2: value 2 is 'x'" in fails(1, "align", a, tmp_path / "e.csv")
    assert "--sigma column" in fails(1, "align", tmp_path / "c.npy", b, "--sigma", "column")
    assert "positive" in fails(1, "align", a, b, "--sigma", "column")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--gamma", "-1"], "gamma"),
        (["--band", "wide"], "--band must be"),
        (["--metric", "dtw", "--sigma", "learn"], "belongs to --metric udtw"),
        (["--plot", "picture.doc"], "picture.doc"),
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
    assert "has no parameter weighting" in fails(2, "align", a, b, "--metric", "dtw", "--weighting", "likelihood")
    assert "does not go with" in fails(2, "align", a, b, "--weighting", "bayes")
