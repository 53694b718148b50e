"""Settings of few-shot recognizers, as JSON can hold them."""

import math
import warnings
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from functools import partial, wraps
from typing import Any, ClassVar, Self, TypeVar, get_args, get_origin, get_type_hints

from torch import nn

from udtw._engine.deprecation import REMOVED_IN
from udtw._engine.likelihood import WEIGHTINGS
from udtw.errors import GammaError, OptionError
from udtw.fewshot.episodes import EpisodeSampler, fitting_n_way
from udtw.fewshot.model import MATCHING, OBJECTIVES, FewShotModel, comparator_names
from udtw.fewshot.stages import SIGMA_TRAININGS, Stages, stages_of, together
from udtw.fewshot.tasks import EpisodicTask, Source

MODES = ("supervised", "unsupervised")
T = TypeVar("T")


def complete_settings(recipe: type[T]) -> type[T]:
    """Set what a ``preset`` sets and nobody else; accept ``sigma_low`` and ``sigma_high`` with a `FutureWarning`.

    These are the old names of ``sigma_range``.
    """
    init = recipe.__init__

    @wraps(init)
    def wrapped(self: Any, *args: Any, **settings: Any) -> None:
        old = {name: settings.pop(name) for name in ("sigma_low", "sigma_high") if name in settings}
        init(self, *args, **(self.PRESETS.get(settings.get("preset"), {}) | settings))
        if old:
            warnings.warn(
                f"{recipe.__name__}(): 'sigma_low' and 'sigma_high' were renamed to 'sigma_range', a pair, and will be "
                f"removed in version {REMOVED_IN}.",
                FutureWarning,
                stacklevel=2,
            )
            low, high = self.sigma_range
            object.__setattr__(self, "sigma_range", (old.get("sigma_low", low), old.get("sigma_high", high)))

    recipe.__init__ = wrapped  # type: ignore[method-assign]
    return recipe


