"""All settings of a few-shot image classifier in one place, as JSON can hold them."""

from dataclasses import dataclass

from udtw.errors import OptionError
from udtw.fewshot.model import MATCHING, METRICS
from udtw.fewshot.objectives import OBJECTIVES
from udtw.fewshot.settings import Settings
from udtw.images.order import ORDERS
from udtw.images.projection import STARTS

MODES = ("supervised", "unsupervised")


@dataclass(frozen=True)
class ImageRecipe(Settings):
    """What is trained and how; see the classes in brackets for what a setting means.

    ``metric="protonet"`` is the squared Euclidean distance of pooled (mean) tokens; "euclidean" compares token by token
    in place.
    """

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
    sigma_hidden: int | None = 0
    matching: str = "prototype"
    # Tokens [TokenSource], [TokenProjection]
    order: str = "raster"
    dim: int = 256
    start: str = "orthogonal"
    # Training [EpisodicTask]
    n_steps: int = 300
    learning_rate: float = 1e-3
    weight_decay: float = 1e-6
    n_way: int = 5
    n_shot: int = 1
    n_query: int = 5
    episodes_per_step: int = 1
    # Training without labels [ContrastiveTask]
    batch_size: int = 32
    temperature: float = 0.1

    def __post_init__(self) -> None:
        for name, choices in (
            ("metric", METRICS), ("mode", MODES), ("objective", OBJECTIVES), ("matching", MATCHING),
            ("order", ORDERS), ("start", STARTS),
        ):  # fmt: skip
            self.check_choice(name, choices)
        if self.n_steps < 0:
            raise OptionError(f"n_steps must not be negative; got {self.n_steps}.")
