"""Own labelled series: classify, cluster, predict, search and forecast from files, and a new user's whole path."""

import csv
import json

import numpy as np
import pytest

pytest.importorskip("typer")
pytest.importorskip("sklearn")

from tests.cli.helpers import fails, run_json, run_ok
from udtw.timeseries import KNeighborsTimeSeriesClassifier


def bumps(count, seed):
    """Series of 24 steps with a bump or a dip, and their labels."""
    rng = np.random.default_rng(seed)
    labels = ["bump" if number % 2 else "dip" for number in range(count)]
    time = np.arange(24)
    shapes = [np.exp(-((time - rng.uniform(8, 16)) ** 2) / 9) * (1 if one == "bump" else -1) for one in labels]
    return np.array(shapes) + 0.1 * rng.standard_normal((count, 24)), labels


def write_wide(path, series, labels=None):
    names = [*(["y"] if labels else []), *(f"t{step}" for step in range(series.shape[1]))]
    rows = [[*([labels[at]] if labels else []), *row.tolist()] for at, row in enumerate(series)]
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([names, *rows])


def write_long(path, series, labels):
    rows = [[f"s{at}", step, one, labels[at]] for at, row in enumerate(series) for step, one in enumerate(row)]
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([["sensor", "time", "value", "state"], *rows])


def rows_of(path):
    with path.open() as file:
        return list(csv.DictReader(file))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    root = tmp_path_factory.mktemp("own")
    for name, count, seed in (("train", 12, 0), ("test", 6, 1)):
        write_wide(root / f"{name}.csv", *bumps(count, seed))
        write_long(root / f"{name}_long.csv", *bumps(count, seed))
    write_wide(root / "unlabelled.csv", bumps(6, 1)[0])
    time = np.arange(120)
    sales = 50 + 10 * np.sin(time / 12 * 2 * np.pi) + np.random.default_rng(0).standard_normal(120)
    stamps = np.datetime64("2024-01-01") + time
    (root / "sales.csv").write_text("day,sales\n" + "".join(f"{t},{v}\n" for t, v in zip(stamps, sales, strict=True)))
    (root / "query.csv").write_text("".join(f"{value}\n" for value in sales[40:60]))
    return root


QUICK = ("--metric", "dtw", "--band", 0.2)


def test_wide_files(folder, tmp_path):
    words = ("--train", folder / "train.csv", "--test", folder / "test.csv", "--label-column", "y", *QUICK)
    said = run_json("classify", *words, "--out", tmp_path / "p.csv", "--model", tmp_path / "m.safetensors")
    X, y = bumps(12, 0)
    wanted = KNeighborsTimeSeriesClassifier(metric="dtw", metric_params={"band": 0.2})
    znormalized = [(one - one.mean()) / one.std() for one in X]
    new = [(one - one.mean()) / one.std() for one in bumps(6, 1)[0]]
    assert [row["predicted"] for row in rows_of(tmp_path / "p.csv")] == wanted.fit(znormalized, y).predict(new).tolist()
    assert said["accuracy"] == 1
    assert (said["train"], said["test"], said["classes"]) == (12, 6, 2)
    assert [row["label"] for row in said["predictions"]] == bumps(6, 1)[1]
    again = run_json("predict", tmp_path / "m.safetensors", folder / "test.csv")
    assert again["accuracy"] == 1
    unlabelled = run_json("predict", tmp_path / "m.safetensors", folder / "unlabelled.csv", "--out", tmp_path / "q.csv")
    assert "accuracy" not in unlabelled
    assert unlabelled["predicted"] == {"bump": 3, "dip": 3}
    assert "label" not in rows_of(tmp_path / "q.csv")[0]


def test_long_files(folder, tmp_path):
    words = ("--train", folder / "train_long.csv", "--test", folder / "test_long.csv", "--id-column", "sensor")
    model = tmp_path / "m.safetensors"
    said = run_json("classify", *words, "--label-column", "state", *QUICK, "--model", model)
    assert said["accuracy"] == 1
    assert [row["series"] for row in said["predictions"]] == [f"s{number}" for number in range(6)]
    assert run_json("predict", model, folder / "test_long.csv")["accuracy"] == 1


@pytest.mark.parametrize(
    "words", [["--classifier", "centroid", "--max-iter", 5], ["--metric", "udtw", "--max-iter", 2]]
)
def test_saved_models_answer_the_same(folder, tmp_path, words):
    model = tmp_path / "m.safetensors"
    files = ("--train", folder / "train.csv", "--test", folder / "test.csv")
    said = run_json("classify", *files, *words, "--model", model)
    again = run_json("predict", model, folder / "test.csv")
    for one, other in zip(said["predictions"], again["predictions"], strict=True):
        assert one["predicted"] == other["predicted"]
        assert one["p_bump"] == pytest.approx(other["p_bump"], rel=1e-5)


