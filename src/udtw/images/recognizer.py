"""Few-shot image classification from cached tokens to accuracy: settings, training, saving, loading, evaluation."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from udtw._io.checkpoint import read_checkpoint
from udtw._io.training import Task
from udtw.errors import DataError
from udtw.fewshot import EpisodeSampler, Tokens
from udtw.fewshot.contrastive import ContrastiveTask
from udtw.fewshot.episodes import fitting_n_way
from udtw.fewshot.evaluation import Accuracy, encode_all, evaluate_episodes
from udtw.fewshot.model import UNORDERED, FewShotModel
from udtw.fewshot.recipe import FewShotRecipe, complete_settings
from udtw.fewshot.recognizer import Recognizer
from udtw.fewshot.tasks import moved
from udtw.images.projection import ORDERS, STARTS, TokenProjection, token_order
from udtw.images.tokens import TokenSet

LOCAL_TOKENS = 100
"""From this many tokens on, each sees a small part of the image, and its partner may be anywhere."""


@complete_settings
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
        Weight β of the regularizer Ω.
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
    pair_sigma : bool
        Learn one variance per match from both tokens, ``σ²(x_m, y_n)``, instead of the sum of two.
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
    preset : "default" or "paper"
        "paper": the settings of the paper for all that are not given, and InfoNCE in one direction.
    order : "auto", "set", "grid", "raster", "snake" or "hilbert"
        "set": uDTW matches every token with any token of the other image; "grid": the same, for a price of the
        displacement. Otherwise the order in which the tokens are read as a sequence; other metrics, which need one,
        read a set or a grid row by row. "auto": "set" for 100 tokens or more, which see a small part of the image
        each, otherwise "raster"; see `with_order`. After `fit` the recognizer's recipe has the order that was chosen.
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

    BEFORE = FewShotRecipe.BEFORE | {"order": "raster"}
    PRESETS = FewShotRecipe.PRESETS | {"paper": FewShotRecipe.PRESETS["paper"] | {"sigma_hidden": 0, "order": "raster"}}
    sigma_range: tuple[float, float] = (0.2, 5.0)
    sigma_hidden: int | None = 64
    sigma_gain: float = 16.0
    sigma_context: bool = True
    learned: bool = True
    evidence: bool = True
    matching: str = "prototype"
    n_query: int = 5
    # Tokens
    order: str = "auto"
    dim: int = 256
    start: str = "orthogonal"
    # Training without labels
    batch_size: int = 32
    temperature: float = 0.1

    @property
    def comparator(self) -> str:
        return self.order if self.metric == "udtw" and self.order in UNORDERED else self.metric

    def with_order(self, n_tokens: int) -> "ImageRecipe":
        """Return the recipe with the order for images of so many tokens in place of "auto".

        It is "set" for `LOCAL_TOKENS` or more if all that the recipe asks for applies to sets, otherwise "raster".
        """
        of_paths = self.relax or self.warp_penalty or self.normalize != "length" or self.pair_sigma or self.per_feature
        weighs = self.evidence and self.weighting == "likelihood" and self.objective == "cross_entropy"
        local = n_tokens >= LOCAL_TOKENS
        return replace(self, order="set" if local and weighs and not of_paths else "raster")

    def __post_init__(self) -> None:
        super().__post_init__()
        self.check_choice("order", ("auto", *ORDERS))
        self.check_choice("start", STARTS)


STANDARDIZE_IMAGES, STANDARDIZE_BYTES = 1000, 2**28
"""Mean and scale of the tokens are computed from this many training images, or as many as fit into these bytes."""

HELD_BYTES = 2**31
"""Tokens up to this size stay on another device than the CPU during a training."""


class TokenSource:
    """Cached tokens as batches: a `udtw.fewshot.tasks.Source`, and with views a `ViewSource`.

    ``batch(indices, generator)`` draws the image itself or one of its views for each index; without a generator it
    returns the image itself. ``order``: see `token_order`. `to` another device keeps images there after their first
    use, up to `HELD_BYTES`.
    """

    def __init__(self, tokens: TokenSet, order: str = "raster") -> None:
        self.tokens, self.labels = tokens, tokens.labels
        self._order = torch.from_numpy(token_order(order, tokens.grid))
        self._device = torch.device("cpu")
        self._held: dict[tuple[int, int], Tensor] = {}

    def to(self, device: torch.device) -> "TokenSource":
        """Make batches on this device."""
        self._device, self._held = torch.device(device), {}
        return self

    def __len__(self) -> int:
        return len(self.labels)

    def batch(self, indices: np.ndarray, generator: np.random.Generator | None = None) -> Tensor:
        """Return tokens (B, T, D) in reading order."""
        if generator is None or not self.tokens.n_views:
            return self._versions(indices, np.full(len(indices), -1))
        return self._versions(indices, generator.integers(-1, self.tokens.n_views, len(indices)))

    def two_views(self, indices: np.ndarray, generator: np.random.Generator) -> tuple[Tensor, Tensor]:
        """Return two different versions of each image, of the image itself and its views; each (B, T, D)."""
        if not self.tokens.n_views:
            raise DataError(
                f"The tokens of {self.tokens.name} have no augmented views. Extract them with views: "
                "udtw images embed --views 4."
            )
        versions = np.arange(-1, self.tokens.n_views)
        drawn = np.stack([generator.permutation(versions)[:2] for _ in indices])
        return self._versions(indices, drawn[:, 0]), self._versions(indices, drawn[:, 1])

    def _versions(self, indices: np.ndarray, versions: np.ndarray) -> Tensor:
        """Return version v of image i for each pair, (B, T, D); −1 is the image itself."""
        if self._device.type != "cpu":
            pairs = zip(np.asarray(indices).tolist(), versions.tolist(), strict=True)
            return torch.stack([self._there(*pair) for pair in pairs])
        return self._read(indices, versions)

    def _read(self, indices: np.ndarray, versions: np.ndarray) -> Tensor:
        height, width = self.tokens.grid
        found = torch.empty(len(indices), height * width, self.tokens.dim)
        for version in np.unique(versions):
            rows = np.flatnonzero(versions == version)
            found[rows] = self.tokens.tokens(np.asarray(indices)[rows], view=None if version < 0 else int(version))
        return found[:, self._order]

    def _there(self, index: int, version: int) -> Tensor:
        """Return the tokens (T, D) on the device."""
        found = self._held.get((index, version))
        if found is None:
            found = self._read(np.array([index]), np.array([version]))[0].to(self._device)
            if (len(self._held) + 1) * found.nbytes <= HELD_BYTES:
                self._held[index, version] = found
        return found


class ImageRecognizer(Recognizer):
    """A few-shot classifier of images by their tokens: the model of an `ImageRecipe`, trained, saved and evaluated.

    Parameters
    ----------
    recipe : ImageRecipe
    inputs : int
        Features D of the backbone's tokens.

    Examples
    --------
    >>> import tempfile
    >>> from udtw.images import ImageRecipe, ImageRecognizer, PatchBackbone, embed, make_images, open_tokens
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     done = embed(make_images(8), PatchBackbone(48, patch=16), folder)
    ...     tokens = open_tokens(folder)
    ...     recognizer = ImageRecognizer(ImageRecipe(metric="soft_dtw", n_steps=2, dim=16), inputs=tokens.dim)
    ...     history = recognizer.fit(tokens.of_split("train"))
    ...     accuracy = recognizer.evaluate(tokens.of_split("test"), n_way=5, n_shot=1, n_query=4, n_episodes=5)
    >>> 0 <= accuracy.mean <= 1
    True
    """

    what = "an image recognizer"
    recipe: ImageRecipe

    def __init__(self, recipe: ImageRecipe, inputs: int) -> None:
        super().__init__()
        self.recipe, self.inputs = recipe, inputs
        self.backbone: dict[str, Any] | None = None
        """Identity of the backbone whose tokens the model was trained on."""
        self.backbone_spec: str | None = None
        """Spec of the backbone for `load_backbone`, if the tokens record it."""
        self.model = self._untrained()

    def _untrained(self) -> FewShotModel:
        r = self.recipe
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(r.seed)
            return r.model(TokenProjection(self.inputs, min(r.dim, self.inputs), start=r.start))

    def _settle_order(self, n_tokens: int) -> None:
        """Replace the order "auto" by that for so many tokens, before the model has seen any."""
        if self.recipe.order == "auto":
            self.recipe = self.recipe.with_order(n_tokens)
            if self.recipe.comparator != self.model.metric:
                self.model = self._untrained().to(next(self.model.parameters()).device)

    def source(self, tokens: TokenSet) -> TokenSource:
        """Return these images as batches in the reading order of the recipe."""
        if tokens.dim != self.inputs:
            raise DataError(
                f"The model was made for tokens of {self.inputs} features; those of {tokens.name} have {tokens.dim}. "
                "Extract them with the same backbone."
            )
        if self.backbone not in (None, tokens.identity["backbone"]):
            raise DataError(
                f"The model was trained on tokens of {self.backbone}; those of {tokens.name} are of "
                f"{tokens.identity['backbone']}. Extract them with the same backbone."
            )
        self._settle_order(tokens.grid[0] * tokens.grid[1])
        return TokenSource(tokens, self.recipe.order)

    def _task(self, samples: TokenSet, fabric: Any) -> Task:
        source = self.source(samples)
        r = self.recipe
        self.backbone, self._trained_on = samples.identity["backbone"], samples.digest
        self.backbone_spec = samples.origin.get("backbone")
        self._standardize(source)
        if r.mode == "supervised":
            return r.episodic_task(self.model, source, fabric)
        return ContrastiveTask(
            self.model, source, batch_size=r.batch_size, temperature=r.temperature, learning_rate=r.learning_rate,
            weight_decay=r.weight_decay, stages=r.stages(self.model), seed=r.seed, fabric=fabric,
            one_way=r.preset == "paper",
        )  # fmt: skip

    def _standardize(self, source: TokenSource) -> None:
        bytes_each = 4 * int(np.prod(source.tokens.grid)) * self.inputs
        count = max(1, min(STANDARDIZE_IMAGES, STANDARDIZE_BYTES // bytes_each))
        chosen = np.random.default_rng((self.recipe.seed, 0)).permutation(len(source))[:count]
        encoder = self.model.encoder
        assert isinstance(encoder, TokenProjection), "created in __init__"
        encoder.standardize(moved(source.batch(chosen), encoder.mean.device))

    def evaluate(
        self, tokens: TokenSet, *, n_way: int = 5, n_shot: int = 1, n_query: int = 15, n_episodes: int = 1000,
        seed: int = 0,
    ) -> Accuracy:  # fmt: skip
        """Measure the mean accuracy over episodes drawn from the classes of ``tokens``, with its interval.

        If there are fewer classes than ``n_way``, episodes have all of them, and a warning says so.
        """
        source, n_way = self.source(tokens), fitting_n_way(tokens.labels, n_way)
        sampler = EpisodeSampler(source.labels, n_way, n_shot, n_query, seed)
        return evaluate_episodes(self.model, source, sampler, n_episodes)

    def classify(
        self, tokens: TokenSet, queries: np.ndarray, supports: np.ndarray, support_labels: np.ndarray
    ) -> np.ndarray:
        """Return `predict` of the images ``queries`` of ``tokens`` by the images ``supports`` of it."""
        return self.predict(tokens.subset(supports), support_labels, tokens.subset(queries))

    @torch.no_grad()
    def encode(self, tokens: Tensor | TokenSet) -> Tokens:
        """Project the tokens of a set, or ``tokens`` (B, T, D) in the given order; add variances for uDTW."""
        if isinstance(tokens, TokenSet):
            source = self.source(tokens)  # may replace the model
            return encode_all(self.model, source)
        self._settle_order(tokens.shape[1])
        self.model.eval()
        return self.model.encode(moved(tokens, next(self.model.parameters()).device))

    @property
    def config(self) -> dict[str, Any]:
        return {
            "recipe": self.recipe.as_dict(), "inputs": self.inputs, "backbone": self.backbone, "data": self._trained_on,
            "backbone_spec": self.backbone_spec,
        }  # fmt: skip

    @classmethod
    def load(cls, path: str | Path) -> "ImageRecognizer":
        """Load the recognizer whose training wrote the checkpoint ``path``, ready to compare."""
        saved = read_checkpoint(Path(path))
        config = saved.settings

        def make() -> "ImageRecognizer":
            made = cls(ImageRecipe.from_saved(config["recipe"]), config["inputs"])
            made.backbone, made._trained_on = config["backbone"], config["data"]
            made.backbone_spec = config.get("backbone_spec")
            return made

        return cls._loaded(Path(path), saved, make)
