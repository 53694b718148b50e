"""A small data set for few-shot tests: classes are waves of different frequency, samples differ in length and noise."""

import numpy as np
import torch
from torch import Tensor, nn

from udtw.fewshot import Tokens


class Waves:
    """A `Source` of padded sequences (B, T, 2) with their lengths."""

    def __init__(self, n_classes: int = 6, n_samples: int = 8, seed: int = 0) -> None:
        generator = np.random.default_rng(seed)
        self.labels = np.repeat(np.arange(n_classes), n_samples)
        self.samples = []
        for label in self.labels:
            steps = int(generator.integers(6, 12))
            angle = np.linspace(0, (1 + label) * np.pi, steps) + generator.uniform(0, 0.3)
            wave = np.stack([np.sin(angle), np.cos(angle)], 1) + 0.05 * generator.standard_normal((steps, 2))
            self.samples.append(wave.astype(np.float32))

    def batch(self, indices: np.ndarray, generator: np.random.Generator | None = None) -> tuple[Tensor, Tensor]:
        chosen = [self.samples[i] for i in indices]
        if generator is not None:
            chosen = [s + 0.01 * generator.standard_normal(s.shape).astype(np.float32) for s in chosen]
        lengths = [len(s) for s in chosen]
        padded = np.zeros((len(chosen), max(lengths), 2), np.float32)
        for row, sample in zip(padded, chosen, strict=True):
            row[: len(sample)] = sample
        return torch.from_numpy(padded), torch.tensor(lengths)


class LinearEncoder(nn.Module):
    """One FC per step, and dropout, so that training needs random numbers."""

    def __init__(self, dim: int = 8, dropout: float = 0.2) -> None:
        super().__init__()
        self.dim = dim
        self.net = nn.Sequential(nn.Linear(2, 16), nn.ReLU(), nn.Dropout(dropout), nn.Linear(16, dim))

    def forward(self, batch: tuple[Tensor, Tensor]) -> Tokens:
        features, lengths = batch
        return Tokens(self.net(features), lengths)


def random_tokens(count: int, dim: int = 4, seed: int = 0, variance: bool = False, longest: int = 7) -> Tokens:
    """Sequences of 2 to ``longest`` steps; padding holds large numbers, which must not be read."""
    generator = torch.Generator().manual_seed(seed)
    lengths = torch.randint(2, longest + 1, (count,), generator=generator)
    lengths[0] = longest
    features = torch.randn(count, longest, dim, generator=generator, dtype=torch.float64)
    inside = torch.arange(longest) < lengths[:, None]
    features = torch.where(inside[..., None], features, 1e3)
    sigma = torch.rand(count, longest, generator=generator, dtype=torch.float64) + 0.5
    return Tokens(features, lengths, torch.where(inside, sigma, 1e3) if variance else None)
