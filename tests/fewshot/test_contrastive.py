"""InfoNCE over distances: its value, that it learns, and what it refuses."""

import math

import numpy as np
import pytest
import torch

from tests.fewshot.helpers import LinearEncoder, Waves
from udtw.errors import OptionError
from udtw.fewshot import ContrastiveTask, FewShotModel, loop
from udtw.fewshot.contrastive import info_nce


class WaveViews(Waves):
    def __len__(self) -> int:
        return len(self.labels)

    def two_views(self, indices, generator):
        return self.batch(indices, generator), self.batch(indices, generator)


def test_the_value_of_a_small_case():
    scores = torch.tensor([[0.0, 1.0], [2.0, 0.5]])
    rows = [math.log(1 + math.exp(-1 / 0.5)), math.log(1 + math.exp(-1.5 / 0.5))]
    columns = [math.log(1 + math.exp(-2 / 0.5)), math.log(1 + math.exp(-0.5 / 0.5))]
    expected = 0.5 * (sum(rows) / 2 + sum(columns) / 2)
    assert info_nce(scores, 0.5).item() == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("objective", ["similarity", "cross_entropy"])
def test_the_loss_adds_the_regulariser_of_the_positives(objective):
    model = FewShotModel(LinearEncoder(dropout=0.0), "udtw", objective, beta=0.3)
    task = ContrastiveTask(model, WaveViews(), n_steps=1, batch_size=6, temperature=0.2, seed=3)
    generator = np.random.default_rng((3, 0))
    source = task.source
    views = source.two_views(generator.choice(len(source), 6, replace=False), generator)
    with torch.no_grad():
        found = model.comparator(*(model.encode(view) for view in views))
        scores = found.distance + (0.3 * found.regularizer if objective == "cross_entropy" else 0)
        expected = info_nce(scores, 0.2) + 0.3 * found.regularizer.diagonal().mean()
    assert task.step(0) == pytest.approx(expected.item(), rel=1e-5)


def test_training_lowers_the_loss():
    torch.manual_seed(0)
    model = FewShotModel(LinearEncoder(), "udtw", beta=0.1)
    losses = loop.run(ContrastiveTask(model, WaveViews(), n_steps=30, batch_size=12, learning_rate=1e-2), 30)
    assert np.mean(losses[-8:]) < np.mean(losses[:8])


def test_senseless_settings_are_named():
    model = FewShotModel(LinearEncoder(), "udtw")
    with pytest.raises(OptionError, match="temperature"):
        ContrastiveTask(model, WaveViews(), n_steps=1, temperature=0.0)
    with pytest.raises(OptionError, match="two in a batch"):
        ContrastiveTask(model, WaveViews(), n_steps=1, batch_size=1)
