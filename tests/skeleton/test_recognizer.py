"""From clips to scores: training, saving and loading on generated actions."""

import dataclasses
import re

import numpy as np
import pytest
import torch

from udtw._io.checkpoint import module_tensors, write_checkpoint
from udtw.errors import DataError, FileFormatError, OptionError
from udtw.fewshot import EpisodeSampler
from udtw.fewshot.evaluation import evaluate_scores
from udtw.images import ImageRecipe
from udtw.skeleton import ActionRecognizer, Recipe
from udtw.skeleton.datasets import make_actions

pytestmark = pytest.mark.usefixtures("one_thread")
ACTIONS = make_actions(6, 10, random_state=0)
TRAIN, NOVEL = ACTIONS.of_classes([0, 1, 2]), ACTIONS.of_classes([3, 4, 5])
SMALL = Recipe(
    dim=16, joint_dim=8, width=32, depth=0, heads=2, dropout=0.0, n_way=3, n_query=2, n_steps=25, n_atoms=24,
    n_nearest=12, dict_iter=2, batch_size=8, block_size=8, stride=8, learning_rate=3e-3,
)  # fmt: skip


def recognizer(**changes) -> ActionRecognizer:
    return ActionRecognizer(dataclasses.replace(SMALL, **changes), ACTIONS.graph)


@pytest.mark.parametrize("mode", ["supervised", "unsupervised"])
def test_novel_actions_are_recognised_and_a_loaded_model_agrees(mode, tmp_path):
    path = tmp_path / "run.safetensors"
    found = recognizer(mode=mode).fit(TRAIN, checkpoint_path=path)
    scores = found.scores(NOVEL)
    assert evaluate_scores(scores, EpisodeSampler(NOVEL.labels, 3, 1, 3, seed=1), 100).mean > 0.5  # chance is 1/3
    again = ActionRecognizer.load(path)
    assert again.recipe == found.recipe
    assert again.losses == found.losses
    np.testing.assert_array_equal(again.scores(NOVEL), scores)
    np.testing.assert_allclose(again.scores(NOVEL[:3], NOVEL), scores[:3], rtol=1e-4, atol=1e-5)


def test_training_does_not_read_labels_without_supervision():
    mixed = make_actions(6, 10, random_state=0).of_classes([0, 1, 2])
    shuffled = np.random.default_rng(0).permutation(mixed.labels)
    mixed.labels = shuffled
    one, other = recognizer(mode="unsupervised").fit(TRAIN), recognizer(mode="unsupervised").fit(mixed)
    assert one.losses == other.losses


@pytest.mark.parametrize("mode", ["supervised", "unsupervised"])
def test_stopped_and_resumed_gives_the_same_weights(mode, tmp_path):
    whole = recognizer(mode=mode, dropout=0.1, rotation=20.0).fit(TRAIN)

    def stop(number: int, loss: float) -> None:
        if number == 14:
            raise KeyboardInterrupt

    path = tmp_path / "run.safetensors"
    changes = {"mode": mode, "dropout": 0.1, "rotation": 20.0}
    with pytest.raises(KeyboardInterrupt):
        recognizer(**changes).fit(TRAIN, checkpoint_path=path, checkpoint_every=10, tick=stop)
    resumed = recognizer(**changes).fit(TRAIN, checkpoint_path=path)
    assert resumed.losses == whole.losses
    for (name, mine), other in zip(whole.model.state_dict().items(), resumed.model.state_dict().values(), strict=True):
        assert torch.equal(mine, other), name


@pytest.mark.parametrize("metric", ["euclidean", "soft_dtw", "soft_dtw_divergence", "protonet", "matchnet", "tap"])
def test_every_metric_trains(metric):
    found = recognizer(metric=metric, n_steps=15).fit(TRAIN)
    assert np.mean(found.losses[-5:]) < np.mean(found.losses[:5])
    assert np.isfinite(found.scores(NOVEL)).all()


def test_pictures_of_blocks_serve_as_an_encoder():
    found = recognizer(metric="protonet", encoder="pictures", image_size=32, n_steps=15).fit(TRAIN)
    assert np.mean(found.losses[-5:]) < np.mean(found.losses[:5])


