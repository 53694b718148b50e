"""All settings of a few-shot image classifier in one place, as JSON can hold them."""

from dataclasses import dataclass

from udtw.fewshot.recipe import FewShotRecipe
from udtw.images.order import ORDERS
from udtw.images.projection import STARTS


def usual_settings(metric: str, mode: str, objective: str = "cross_entropy") -> dict[str, float]:
    """What does better than the defaults: found for uDTW on classes held out of CIFAR-FS's training classes.

    Only with labels and the cross-entropy. Without labels, or with the similarity objective, a SigmaNet that moves as
    easily learns to be certain of what all images share.
    """
    uncertain = (metric, mode, objective) == ("udtw", "supervised", "cross_entropy")
    return {"beta": 1.0, "sigma_gain": 16.0} if uncertain else {}


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
