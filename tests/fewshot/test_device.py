"""Few-shot training on a device: the same losses and scores as on the CPU, and no tensor made elsewhere."""

import numpy as np
import pytest

from tests.simulated_device import NAME, simulated_device
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


def test_a_device_that_is_not_there_is_a_named_error():
    recognizer = ActionRecognizer(Recipe(**SMALL), ACTIONS.graph)
    with pytest.raises(OptionError, match="torch sees no such device"):
        recognizer.fit(ACTIONS, device=NAME)
    with pytest.raises(OptionError, match="that of fabric"):
        recognizer.fit(ACTIONS, device="cpu", fabric=object())
