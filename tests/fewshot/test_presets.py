"""`preset="paper"`: the paper's model by one word, from Python and from the command line."""

import json

import pytest
import torch
from safetensors.torch import load_file

from experiments.experiment import with_preset
from experiments.image_runs import recipe_of
from experiments.registry import EXPERIMENTS
from tests.cli.helpers import run_ok
from udtw.errors import GammaError, OptionError
from udtw.fewshot.contrastive import info_nce
from udtw.images import ImageRecipe, ImageRecognizer, PatchBackbone, embed, make_images, open_tokens
from udtw.skeleton import ActionRecognizer, Recipe, load_skeletons, protocol

RECIPES = pytest.mark.parametrize("recipe", [Recipe, ImageRecipe])
SMALL = {"dim": 8, "joint_dim": 4, "width": 12, "depth": 1, "heads": 2, "n_way": 3, "n_atoms": 8, "n_nearest": 3}


@RECIPES
def test_the_paper_is_the_default_of_all_settings_that_are_not_given(recipe):
    paper = recipe(preset="paper")
    assert (paper.objective, paper.weighting, paper.matching) == ("similarity", "precision", "support")
    assert (paper.evidence, paper.learned, paper.sigma_context) == (False, False, False)
    assert paper.sigma_range == (0.5, 2.0)
    assert recipe(preset="paper", gamma=0.5, objective="cross_entropy").gamma == 0.5
    assert recipe.from_dict({"preset": "paper"}) == paper == recipe.from_saved(json.loads(json.dumps(paper.as_dict())))
    assert recipe() == recipe(preset="default")
    with pytest.raises(OptionError, match="preset must be one of"):
        recipe(preset="papre")
    for gamma in (0.0, -1.0, float("nan")):
        with pytest.raises(GammaError, match="gamma must be a positive finite number"):
            recipe(gamma=gamma)


def test_the_papers_network_has_no_normalization_in_the_mlp_of_the_blocks():
    made = ActionRecognizer(Recipe(preset="paper"), "kinect20").model.encoder
    assert not any(isinstance(layer, torch.nn.LayerNorm) for layer in made.mlp)
    assert (made.joints, len(made.transformer.layers), made.weighted) == (None, 6, False)
    usual = ActionRecognizer(Recipe(), "kinect20").model.encoder
    assert sum(isinstance(layer, torch.nn.LayerNorm) for layer in usual.mlp) == 3


@pytest.mark.parametrize("mode", ["supervised", "unsupervised"])
def test_actions_have_the_same_weights_from_python_and_from_the_command_line(mode, tmp_path):
    settings = [part for name, value in SMALL.items() for part in ("--setting", f"{name}={value}")]
    command = ["skeleton", "train", "synthetic", "--mode", mode, "--preset", "paper", "--steps", 2, *settings]
    run_ok(*command, "--out", tmp_path / "command.safetensors")
    skeletons = load_skeletons("synthetic")
    found = ActionRecognizer(Recipe(preset="paper", mode=mode, n_steps=2, **SMALL), skeletons.graph)
    found.fit(skeletons.subset(protocol(skeletons).train), checkpoint_path=tmp_path / "python.safetensors")
    same_weights(tmp_path)
    assert ActionRecognizer.load(tmp_path / "command.safetensors").recipe == found.recipe


@pytest.mark.parametrize("mode", ["supervised", "unsupervised"])
def test_images_have_the_same_weights_from_python_and_from_the_command_line(mode, tmp_path):
    embed(make_images(4), PatchBackbone(32, patch=8), tmp_path / "tokens", views=1, augmentation="photo")
    settings = ["--setting", "dim=8", "--setting", "n_query=1", "--mode", mode]
    run_ok(
        "images", "train", tmp_path / "tokens", "--preset", "paper", "--steps", 2, *settings,
        "--out", tmp_path / "command.safetensors",
    )  # fmt: skip
    tokens = open_tokens(tmp_path / "tokens").of_split("train")
    recipe = ImageRecipe(preset="paper", mode=mode, n_steps=2, dim=8, n_query=1)
    ImageRecognizer(recipe, tokens.dim).fit(tokens, checkpoint_path=tmp_path / "python.safetensors")
    same_weights(tmp_path)


def same_weights(folder):
    one, other = (load_file(folder / f"{name}.safetensors") for name in ("command", "python"))
    assert one.keys() == other.keys()
    assert all(torch.equal(one[name], other[name]) for name in one)


def test_contrast_in_one_direction_by_hand():
    scores = torch.tensor([[0.0, 1.0], [3.0, 2.0]])
    rows = -torch.log_softmax(-scores / 0.5, 1).diagonal().mean()
    columns = -torch.log_softmax(-scores / 0.5, 0).diagonal().mean()
    torch.testing.assert_close(info_nce(scores, 0.5, one_way=True), rows)
    torch.testing.assert_close(info_nce(scores, 0.5), (rows + columns) / 2)


def test_experiments_take_the_preset_in_place_of_their_own_settings():
    images, ucr = (EXPERIMENTS[name] for name in ("cifar-fs", "ucr"))
    usual = images.units(datasets=None, seeds=[0], quick=False, data_dir=None, backbones=["patches"], per_class=None)
    paper = with_preset(images, usual, "paper")
    assert len(paper) == sum("changes" not in one.options for one in usual)
    assert {one.options["preset"] for one in paper} == {"paper"}
    recipes = {one.method: recipe_of(one) for one in paper if one.options["mode"] == "unsupervised"}
    assert (recipes["udtw"].weighting, recipes["udtw"].gamma, recipes["udtw"].n_steps) == ("precision", 0.01, 150)
    with pytest.raises(OptionError, match="preset must be one of default, paper"):
        with_preset(images, usual, "papre")
    with pytest.raises(OptionError, match="for experiments on images and skeletons"):
        with_preset(ucr, [], "paper")
    recipes = {one.method: recipe_of(one) for one in usual if one.options["mode"] == "supervised"}
    assert (recipes["raster"].metric, recipes["raster"].order) == ("udtw", "raster")
    assert (recipes["untrained"].metric, recipes["untrained"].n_steps) == ("matchnet", 0)
    assert recipes["weighted_mean"].comparator == "weighted_mean"
