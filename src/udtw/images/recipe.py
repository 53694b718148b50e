"""All settings of a few-shot image classifier in one place, as JSON can hold them."""

from dataclasses import dataclass

from udtw.fewshot.recipe import FewShotRecipe
from udtw.images.order import ORDERS
from udtw.images.projection import STARTS

USUAL: dict[str, dict[str, float]] = {"supervised": {"beta": 1.0, "sigma_gain": 16.0}, "unsupervised": {}}
"""What was best for uDTW by cross-entropy in each mode, on classes held out of CIFAR-FS's training classes, where it
differs from the defaults, which do in both. The similarity objective wants the defaults."""


@dataclass(frozen=True)
class ImageRecipe(FewShotRecipe):
    """What is trained and how; see the classes in brackets for what a setting means.

    ``metric="protonet"`` is the squared Euclidean distance of pooled (mean) tokens; "euclidean" compares token by token
    in place.
    """

    sigma_hidden: int | None = 0
    matching: str = "prototype"
    n_query: int = 5
    # Tokens [TokenSource], [TokenProjection]
    order: str = "raster"
    dim: int = 256
    start: str = "orthogonal"
    # Training without labels [ContrastiveTask]
    batch_size: int = 32
    temperature: float = 0.1

    def __post_init__(self) -> None:
        super().__post_init__()
        self.check_choice("order", ORDERS)
        self.check_choice("start", STARTS)
