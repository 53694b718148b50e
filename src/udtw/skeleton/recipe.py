"""All settings of a few-shot action recogniser in one place, as JSON can hold them."""

from dataclasses import dataclass

from udtw.fewshot.recipe import FewShotRecipe

ENCODERS = ("joints", "pictures")


@dataclass(frozen=True)
class Recipe(FewShotRecipe):
    """What is trained and how; see the classes in brackets for what a setting means."""

    encoder: str = "joints"
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
        super().__post_init__()
        self.check_choice("encoder", ENCODERS)