def test_clusters(folder, tmp_path):
    out, centers, model = tmp_path / "c.csv", tmp_path / "centers.csv", tmp_path / "m.safetensors"
    words = ("cluster", folder / "train.csv", "--k", 2, "--label-column", "y", *QUICK)
    said = run_json(*words, "--out", out, "--centers", centers, "--model", model)
    assert said["adjusted_rand_index"] == 1
    assert said["sizes"] == {"0": 6, "1": 6}
    assert len(rows_of(centers)) == 2 * 24
    found = run_json("predict", model, folder / "train.csv", "--label-column", "y")
    assert found["predictions"] == said["clusters"]
    medoids = run_json(*words, "--method", "kmedoids")
    assert medoids["adjusted_rand_index"] == 1
    assert "--k" in fails(1, *words[:2], "--label-column", "y", "--k", 99, "--metric", "dtw")


def test_search(folder, tmp_path):
    words = ("search", folder / "query.csv", folder / "sales.csv", "--k", 2)
    said = run_json(*words, "--out", tmp_path / "hits.csv")
    first = said["matches"][0]
    assert (first["begin"], first["end"]) == (40, 59)
    assert first["time_begin"] == "2024-02-10"
    assert first["begin_low"] <= 40 <= first["begin_high"]
    assert rows_of(tmp_path / "hits.csv")[0]["time_end"] == "2024-02-29"
    assert "1. steps 40 to 59 (2024-02-10 to 2024-02-29): distance" in run_ok(*words).stdout


def test_the_picture_of_a_forecast_has_the_time_axis_and_the_names_of_the_file(tmp_path, monkeypatch):
    days = np.datetime64("2024-01-01") + np.arange(60)
    rows = [f"{day},{np.sin(step / 3)}" for step, day in enumerate(days)]
    (tmp_path / "power.csv").write_text("\n".join(["day,load", *rows]))
    drawn = []
    monkeypatch.setattr("udtw.cli.forecast_file.save_figure", lambda figure, path: drawn.append(figure))
    run_ok(
        "forecast", tmp_path / "power.csv", "--horizon", 5, "--max-epochs", 1, "--loss", "euclidean", "--plot", "f.png"
    )
    [axes] = drawn[0].axes
    ticks = [tick.get_text() for tick in axes.get_xticklabels()]
    assert (axes.get_title(), axes.get_xlabel(), ticks[-1]) == ("load", "day", "2024-03-05")


def test_forecast(folder, tmp_path):
    model, out, picture = tmp_path / "model", tmp_path / "f.csv", tmp_path / "f.png"
    words = ("forecast", folder / "sales.csv", "--horizon", 6, "--max-epochs", 3, "--loss", "euclidean")
    said = run_json(*words, "--out", out, "--plot", picture, "--model", model)
    rows = rows_of(out)
    assert [row["time"] for row in rows] == [f"2024-04-{30:02d}", *(f"2024-05-{day:02d}" for day in range(1, 6))]
    assert [int(row["step"]) for row in rows] == list(range(120, 126))
    assert all(float(row["low"]) < float(row["value"]) < float(row["high"]) for row in rows)
    assert {"rmse", "rmse_of_last_value", "coverage"} <= set(said["backtest"])
    assert said["loss"] == "euclidean"
    assert picture.stat().st_size > 5_000
    again = run_json("predict", model, folder / "sales.csv")
    np.testing.assert_allclose([row["value"] for row in again["forecast"]], [float(row["value"]) for row in rows])
    many = run_json("forecast", folder / "train_long.csv", "--id-column", "sensor", "--columns", "value", *words[2:])
    assert len(many["forecast"]) == 12 * 6
    assert "--horizon" in fails(1, *words[:2], "--horizon", 200)


def test_forecasts_are_compared_with_simple_ones(tmp_path, monkeypatch):
    power = np.clip(np.sin(np.arange(200) * np.pi / 12), 0, None) + 0.02 * np.random.default_rng(0).normal(size=200)
    file = tmp_path / "power.csv"
    file.write_text("power\n" + "".join(f"{value:.4f}\n" for value in power))
    words = ("forecast", file, "--horizon", 12, "--max-epochs", 2)
    found = run_json(*words)
    assert found["season"] == 24
    assert found["loss"] in ("euclidean", "udtw")
    errors = found["backtest"]
    assert errors["rmse"] < 0.05 < errors["rmse_of_last_value"]
    assert errors["rmse_of_last_season"] < 0.05
    without = run_json(*words, "--season", 1)
    assert without["season"] is None
    assert "rmse_of_last_season" not in without["backtest"]
    assert "--season must be a whole number of steps from 1 (none) to 62" in fails(2, *words, "--season", 100)
    assert "--season belongs to files" in fails(2, "forecast", "cbf", "--season", 12)
    monkeypatch.setattr(
        "udtw.timeseries.SequenceForecaster.predict", lambda self, X=None, return_std=False: np.zeros((1, 12, 1))
    )
    monkeypatch.setattr("udtw.cli.forecast_file.FileForecaster.report", lambda *_, **__: None)
    assert "a simpler forecast is better on the last 12 steps: " in run_ok(*words, "--loss", "euclidean").stderr


