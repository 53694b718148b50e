"""The settings of few-shot recognisers, as JSON can hold them."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from functools import partial
from typing import Any, ClassVar, Self, get_type_hints

from torch import nn

from udtw._engine.likelihood import WEIGHTINGS
from udtw.errors import OptionError
from udtw.fewshot.episodes import EpisodeSampler
from udtw.fewshot.model import MATCHING, OBJECTIVES, FewShotModel, comparator_names
from udtw.fewshot.stages import SIGMA_TRAININGS, Stages, stages_of, together
from udtw.fewshot.tasks import EpisodicTask, Source

MODES = ("supervised", "unsupervised")


@dataclass(frozen=True)
class FewShotRecipe:
    """What is trained and how: the settings that every few-shot recogniser has.

    The classes in brackets explain the settings below them. γ, β and ω are ``learned`` with labels only. Matches are
    ``evidence`` with the cross-entropy and one variance per token.
    """

    BEFORE: ClassVar[dict[str, Any]] = {
        "weighting": "precision", "learned": False, "sigma_context": False, "evidence": False
    }  # fmt: skip
    """Settings that are newer than some checkpoints, and what those mean."""
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
    sigma_context: bool = False
    per_feature: bool = False
    matching: str = "support"
    # The energy of a path [AlignmentComparator]
    weighting: str = "likelihood"
    warp_penalty: float = 0.0
    relax: int = 0
    learned: bool = False
    evidence: bool = False
    # Training [stages_of], [EpisodicTask]
    sigma_training: str = "joint"
    n_steps: int = 300
    learning_rate: float = 1e-3
    weight_decay: float = 1e-6
    n_way: int = 5
    n_shot: int = 1
    n_query: int = 3
    episodes_per_step: int = 1

    def __post_init__(self) -> None:
        for name, choices in (
            ("metric", comparator_names()),
            ("mode", MODES),
            ("objective", OBJECTIVES),
            ("matching", MATCHING),
            ("weighting", WEIGHTINGS),
            ("sigma_training", SIGMA_TRAININGS),
        ):
            self.check_choice(name, choices)
        if self.n_steps < 0:
            raise OptionError(f"n_steps must not be negative; got {self.n_steps}.")

    def check_choice(self, name: str, choices: tuple[str, ...]) -> None:
        """Raise unless setting ``name`` is one of ``choices``."""
        if getattr(self, name) not in choices:
            raise OptionError(f"{name} must be one of {choices}; got {getattr(self, name)!r}.")

    def as_dict(self) -> dict[str, Any]:
        """All settings by name."""
        return asdict(self)

    @classmethod
    def from_saved(cls, settings: Mapping[str, Any]) -> Self:
        """`from_dict` for the settings of a checkpoint. Those that it does not name were not known when it was written,
        and have the values by which that version computed."""
        if not isinstance(settings, Mapping):
            raise OptionError(f"Settings must be a dictionary; got {settings!r:.60}.")
        return cls.from_dict(cls.BEFORE | dict(settings))

    @classmethod
    def from_dict(cls, settings: Mapping[str, Any]) -> Self:
        """The inverse of `as_dict`. Missing settings have their defaults; unknown ones are refused."""
        if not isinstance(settings, Mapping):
            raise OptionError(f"Settings must be a dictionary; got {settings!r:.60}.")
        known = {field.name for field in fields(cls)}
        unknown = sorted(set(settings) - known)
        if unknown:
            raise OptionError(f"A recipe has no setting {', '.join(unknown)}; it has {', '.join(sorted(known))}.")
        types = get_type_hints(cls)
        for name, value in settings.items():
            allowed = types[name] | int if types[name] is float else types[name]
            if not isinstance(value, allowed) or (isinstance(value, bool) and types[name] is not bool):
                raise OptionError(
                    f"{name} must be of type {getattr(types[name], '__name__', types[name])}; got {value!r}."
                )
        return cls(**settings)

    def model(self, encoder: nn.Module) -> FewShotModel:
        """The model around an encoder."""
        # Without labels nothing holds γ and ω: the free energy falls without end as they change.
        labels = self.mode == "supervised"
        evidence = self.evidence and self.objective == "cross_entropy" and not self.per_feature
        return FewShotModel(
            encoder, self.metric, self.objective, gamma=self.gamma, beta=self.beta, normalize=self.normalize,
            sigma_range=(self.sigma_low, self.sigma_high), sigma_hidden=self.sigma_hidden, sigma_gain=self.sigma_gain,
            sigma_context=self.sigma_context, per_feature=self.per_feature, matching=self.matching,
            weighting=self.weighting, warp_penalty=self.warp_penalty, relax=self.relax, learned=self.learned and labels,
            evidence=evidence,
        )  # fmt: skip

    def stages(self, model: FewShotModel) -> Stages:
        """What learns in each step of a training of ``model``."""
        if model.sigma is None:
            return together
        return partial(stages_of, self.sigma_training, n_steps=self.n_steps)

    def episodic_task(self, model: FewShotModel, source: Source, fabric: Any = None) -> EpisodicTask:
        """Training with labels on the samples of ``source``."""
        return EpisodicTask(
            model, source, EpisodeSampler(source.labels, self.n_way, self.n_shot, self.n_query, self.seed),
            learning_rate=self.learning_rate, weight_decay=self.weight_decay,
            episodes_per_step=self.episodes_per_step, stages=self.stages(model), fabric=fabric,
        )  # fmt: skip
