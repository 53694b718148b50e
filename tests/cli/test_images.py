"""``udtw images embed | train | eval | show``: from pictures to an accuracy and a picture, and what is refused."""

import pytest

pytest.importorskip("typer")
pytest.importorskip("kornia")

from tests.cli.helpers import fails, run_json, run_ok
from udtw.images import ImageRecognizer

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def tokens(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tokens")
    backbone = ("--backbone", "sift?image_size=48", "--per-class", 6, "--views", 2, "--augmentation", "drawing")
    run_ok("images", "embed", "synthetic", "--out", folder, *backbone)
    return folder


@pytest.fixture(scope="module")
def model(tokens):
    path = tokens.parent / "model.safetensors"
    run_ok("images", "train", tokens, "--out", path, "--steps", 15, "--setting", "dim=16", "--setting", "n_query=2")
    return path


def test_help_teaches():
    assert "embed" in run_ok("images").stdout
    for command in ("embed", "train", "eval", "show"):
        assert f"udtw images {command}" in run_ok("images", command, "--help").stdout.split("Examples:")[1]


def test_a_second_run_keeps_what_is_there(tokens):
    options = ("--backbone", "sift?image_size=48", "--per-class", 6, "--views", 2, "--augmentation", "drawing")
    result = run_json("images", "embed", "synthetic", "--out", tokens, *options)
    assert (result["images"], result["shards_written"], result["shards_kept"]) == (144, 0, 1)


def test_train_and_eval_on_novel_classes(tokens, model):
    result = run_json("images", "eval", model, tokens, "--episodes", 30, "--n-query", 4)
    assert result["accuracy"] > 0.3  # chance is 0.2
    assert (result["n_way"], result["n_shot"]) == (5, 1)
    again = run_json("images", "train", tokens, "--out", model, "--steps", 15, "--setting", "dim=16", "--setting",
                     "n_query=2")  # fmt: skip
    assert again["steps"] == 15  # nothing left to do


def test_training_without_labels(tokens, tmp_path):
    out = tmp_path / "u.safetensors"
    options = ("--mode", "unsupervised", "--steps", 4, "--setting", "batch_size=8", "--metric", "soft_dtw")
    assert run_json("images", "train", tokens, "--out", out, *options)["mode"] == "unsupervised"


@pytest.mark.parametrize(
    ("options", "beta", "gain"),
    [
        ((), 1.0, 16.0),
        (("--mode", "unsupervised"), 0.1, 1.0),
        (("--objective", "similarity"), 0.1, 1.0),
        (("--beta", 0.3), 0.3, 16.0),
        (("--setting", "sigma_gain=2"), 1.0, 2),
        (("--metric", "soft_dtw"), 0.1, 1.0),
    ],
)
def test_uncertainty_is_learned_as_was_best_in_each_mode_unless_said_otherwise(tokens, tmp_path, options, beta, gain):
    out = tmp_path / "m.safetensors"
    run_ok("images", "train", tokens, "--out", out, "--steps", 0, *options)
    recipe = ImageRecognizer.load(out).recipe
    assert (recipe.beta, recipe.sigma_gain) == (beta, gain)


@pytest.mark.parametrize("what", ["uncertainty", "match", "components"])
def test_pictures(tokens, model, tmp_path, what):
    out = tmp_path / "picture.png"
    result = run_json("images", "show", model, tokens, "--what", what, "--out", out)
    assert out.read_bytes().startswith(b"\x89PNG")
    assert "ρ = " in result["rank_correlation_with_contrast"]
    assert len(result["images"]) == (3 if what == "match" else 6)


def test_what_is_refused(tokens, model, tmp_path):
    out = ("--out", tmp_path / "x.safetensors")
    assert "choose one of" in fails(2, "images", "embed", "imagenet", "--out", tmp_path)
    assert "choose one of" in fails(2, "images", "embed", "synthetic", "--out", tmp_path, "--backbone", "resnet")
    assert "NAME=NUMBER" in fails(2, "images", "embed", "synthetic", "--out", tmp_path, "--backbone", "sift?size=3")
    assert "holds no manifest.json" in fails(1, "images", "train", tmp_path, *out)
    assert "no split" in fails(2, "images", "train", tokens, "--split", "novel", *out)
    assert "three images" in fails(2, "images", "show", model, tokens, "--what", "match", "--image",
                                   "disc-striped/002.png", "--split", "all", "--out", tmp_path / "p.png")  # fmt: skip
    assert "no image" in fails(2, "images", "show", model, tokens, "--image", "nobody", "--out", tmp_path / "p.png")