@complete_settings
@dataclass(frozen=True)
class FewShotRecipe:
    """Settings that all few-shot recognizers share. `Recipe` and `ImageRecipe` document them with their own."""

    BEFORE: ClassVar[dict[str, Any]] = {
        "weighting": "precision",
        "learned": False,
        "sigma_context": False,
        "evidence": False,
    }
    """Values that old checkpoints imply for settings that they do not name."""
    PRESETS: ClassVar[dict[str, dict[str, Any]]] = {
        "default": {},
        "paper": {
            "objective": "similarity", "gamma": 0.01, "beta": 1.0, "sigma_range": (0.5, 2.0), "sigma_hidden": None,
            "sigma_gain": 1.0, "sigma_context": False, "per_feature": False, "matching": "support",
            "weighting": "precision", "learned": False, "evidence": False, "sigma_training": "joint",
        },
    }  # fmt: skip
    """Settings that each preset changes, unless they are given."""
    metric: str = "udtw"
    mode: str = "supervised"
    objective: str = "cross_entropy"
    seed: int = 0
    gamma: float = 0.1
    beta: float = 0.1
    normalize: str | None = "length"
    sigma_range: tuple[float, float] = (0.5, 2.0)
    sigma_hidden: int | None = None
    sigma_gain: float = 1.0
    sigma_context: bool = False
    per_feature: bool = False
    pair_sigma: bool = False
    matching: str = "support"
    weighting: str = "likelihood"
    warp_penalty: float = 0.0
    relax: int = 0
    learned: bool = False
    evidence: bool = False
    sigma_training: str = "joint"
    n_steps: int = 300
    learning_rate: float = 1e-3
    weight_decay: float = 1e-6
    n_way: int = 5
    n_shot: int = 1
    n_query: int = 3
    episodes_per_step: int = 1
    preset: str = "default"

    def __post_init__(self) -> None:
        for name, choices in (
            ("preset", tuple(self.PRESETS)),
            ("metric", comparator_names()),
            ("mode", MODES),
            ("objective", OBJECTIVES),
            ("matching", MATCHING),
            ("weighting", WEIGHTINGS),
            ("sigma_training", SIGMA_TRAININGS),
        ):
            self.check_choice(name, choices)
        if not 0 < self.gamma < math.inf:
            raise GammaError(f"gamma must be a positive finite number; got {self.gamma}.")
        if self.n_steps < 0:
            raise OptionError(f"n_steps must not be negative; got {self.n_steps}.")
        if not _is_of_type(self.sigma_range, tuple[float, float]):
            raise OptionError(f"sigma_range must be a pair (low, high) of numbers; got {self.sigma_range!r}.")
        object.__setattr__(self, "sigma_range", tuple(self.sigma_range))  # JSON has lists only

    def check_choice(self, name: str, choices: tuple[str, ...]) -> None:
        """Raise unless setting ``name`` is one of ``choices``."""
        if getattr(self, name) not in choices:
            raise OptionError(f"{name} must be one of {choices}; got {getattr(self, name)!r}.")

    def as_dict(self) -> dict[str, Any]:
        """Return all settings by name, as JSON values."""
        return asdict(self) | {"sigma_range": list(self.sigma_range)}

    @classmethod
    def from_saved(cls, settings: Mapping[str, Any]) -> Self:
        """Build the recipe of a checkpoint.

        Settings that it does not name are newer than the checkpoint, and get the values by which its version computed.
        """
        known = _check_mapping(settings)
        if "sigma_low" in known and "sigma_high" in known:
            known["sigma_range"] = [known.pop("sigma_low"), known.pop("sigma_high")]
        return cls.from_dict(cls.BEFORE | known)

    @classmethod
    def from_dict(cls, settings: Mapping[str, Any]) -> Self:
        """Build a recipe from settings by name. Missing ones get their defaults; unknown ones are refused."""
        given, types = _check_mapping(settings), get_type_hints(cls)
        known = {field.name for field in fields(cls)}
        unknown = sorted(set(given) - known - {"sigma_low", "sigma_high"})
        if unknown:
            raise OptionError(f"A recipe has no setting {', '.join(unknown)}; it has {', '.join(sorted(known))}.")
        for name, value in given.items():
            kind = types.get(name, float)
            if not _is_of_type(value, kind):
                raise OptionError(f"{name} must be of type {getattr(kind, '__name__', kind)}; got {value!r}.")
        return cls(**given)

    @property
    def comparator(self) -> str:
        """The name of the comparator, one of `comparator_names`."""
        return self.metric

    def model(self, encoder: nn.Module) -> FewShotModel:
        """Build the model around an encoder."""
        # Without labels nothing holds γ and ω: the free energy falls without end as they change.
        labels = self.mode == "supervised"
        evidence = self.evidence and self.objective == "cross_entropy" and not self.per_feature
        return FewShotModel(
            encoder,
            self.comparator,
            self.objective,
            gamma=self.gamma,
            beta=self.beta,
            normalize=self.normalize,
            sigma_range=self.sigma_range,
            sigma_hidden=self.sigma_hidden,
            sigma_gain=self.sigma_gain,
            sigma_context=self.sigma_context,
            per_feature=self.per_feature,
            sigma="pairs" if self.pair_sigma else "steps",
            matching=self.matching,
            weighting=self.weighting,
            warp_penalty=self.warp_penalty,
            relax=self.relax,
            learned=self.learned and labels,
            evidence=evidence,
        )

    def stages(self, model: FewShotModel) -> Stages:
        """Return the stages of each step of a training of ``model``."""
        if model.sigma is None:
            return together
        return partial(stages_of, self.sigma_training, n_steps=self.n_steps)

    def episodic_task(self, model: FewShotModel, source: Source, fabric: Any = None) -> EpisodicTask:
        """Build the task that trains with labels on the samples of ``source``."""
        return EpisodicTask(
            model,
            source,
            EpisodeSampler(
                source.labels, fitting_n_way(source.labels, self.n_way), self.n_shot, self.n_query, self.seed
            ),
            learning_rate=self.learning_rate,
            weight_decay=self.weight_decay,
            episodes_per_step=self.episodes_per_step,
            stages=self.stages(model),
            fabric=fabric,
        )


def _check_mapping(settings: Mapping[str, Any]) -> dict[str, Any]:
    if not isinstance(settings, Mapping):
        raise OptionError(f"Settings must be a dictionary; got {settings!r:.60}.")
    return dict(settings)


def _is_of_type(value: Any, kind: Any) -> bool:
    """Return whether ``value`` fits a field's type: an int fits float, and a list or tuple of two numbers a pair."""
    if get_origin(kind) is tuple:
        parts = get_args(kind)
        fits = isinstance(value, list | tuple) and len(value) == len(parts)
        return fits and all(_is_of_type(one, part) for one, part in zip(value, parts, strict=True))
    if isinstance(value, bool):
        return kind is bool
    return isinstance(value, kind | int if kind is float else kind)
