"""Settings of a few-shot image classifier, as JSON can hold them."""

from dataclasses import dataclass

from udtw.fewshot.recipe import FewShotRecipe, accept_sigma_bounds
from udtw.images.order import ORDERS
from udtw.images.projection import STARTS


@accept_sigma_bounds
@dataclass(frozen=True)
class ImageRecipe(FewShotRecipe):
    """All settings of an `ImageRecognizer`.

    ``metric="protonet"`` is the squared Euclidean distance of pooled (mean) tokens; "euclidean" compares tokens at the
    same position. The settings of the SigmaNet were chosen on the validation classes of CIFAR-FS and Cars.

    Parameters
    ----------
    metric : str
        Comparator of token sequences: an elastic metric ("udtw", "soft_dtw", …), "euclidean", "protonet", "matchnet" or
        "tap".
    mode : "supervised" or "unsupervised"
        Train with labels in episodes, or without labels.
    objective : "cross_entropy" or "similarity"
        Training loss: cross-entropy over the supports, or the paper's squared distance to the targets 0 and 1.
    seed : int
        Seed of the initial weights, the episodes and the augmentation.
    gamma : float
        Temperature γ of the alignment.
    beta : float
        Weight β of the regulariser Ω.
    normalize : "length", "path", "precision" or None
        Divisor of a distance: the longer length, the expected path length, or the total precision along the path.
    sigma_range : (low, high)
        Bounds of σ.
    sigma_hidden : int, optional
        Width of the SigmaNet's hidden layer; 0 for no hidden layer.
    sigma_gain : float
        Factor applied to tokens at the input of the SigmaNet.
    sigma_context : bool
        Also show the SigmaNet how a token differs from the mean token of its sample.
    per_feature : bool
        Learn a variance for every feature instead of one per token.
    matching : "support" or "prototype"
        Compare a query with every support, or with one mean sequence per class.
    weighting : "likelihood" or "precision"
        Energy of a path in uDTW: with the price β log Σ for uncertainty, or without it as in the paper.
    warp_penalty : float
        Penalty ω for each non-diagonal step; unused by "precision".
    relax : int
        Number of tokens that may stay unmatched at each end of both sequences.
    learned : bool
        Learn γ, β and ω with the "likelihood" weighting; has no effect without labels.
    evidence : bool
        Score a match against unrelated tokens; needs "likelihood", "cross_entropy" and one variance per token.
    sigma_training : "joint", "warm_up", "after", "faithful" or "beta_nll"
        Schedule by which features and variances learn.
    n_steps : int
        Number of training steps.
    learning_rate : float
        Initial learning rate of AdamW; it falls to zero as a cosine.
    weight_decay : float
        Weight decay of AdamW.
    n_way, n_shot, n_query : int
        Classes, supports per class and queries per class of a training episode.
    episodes_per_step : int
        Episodes averaged in a step; a multiple of the number of processes.
    order : "raster", "snake" or "hilbert"
        Order in which the tokens of the grid are read.
    dim : int
        Number of features per token after the projection; 0 for no projection.
    start : "orthogonal" or "principal"
        Initial projection: random orthonormal rows, or the principal directions of the training tokens.
    batch_size : int
        Number of images per step of unsupervised training.
    temperature : float
        Temperature of the contrastive loss of unsupervised training.

    Examples
    --------
    >>> from udtw.images import ImageRecipe
    >>> recipe = ImageRecipe(metric="udtw", mode="unsupervised", n_steps=150)
    >>> recipe.temperature
    0.1
    """

    sigma_range: tuple[float, float] = (0.2, 5.0)
    sigma_hidden: int | None = 64
    sigma_gain: float = 16.0
    sigma_context: bool = True
    learned: bool = True
    evidence: bool = True
    matching: str = "prototype"
    n_query: int = 5
    # Tokens
    order: str = "raster"
    dim: int = 256
    start: str = "orthogonal"
    # Training without labels
    batch_size: int = 32
    temperature: float = 0.1

    def __post_init__(self) -> None:
        super().__post_init__()
        self.check_choice("order", ORDERS)
        self.check_choice("start", STARTS)
