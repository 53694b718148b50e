"""Train and evaluate on generated actions, as a user would type it."""

import dataclasses

import numpy as np
import pytest

from tests.cli.helpers import fails, run_json, run_ok
from udtw.cli.training import parse_setting
from udtw.errors import OptionError
from udtw.skeleton import ActionRecognizer, Recipe, make_actions

SMALL = ["--setting", "dim=16", "--setting", "joint_dim=8", "--setting", "width=16", "--setting", "depth=0"]
SMALL += ["--setting", "frequencies=0"]
SMALL += ["--setting", "n_way=3", "--setting", "stride=8", "--setting", "n_atoms=16", "--setting", "n_nearest=4"]


@pytest.mark.parametrize("mode", ["supervised", "unsupervised"])
def test_train_and_evaluate(mode, tmp_path):
    model = tmp_path / "model.safetensors"
    done = run_json("skeleton", "train", "synthetic", "--out", model, "--mode", mode, "--steps", 6, *SMALL)
    assert done["steps"] == 6
    found = run_json("skeleton", "eval", model, "synthetic", "--episodes", 50)
    assert 0.2 < found["accuracy"] <= 1
    assert found["half_width_95"] > 0
    assert (found["episodes"], found["n_query"]) == (50, 9)


def test_training_goes_on_where_it_was(tmp_path):
    model = tmp_path / "model.safetensors"
    command = ["skeleton", "train", "synthetic", "--out", model, "--steps", 3, *SMALL]
    first = run_json(*command)
    written = model.read_bytes()
    assert run_json(*command) == first
    assert model.read_bytes() == written


def test_other_settings_on_the_same_file_are_refused(tmp_path):
    model = tmp_path / "model.safetensors"
    command = ["skeleton", "train", "synthetic", "--out", model, "--steps", 2, *SMALL]
    run_ok(*command)
    assert "other settings" in fails(2, *command, "--gamma", 0.5)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("width=64", ("width", 64)),
        ("beta=0.5", ("beta", 0.5)),
        ("scale=axis", ("scale", "axis")),
        ("a=none", ("a", None)),
        ("facing=false", ("facing", False)),
        ("evidence=True", ("evidence", True)),
        ("sigma_range=0.5:2", ("sigma_range", (0.5, 2))),
    ],
)
def test_settings_are_read_as_numbers_where_they_are(text, found):
    assert parse_setting(text) == found


def test_every_boolean_of_a_recipe_is_a_setting_of_the_command(tmp_path):
    names = [field.name for field in dataclasses.fields(Recipe) if isinstance(field.default, bool)]
    assert {"evidence", "learned", "facing", "per_feature", "sigma_context"} <= {*names}
    alone = "pair_sigma"  # a variance of a pair is no variance per feature
    together = [name for name in names if name != alone]
    for value, chosen in ((True, together), (True, [alone]), (False, names)):
        settings = [part for name in chosen for part in ("--setting", f"{name}={str(value).lower()}")]
        out = tmp_path / f"{value}-{len(chosen)}-{chosen[0]}.safetensors"
        run_ok("skeleton", "train", "synthetic", "--out", out, "--steps", 1, *SMALL, *settings)
        recipe = ActionRecognizer.load(out).recipe
        assert all(getattr(recipe, name) is value for name in chosen)


def test_wrong_usage_is_one_line(tmp_path):
    with pytest.raises(OptionError, match="NAME=VALUE"):
        parse_setting("width")
    out = tmp_path / "m.safetensors"
    assert "no setting colour" in fails(2, "skeleton", "train", "synthetic", "--out", out, "--setting", "colour=red")
    assert "no checkpoint" in fails(1, "skeleton", "eval", out, "synthetic")


def test_a_folder_of_own_clips(tmp_path):
    for c, name in enumerate(("bow", "jump", "kick", "nod", "wave")):
        (tmp_path / "clips" / name).mkdir(parents=True)
        for i in range(4):
            values = np.random.default_rng(10 * c + i).standard_normal((16, 17, 2))
            np.save(tmp_path / "clips" / name / f"{i}.npy", values)
    clips, model = tmp_path / "clips", tmp_path / "model.safetensors"
    np.save(clips / "bow" / "short.npy", np.zeros((3, 17, 2)))
    (clips / "bow" / "broken.npy").write_bytes(b"no array")
    small = [f"--setting={one}" for one in ("n_way=2", "n_query=1", "dim=8", "joint_dim=4", "width=8", "depth=0")]
    train = ["skeleton", "train", "folder", "--data-dir", clips, "--steps", "1", *small, "--out", model]
    assert "broken.npy cannot be read" in fails(1, *train)
    said = run_ok(*train, "--on-error", "skip").stderr
    assert "left out bow/broken.npy" in said
    assert "left out bow/short.npy: 3 frames are fewer than 8" in said
    assert "20 clips of 5 classes, joints coco17. train: bow, kick; validation: nod; novel: jump, wave" in said
    found = run_json(
        "skeleton",
        "eval",
        model,
        "folder",
        "--data-dir",
        clips,
        "--on-error",
        "skip",
        "--n-way",
        "2",
        "--episodes",
        "5",
    )
    assert 0 <= found["accuracy"] <= 1


def test_clips_in_files_are_classified_by_examples(tmp_path):
    actions = make_actions(n_classes=8, n_clips=1)
    for clip in actions:
        for folder in (tmp_path / "examples" / actions.classes[clip.label], tmp_path / "new"):
            folder.mkdir(parents=True, exist_ok=True)
            np.save(folder / f"{actions.classes[clip.label]}.npy", clip.frames)
    model, out = tmp_path / "model.safetensors", tmp_path / "predictions.csv"
    run_ok("skeleton", "train", "synthetic", "--out", model, "--mode", "unsupervised", "--steps", 6, *SMALL)
    (tmp_path / "broken.npy").write_bytes(b"no array")
    new = [*sorted((tmp_path / "new").glob("*.npy")), tmp_path / "broken.npy"]
    done = run_ok("skeleton", "predict", model, *new, "--support", tmp_path / "examples", "--out", out)
    assert "broken.npy" in done.stderr.split("left out")[-1]
    lines = out.read_text().splitlines()
    assert lines[0].startswith("clip,class,probability,p_")
    assert len(lines) == 9
    found = run_json("skeleton", "predict", model, *new, "--support", tmp_path / "examples")
    assert found["classes"] == sorted(actions.classes)
    for row in found["predictions"]:  # each is one of the examples
        assert row["clip"].endswith(f"/{row['class']}.npy")
    assert "existing `.npy` or `.json` files" in fails(
        1, "skeleton", "predict", model, "x.csv", "--support", tmp_path / "examples"
    )
