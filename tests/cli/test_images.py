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
    for command in ("embed", "train", "eval", "show", "predict"):
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


@pytest.mark.parametrize(("options", "gain"), [((), 16.0), (("--setting", "sigma_gain=2"), 2)])
def test_settings_of_the_recipe_can_be_changed(tokens, tmp_path, options, gain):
    out = tmp_path / "m.safetensors"
    run_ok("images", "train", tokens, "--out", out, "--steps", 0, *options)
    recipe = ImageRecognizer.load(out).recipe
    assert (recipe.sigma_gain, recipe.sigma_context, recipe.beta) == (gain, True, 0.1)


def test_booleans_of_the_recipe_can_be_switched(tokens, tmp_path):
    out = tmp_path / "m.safetensors"
    settings = [word for name in ("evidence", "sigma_context") for word in ("--setting", f"{name}=false")]
    run_ok("images", "train", tokens, "--out", out, "--steps", 2, "--setting", "per_feature=true", *settings)
    recipe = ImageRecognizer.load(out).recipe
    assert (recipe.evidence, recipe.sigma_context, recipe.per_feature) == (False, False, True)
    assert "evidence" in fails(2, "images", "train", tokens, "--out", tmp_path / "x", "--setting", "evidence=perhaps")


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
    assert "NAME=VALUE" in fails(2, "images", "embed", "synthetic", "--out", tmp_path, "--backbone", "sift?size=3")
    assert "holds no manifest.json" in fails(1, "images", "train", tmp_path, *out)
    assert "no split" in fails(2, "images", "train", tokens, "--split", "novel", *out)
    assert "three images" in fails(2, "images", "show", model, tokens, "--what", "match", "--image",
                                   "disc-striped/002.png", "--split", "all", "--out", tmp_path / "p.png")  # fmt: skip
    assert "no image" in fails(2, "images", "show", model, tokens, "--image", "nobody", "--out", tmp_path / "p.png")


@pytest.fixture
def folder(tmp_path):
    """A folder of ten classes of the generated images, eight of each, and a damaged one."""
    from udtw.images.datasets import make_images

    images = make_images(8)
    for i, name in enumerate(images.names):
        if images.labels[i] < 10:
            path = tmp_path / "photos" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            images.image(i).save(path)
    (tmp_path / "photos" / "disc-striped" / "broken.png").write_bytes(b"no image")
    return tmp_path / "photos"


@pytest.mark.filterwarnings("default:n_way is 5")
def test_own_images_from_folder_to_predictions(folder, tmp_path):
    tokens, model = tmp_path / "tokens", tmp_path / "m.safetensors"
    options = ("--data-dir", folder, "--backbone", "sift?image_size=48", "--out", tokens)
    made = run_ok("images", "embed", "folder", *options)
    assert "left out disc-striped/broken.png" in made.stderr
    assert "test has 4 of 10 classes: episodes of `udtw images eval` will be 4-way" in made.stderr
    assert run_json("images", "embed", "folder", *options)["left_out"] == ["disc-striped/broken.png"]
    run_ok("images", "train", tokens, "--out", model, "--steps", 5, "--setting", "n_query=2", "--setting", "dim=16")
    assert run_json("images", "eval", model, tokens, "--episodes", 5)["n_way"] == 4
    judged = run_ok("images", "eval", model, tokens, "--episodes", 2)
    assert "warning: n_way is 5, but there are 4 classes: episodes are 4-way." in judged.stderr
    picture = tmp_path / "p.png"
    run_ok("images", "show", model, tokens, "--out", picture)  # without --data-dir
    assert picture.exists()

    out = tmp_path / "predictions.csv"
    (tmp_path / "new.jpg").write_bytes(b"cut off")
    new = [folder / "disc-striped" / "003.png", folder / "disc-checked" / "004.png", tmp_path / "new.jpg"]
    found = run_ok("images", "predict", model, *new, "--support", folder, "--out", out)
    assert "new.jpg" in found.stderr.split("left out")[-1]
    lines = out.read_text().splitlines()
    assert lines[0].startswith("image,class,probability,p_cross-striped")
    assert len(lines) == 3
    result = run_json("images", "predict", model, *new, "--support", folder)
    assert len(result["left_out"]) == 2
    for row in result["predictions"]:
        assert row["class"] in result["classes"]
        assert abs(sum(v for k, v in row.items() if k.startswith("p_")) - 1) < 1e-4
    assert "None of the 1 images" in fails(1, "images", "predict", model, tmp_path / "new.jpg", "--support", folder)
    assert "subfolder of images for each class" in fails(
        1, "images", "predict", model, *new, "--support", tmp_path / "tokens"
    )
    assert "another backbone" in fails(2, "images", "predict", model, *new, "--support", folder, "--backbone", "sift")
