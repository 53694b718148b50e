"""Variances learned from unlabelled pairs of matching series."""

import numpy as np
import pytest
import torch

from udtw.data.generators import known_warps
from udtw.errors import OptionError
from udtw.nn import SigmaNet, TrainingSettings, fit_noise


def test_bursts_of_noise_are_found_without_labels(one_thread):
    data = known_warps(40, seed=5)
    pairs = list(zip(data["x"], data["y"], strict=True))
    net = fit_noise(pairs, max_iter=120, training={"batch_size": 20, "learning_rate": 0.03})
    other = known_warps(20, seed=6)
    with torch.no_grad():
        variance = net(torch.from_numpy(other["x"][:, :, None]).float()).numpy()
    noisy = other["var_x"] > 1
    assert variance[noisy].mean() > 4 * variance[~noisy].mean()


def test_series_of_different_lengths_and_a_given_network(one_thread):
    rng = np.random.default_rng(0)
    pairs = [(rng.standard_normal((n, 2)), rng.standard_normal((n + 2, 2))) for n in (6, 9, 12)]
    net = SigmaNet(2, context=3)
    before = [p.clone() for p in net.parameters()]
    assert fit_noise(pairs, net, max_iter=3, training={"batch_size": 2, "learning_rate": 0.1}) is net
    assert any(not torch.equal(a, b) for a, b in zip(before, net.parameters(), strict=True))


def test_the_seed_decides(one_thread):
    data = known_warps(6, seed=1)
    pairs = list(zip(data["x"], data["y"], strict=True))
    settings = TrainingSettings(batch_size=4, learning_rate=0.1)
    nets = [fit_noise(pairs, max_iter=3, training=settings, random_state=seed) for seed in (0, 0, 1)]
    weights = [torch.cat([p.flatten() for p in net.parameters()]) for net in nets]
    assert torch.equal(weights[0], weights[1])
    assert not torch.equal(weights[0], weights[2])


@pytest.mark.parametrize("pairs", [[], [(np.zeros(3),)]])
def test_pairs_that_are_none(pairs):
    with pytest.raises(OptionError, match="pair"):
        fit_noise(pairs)
