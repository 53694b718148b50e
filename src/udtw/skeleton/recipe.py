"""All settings of a few-shot action recogniser in one place, as JSON can hold them."""

from dataclasses import dataclass

from udtw.errors import OptionError
from udtw.fewshot.model import METRICS
from udtw.fewshot.settings import Settings

MODES = ("supervised", "unsupervised")
ENCODERS = ("joints", "pictures")


@dataclass(frozen=True)
class Recipe(Settings):
    """What is trained and how; see the classes in brackets for what a setting means."""

    metric: str = "udtw"
    mode: str = "supervised"
    objective: str = "cross_entropy"
    encoder: str = "joints"
    seed: int = 0
    # What is compared [FewShotModel]
    gamma: float = 0.1
    beta: float = 0.1
    normalize: str | None = "length"
    sigma_low: float = 0.5
    sigma_high: float = 2.0
    matching: str = "support"
    # Blocks and augmentation [SkeletonSource]
    block_size: int = 8
    stride: int = 4
    scale: str | None = "body"
    rotation: float = 0.0
    stretch: float = 0.0
    noise: float = 0.0
    # Network [SkeletonEncoder], [RenderedEncoder]
    dim: int = 64
    joint_dim: int = 50
    width: int = 128
    depth: int = 2
    heads: int = 4
    dropout: float = 0.1
    hops: int = 6
    alpha: float = 0.7
    image_size: int = 224
    # Training [EpisodicTask]
    n_steps: int = 300
    learning_rate: float = 1e-3
    weight_decay: float = 1e-6
    n_way: int = 5
    n_shot: int = 1
    n_query: int = 3
    episodes_per_step: int = 1
    # Training without labels [Dictionary], [DictionaryTask]
    n_atoms: int = 64
    n_nearest: int = 8
    temperature: float = 0.7
    dict_iter: int = 10
    dictionary_rate: float = 1e-3
    encoder_rate: float = 1e-3
    spread: float = 1.0
    batch_size: int = 32

    def __post_init__(self) -> None:
        for name, choices in (("metric", METRICS), ("mode", MODES), ("encoder", ENCODERS)):
            self.check_choice(name, choices)
        if self.n_steps < 0:
            raise OptionError(f"n_steps must not be negative; got {self.n_steps}.")
