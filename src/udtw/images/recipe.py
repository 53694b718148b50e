"""All settings of a few-shot image classifier in one place, as JSON can hold them."""

from dataclasses import dataclass
from typing import Any

from udtw.fewshot.recipe import FewShotRecipe
from udtw.images.order import ORDERS
from udtw.images.projection import STARTS


def usual_settings(metric: str, objective: str = "cross_entropy") -> dict[str, Any]:
    """Settings that are better than the defaults; chosen for uDTW on the validation classes of CIFAR-FS and Cars.

    They are not for the similarity objective, with which a SigmaNet with such a gain learns to be certain about what
    all images share.
    """
    if (metric, objective) != ("udtw", "cross_entropy"):
        return {}
    return {"sigma_gain": 16.0, "sigma_hidden": 64, "sigma_context": True, "sigma_low": 0.2, "sigma_high": 5.0}


@dataclass(frozen=True)
class ImageRecipe(FewShotRecipe):
    """All settings of an `ImageRecognizer`; the class in brackets documents each group of settings.

    ``metric="protonet"`` is the squared Euclidean distance of pooled (mean) tokens; "euclidean" compares tokens at the
    same position.

    Examples
    --------
    >>> from udtw.images import ImageRecipe
    >>> recipe = ImageRecipe(metric="udtw", mode="unsupervised", n_steps=150)
    >>> recipe.temperature
    0.1
    """

    sigma_hidden: int | None = 0
    weighting: str | None = "likelihood"
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
