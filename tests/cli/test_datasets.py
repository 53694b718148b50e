"""`udtw barycenter`, `classify` and `forecast` on small data sets, generated or in the archive's format."""

import numpy as np
import pytest

pytest.importorskip("typer")
pytest.importorskip("sklearn")
pytest.importorskip("matplotlib")

from tests.cli.helpers import fails, run_json, run_ok
from udtw.cli.files import read_series
from udtw.timeseries import SequenceForecaster, barycenter


@pytest.fixture(scope="module")
def archive(tmp_path_factory):
    """A data set "Waves" of two classes, 24 steps, in a folder of the archive's form."""
    root = tmp_path_factory.mktemp("ucr")
    rng = np.random.default_rng(0)
    (root / "Waves").mkdir()
    for split, count in (("TRAIN", 12), ("TEST", 10)):
        labels = np.arange(count) % 2 + 1
        time = np.linspace(0, 1, 24) + 0.2 * rng.random((count, 1))
        series = np.sin(2 * np.pi * labels[:, None] * time) + 0.1 * rng.standard_normal((count, 24))
        np.savetxt(root / "Waves" / f"Waves_{split}.tsv", np.column_stack([labels, series]), delimiter="\t")
    return root


def test_barycenter_of_a_file(tmp_path):
    series = np.random.default_rng(0).standard_normal((4, 10)).cumsum(1)
    np.savetxt(tmp_path / "set.csv", series, delimiter=",")
    out, picture = tmp_path / "mean.csv", tmp_path / "mean.png"
    words = ["barycenter", tmp_path / "set.csv", "--max-iter", 5, "--length", 8, "--weights", "1,1,1,2", "--noise", 0.5]
    said = run_json(*words, "--out", out, "--plot", picture)
    wanted = barycenter(series, max_iter=5, length=8, weights=[1, 1, 1, 2], noise=0.5)
    assert said["objective"] == pytest.approx(wanted.loss)
    np.testing.assert_allclose(said["mean"], wanted.mean)
    np.testing.assert_allclose(read_series(out).values, np.column_stack([wanted.mean, np.sqrt(wanted.variance)]))
    assert out.read_text().startswith("value,sigma\n")
    assert picture.stat().st_size > 5_000


def test_barycenter_of_a_class(archive):
    said = run_json("barycenter", "Waves", "--class", 2, "--data-dir", archive, "--metric", "soft_dtw", "--max-iter", 3)
    assert said["series"] == 6
    assert said["sigma"] is None
    assert said["objective"] <= said["objective_at_start"]


def test_barycenter_names_what_is_wrong(archive, tmp_path):
    (tmp_path / "set.csv").write_text("1,2\n3,4\n")
    assert "its classes are 1, 2" in fails(2, "barycenter", "Waves", "--class", 7, "--data-dir", archive)
    assert "--label-column" in fails(2, "barycenter", tmp_path / "set.csv", "--class", 1)
    assert "--weights must be numbers" in fails(2, "barycenter", tmp_path / "set.csv", "--weights", "a,b")
    assert "weights" in fails(1, "barycenter", tmp_path / "set.csv", "--weights", "1")
    assert "no such file" in fails(1, "barycenter", tmp_path / "none.csv")


@pytest.mark.parametrize("words", [["--metric", "dtw", "--k", 3], ["--classifier", "centroid", "--max-iter", 20]])
def test_classify_says_what_was_used(archive, words):
    said = run_json("classify", "Waves", "--data-dir", archive, *words)
    assert said["accuracy"] > 0.8
    assert said["accuracy"] == 1 - said["errors"] / said["test"]
    assert (said["train"], said["test"], said["classes"]) == (12, 10, 2)
    assert set(said["accuracy_by_class"]) == {"1", "2"}
    assert {"classifier", "metric", "gamma", "beta", "seed", "fit_seconds"} <= set(said)


def test_the_data_folder_may_come_from_the_environment(archive):
    shown = run_ok("classify", "Waves", "--metric", "euclidean", env={"UDTW_DATA": str(archive)}).stdout
    assert "accuracy" in shown


@pytest.mark.parametrize(("name", "classes"), [("cbf", 3), ("synthetic-control", 6)])
def test_generated_sets_need_no_folder(name, classes):
    said = run_json("classify", name, "--metric", "euclidean", env={"UDTW_DATA": ""})
    assert said["classes"] == classes
    assert said["accuracy"] > 0.6
    again = run_json("classify", name, "--metric", "euclidean", "--seed", 0)
    assert again["accuracy"] == said["accuracy"]


def test_an_unknown_set_is_one_line(archive):
    assert "Did you mean Waves" in fails(1, "classify", "Wave", "--data-dir", archive)
    assert "UDTW_DATA" in fails(1, "classify", "Waves", env={"UDTW_DATA": ""})
    assert "--k must lie" in fails(2, "classify", "Waves", "--data-dir", archive, "--metric", "dtw", "--k", 99)


def test_forecast(archive, tmp_path):
    picture, folder = tmp_path / "forecast.png", tmp_path / "model"
    words = ["forecast", "Waves", "--data-dir", archive, "--max-epochs", 3, "--horizon", 0.25]
    said = run_json(*words, "--plot", picture, "--model", folder)
    assert (said["observed_steps"], said["forecast_steps"]) == (18, 6)
    assert said["mse"] > 0
    assert said["dtw"] > 0
    assert 0 <= said["coverage"] <= 1
    assert picture.stat().st_size > 5_000
    assert SequenceForecaster.load(folder).predict(np.zeros((1, 18))).shape == (1, 6)


def test_a_horizon_in_steps(archive):
    words = ["forecast", "Waves", "--data-dir", archive, "--max-epochs", 1, "--loss", "euclidean", "--horizon"]
    assert run_json(*words, 7)["forecast_steps"] == 7
    assert run_json(*words, 1)["forecast_steps"] == 1


@pytest.mark.parametrize("horizon", ["0", "24", "1.5", "-1", "nan"])
def test_a_horizon_is_a_number_of_steps_or_a_share(archive, horizon):
    assert "--horizon" in fails(2, "forecast", "Waves", "--data-dir", archive, "--horizon", horizon)
