"""The settings that every few-shot recogniser has, and what is made of them."""

from dataclasses import dataclass
from typing import Any

from torch import nn

from udtw.errors import OptionError
from udtw.fewshot.episodes import EpisodeSampler
from udtw.fewshot.model import MATCHING, METRICS, FewShotModel
from udtw.fewshot.objectives import OBJECTIVES
from udtw.fewshot.settings import Settings
from udtw.fewshot.source import Source
from udtw.fewshot.supervised import EpisodicTask

MODES = ("supervised", "unsupervised")


@dataclass(frozen=True)
class FewShotRecipe(Settings):
    """What is trained and how; see the classes in brackets for what a setting means."""

    metric: str = "udtw"
    mode: str = "supervised"
    objective: str = "cross_entropy"
    seed: int = 0
    # What is compared [FewShotModel]
    gamma: float = 0.1
    beta: float = 0.1
    normalize: str | None = "length"
    sigma_low: float = 0.5
    sigma_high: float = 2.0
    sigma_hidden: int | None = None
    sigma_gain: float = 1.0
    matching: str = "support"
    # Training [EpisodicTask]
    n_steps: int = 300
    learning_rate: float = 1e-3
    weight_decay: float = 1e-6
    n_way: int = 5
    n_shot: int = 1
    n_query: int = 3
    episodes_per_step: int = 1

    def __post_init__(self) -> None:
        for name, choices in (("metric", METRICS), ("mode", MODES), ("objective", OBJECTIVES), ("matching", MATCHING)):
            self.check_choice(name, choices)
        if self.n_steps < 0:
            raise OptionError(f"n_steps must not be negative; got {self.n_steps}.")

    def model(self, encoder: nn.Module) -> FewShotModel:
        """The model around an encoder."""
        return FewShotModel(
            encoder, self.metric, self.objective, gamma=self.gamma, beta=self.beta, normalize=self.normalize,
            sigma_range=(self.sigma_low, self.sigma_high), sigma_hidden=self.sigma_hidden, sigma_gain=self.sigma_gain,
            matching=self.matching,
        )  # fmt: skip

    def episodic_task(self, model: FewShotModel, source: Source, fabric: Any = None) -> EpisodicTask:
        """Training with labels."""
        return EpisodicTask(
            model, source, EpisodeSampler(source.labels, self.n_way, self.n_shot, self.n_query, self.seed),
            n_steps=self.n_steps, learning_rate=self.learning_rate, weight_decay=self.weight_decay,
            episodes_per_step=self.episodes_per_step, fabric=fabric,
        )  # fmt: skip