def test_inference_by_codes_needs_a_dictionary_and_by_alignment_does_not():
    found = recognizer(mode="unsupervised", n_steps=2).fit(TRAIN)
    by_codes = found.scores(NOVEL)
    assert by_codes.min() >= -1.001
    assert by_codes.max() <= 0
    assert found.scores(NOVEL, inference="alignment").max() > 0
    np.testing.assert_array_equal(found.scores(NOVEL, inference="codes"), by_codes)
    with pytest.raises(OptionError, match="codes need a dictionary"):
        recognizer().scores(NOVEL, inference="codes")


def test_skeletons_of_another_layout_are_refused():
    with pytest.raises(DataError, match="made for ntu25"):
        ActionRecognizer(SMALL, "ntu25").scores(NOVEL)


def test_a_foreign_checkpoint_is_named(tmp_path):
    path = tmp_path / "foreign.safetensors"
    path.write_bytes(b"no checkpoint")
    with pytest.raises(FileFormatError, match=r"foreign\.safetensors"):
        ActionRecognizer.load(path)


@pytest.mark.parametrize("changes", [{"metric": "cosine"}, {"mode": "both"}, {"encoder": "graph"}, {"n_steps": -1}])
def test_impossible_recipes_are_refused(changes):
    with pytest.raises(OptionError, match="must"):
        dataclasses.replace(SMALL, **changes)
    with pytest.raises(OptionError, match="no setting colour"):
        Recipe.from_dict({"colour": "red"})


@pytest.mark.parametrize(("mode", "bounds", "gain"), [("supervised", (0.9, 1.1), 1), ("unsupervised", (0.5, 2), 8)])
def test_the_range_of_sigma_depends_on_the_mode(mode, bounds, gain):
    recipe = Recipe(mode=mode)
    assert (recipe.sigma_range, recipe.sigma_gain) == (bounds, gain)
    assert Recipe(mode=mode, sigma_range=(0.2, 5), sigma_gain=2.0).sigma_range == (0.2, 5)
    assert Recipe.from_dict(recipe.as_dict()) == recipe
    with pytest.raises(OptionError, match="sigma_range must be a pair"):
        Recipe(mode=mode, sigma_range=0.5)


def test_old_names_of_the_range_of_sigma():
    old = Recipe().as_dict() | {"sigma_low": 0.25, "sigma_high": 4.0}
    del old["sigma_range"], old["sigma_gain"]
    assert Recipe.from_saved(old) == Recipe(sigma_range=(0.25, 4.0))
    assert Recipe.from_saved(old | {"mode": "unsupervised"}).sigma_gain == 1.0
    with pytest.warns(FutureWarning, match="renamed to 'sigma_range'"):
        assert Recipe(sigma_high=4.0).sigma_range == (0.9, 4.0)
    with pytest.warns(FutureWarning, match="renamed to 'sigma_range'"):
        assert Recipe.from_dict({"sigma_low": 0.5, "mode": "unsupervised"}).sigma_range == (0.5, 2.0)


@pytest.mark.parametrize("recipe", [Recipe, ImageRecipe])
def test_every_setting_is_documented(recipe):
    heads = [line for line in recipe.__doc__.splitlines() if re.match(r"    \w.* : ", line)]
    documented = {name for line in heads for name in line.partition(" : ")[0].strip().split(", ")}
    assert documented == {field.name for field in dataclasses.fields(recipe)}


SIZES = [{"depth": 2**64}, {"hops": 10**9}, {"width": 2**40}, {"dim": 0}, {"heads": 0}, {"sigma_range": [0.5, 1e999]}]


@pytest.mark.parametrize("change", SIZES)
def test_a_checkpoint_that_claims_impossible_sizes_is_refused_at_once(tmp_path, change):
    path = tmp_path / "c.safetensors"
    made = ActionRecognizer(SMALL, "kinect20")
    config = made.config | {"recipe": made.recipe.as_dict() | change}
    write_checkpoint(path, config, {}, module_tensors(made._modules))
    with pytest.raises(FileFormatError, match=r"c\.safetensors does not"):
        ActionRecognizer.load(path)