@pytest.mark.parametrize(
    ("text", "words", "said"),
    [
        ("y,a,b\nu,1,2\nu,3,4\n", ["--label-column", "y"], "two classes are needed"),
        ("a,b\n1,2\n3,4\n", [], "name their column with --label-column"),
        ("y,a,b\nu,1,2\nw,3,4\n", ["--label-column", "z"], "its columns are y, a, b"),
        ("y,a,b\nu,1,2\nw,3,4\n", ["--label-column", "y", "--k", "9", "--metric", "dtw"], "--k must lie between 1 and"),
        ("y,a,b\nu,1,2\nw,3,4\n", ["--label-column", "y", "--gamma", "0"], "--gamma must be"),
    ],
)
def test_training_files_that_are_refused(tmp_path, text, words, said):
    (tmp_path / "a.csv").write_text(text)
    code = 1 if "two classes" in said else 2
    assert said in fails(code, "classify", "--train", tmp_path / "a.csv", "--test", tmp_path / "a.csv", *words)


def test_models_that_are_none(folder, tmp_path):
    (tmp_path / "m.safetensors").write_text("nothing")
    assert "saved model" in fails(1, "predict", tmp_path / "m.safetensors", folder / "test.csv")
    assert "There is no saved model" in fails(1, "predict", tmp_path / "none.safetensors", folder / "test.csv")
    assert "series.json" in fails(1, "predict", tmp_path, folder / "test.csv")


def test_a_label_that_is_a_number_of_a_column_is_not_taken_from_values(tmp_path):
    X, y = bumps(6, 0)
    np.savetxt(tmp_path / "train.csv", np.column_stack([[one == "bump" for one in y], X]), delimiter=",")
    np.savetxt(tmp_path / "test.csv", X, delimiter=",")
    words = ("--train", tmp_path / "train.csv", "--test", tmp_path / "test.csv", "--label-column", 1, "--metric", "dtw")
    assert "one column less" in fails(1, "classify", *words)


def test_the_path_of_a_new_user(tmp_path, monkeypatch):
    """Two files, their matches, a picture; a classifier, a prediction: as the page "Your own data" tells."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    time = np.linspace(0, 1, 40)
    for name, shape in (("a", np.sin(9 * time)), ("b", np.sin(9 * time**1.3))):
        values = 100 * (shape + 0.1 * rng.standard_normal(40))
        stamps = np.datetime64("2024-03-01T10:00") + np.arange(40)
        lines = [f"{stamp},{value:.2f},{name}\n" for stamp, value in zip(stamps, values, strict=True)]
        (tmp_path / f"{name}.csv").write_text("timestamp,temp,station\n" + "".join(lines))
    done = run_ok("align", "a.csv", "b.csv", "--out", "matches.csv", "--plot", "matches.png")
    assert "a.csv: using column temp; time column timestamp; left out station (no numbers)" in done.stderr
    assert " match: " in done.stdout.splitlines()[0]  # the verdict comes first
    assert "of the true partners" in done.stdout
    rows = rows_of(tmp_path / "matches.csv")
    wanted = ["i", "j", "time_i", "time_j", "probability", "low", "high", "expected", "matched", "sigma_i", "sigma_j"]
    assert list(rows[0]) == wanted
    assert rows[3]["time_i"] == "2024-03-01T10:03"
    assert json.loads(run_ok("align", "a.csv", "b.csv", "--json").stdout)["matches"][3]["time_i"] == rows[3]["time_i"]
    assert (tmp_path / "matches.png").stat().st_size > 20_000
    write_wide(tmp_path / "train.csv", *bumps(12, 0))
    write_wide(tmp_path / "new.csv", bumps(4, 2)[0])
    run_ok("classify", "--train", "train.csv", "--label-column", "y", *QUICK, "--model", "m.safetensors")
    run_ok("predict", "m.safetensors", "new.csv", "--out", "predictions.csv")
    assert [row["predicted"] for row in rows_of(tmp_path / "predictions.csv")] == bumps(4, 2)[1]
