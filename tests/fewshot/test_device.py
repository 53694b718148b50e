"""Few-shot training on a device: the same losses and scores as on the CPU, and no tensor made elsewhere."""

import numpy as np
import pytest

from tests.simulated_device import MOVED, NAME, simulated_device
from udtw._io.training import Training
from udtw.errors import OptionError
from udtw.images import ImageRecipe, ImageRecognizer, PatchBackbone, embed, open_tokens
from udtw.images.datasets import make_images
from udtw.skeleton import ActionRecognizer, Recipe
from udtw.skeleton.datasets import make_actions

pytestmark = pytest.mark.usefixtures("one_thread")
ACTIONS = make_actions(3, 3, random_state=0)
SMALL = {
    "dim": 8, "joint_dim": 4, "width": 8, "depth": 0, "heads": 2, "n_way": 2, "n_query": 1, "n_steps": 2, "n_atoms": 4,
    "n_nearest": 2, "dict_iter": 1, "batch_size": 3, "block_size": 12, "stride": 12, "dropout": 0.0,
}  # fmt: skip


@pytest.mark.parametrize("mode", ["supervised", "unsupervised"])
@pytest.mark.parametrize("metric", ["udtw", "soft_dtw_divergence"])
def test_actions(mode, metric):
    def fitted(device):
        found = ActionRecognizer(Recipe(**SMALL, mode=mode, metric=metric), ACTIONS.graph).fit(ACTIONS, device=device)
        return found.losses, found.scores(ACTIONS)

    losses, scores = fitted("cpu")
    with simulated_device() as name:
        there = fitted(name)
    np.testing.assert_allclose(there[0], losses, rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(there[1], scores, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("mode", ["supervised", "unsupervised"])
def test_images(mode, tmp_path):
    embed(make_images(2, size=24), PatchBackbone(24, 12), tmp_path, views=2, augmentation="drawing")
    tokens = open_tokens(tmp_path)

    def fitted(device):
        recipe = ImageRecipe.from_dict(
            {"n_steps": 2, "dim": 4, "n_way": 2, "n_query": 1, "batch_size": 4, "mode": mode}
        )
        found = ImageRecognizer(recipe, tokens.dim).fit(tokens, device=device)
        return found.losses, found.classify(tokens, np.array([0, 5]), np.array([1, 6]), np.array([0, 1])).tolist()

    losses, classes = fitted("cpu")
    with simulated_device() as name:
        there = fitted(name)
    np.testing.assert_allclose(there[0], losses, rtol=1e-3, atol=1e-4)
    assert there[1] == classes


def _fit_actions(mode, name, folder):
    """Returns how many arrays the clips have, and how many a training reads that keeps none."""
    recipe = Recipe(**SMALL | {"n_steps": 10}, mode=mode, rotation=30.0, stretch=0.1, noise=0.02)
    ActionRecognizer(recipe, ACTIONS.graph).fit(ACTIONS, device=name)
    return 3 * len(ACTIONS), 3 * 10 * 3


def _fit_images(mode, name, folder):
    embed(make_images(2, size=24), PatchBackbone(24, 12), folder, views=2, augmentation="drawing")
    tokens = open_tokens(folder).subset(np.arange(8))
    recipe = ImageRecipe(n_steps=20, dim=4, n_way=2, n_query=1, batch_size=4, mode=mode)
    ImageRecognizer(recipe, tokens.dim).fit(tokens, device=name)
    return 3 * len(tokens), 20 * 4


@pytest.mark.parametrize("mode", ["supervised", "unsupervised"])
@pytest.mark.parametrize("fit", [_fit_actions, _fit_images])
def test_samples_are_moved_once_and_stay_on_the_device(fit, mode, monkeypatch, tmp_path):
    """Each with its first use; random numbers, labels and indices are made there."""
    moved, step = [], Training._step

    def watched(self, tick):
        before = len(MOVED)
        step(self, tick)
        moved.extend(MOVED[before:])

    monkeypatch.setattr(Training, "_step", watched)
    with simulated_device() as name:
        arrays, read = fit(mode, name, tmp_path)
    assert 0 < len(moved) <= arrays < read
    assert not [one for one in moved if one.startswith("torch.int64")]


def test_a_device_that_is_not_there_is_a_named_error():
    recognizer = ActionRecognizer(Recipe(**SMALL), ACTIONS.graph)
    with pytest.raises(OptionError, match="torch sees no such device"):
        recognizer.fit(ACTIONS, device=NAME)
    with pytest.raises(OptionError, match="that of fabric"):
        recognizer.fit(ACTIONS, device="cpu", fabric=object())
