"""All settings of a few-shot image classifier in one place, as JSON can hold them."""

from dataclasses import dataclass

from udtw.fewshot.recipe import FewShotRecipe
from udtw.images.order import ORDERS
from udtw.images.projection import STARTS


@dataclass(frozen=True)
class ImageRecipe(FewShotRecipe):
    """All settings of an `ImageRecognizer`; the class in brackets documents each group of settings.

    ``metric="protonet"`` is the squared Euclidean distance of pooled (mean) tokens; "euclidean" compares tokens at the
    same position. The settings of the SigmaNet were chosen on the validation classes of CIFAR-FS and Cars.

    Examples
    --------
    >>> from udtw.images import ImageRecipe
    >>> recipe = ImageRecipe(metric="udtw", mode="unsupervised", n_steps=150)
    >>> recipe.temperature
    0.1
    """

    sigma_low: float = 0.2
    sigma_high: float = 5.0
    sigma_hidden: int | None = 64
    sigma_gain: float = 16.0
    sigma_context: bool = True
    learned: bool = True
    evidence: bool = True
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
