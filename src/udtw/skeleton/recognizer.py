"""Few-shot action recognition from clips to scores: train, save, load, compare."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from udtw._io.checkpoint import read_checkpoint
from udtw._io.shard_store import checksum
from udtw._io.training import Task
from udtw.errors import DataError, OptionError
from udtw.fewshot import FewShotModel, Tokens
from udtw.fewshot.dictionary import Dictionary, DictionaryTask
from udtw.fewshot.evaluation import code_scores, encode_all, support_scores
from udtw.fewshot.recipe import MODES, FewShotRecipe, complete_settings
from udtw.fewshot.recognizer import Recognizer
from udtw.fewshot.tasks import moved
from udtw.skeleton.blocks import CONFIDENCE, Augmentation, SkeletonSource
from udtw.skeleton.datasets import SkeletonSet
from udtw.skeleton.encoder import RenderedEncoder, SkeletonEncoder
from udtw.skeleton.graphs import Graph, graph, graph_name

ENCODERS = ("joints", "pictures")
INFERENCE = ("auto", "alignment", "codes")


SIGMA_DEFAULTS = {"supervised": ((0.9, 1.1), 1.0), "unsupervised": ((0.5, 2.0), 8.0)}
"""``sigma_range`` and ``sigma_gain`` by mode. With labels a SigmaNet learns more about the few training classes than
about noise, so σ stays near 1 and variances come from the joints. Without labels a wide range helps."""


@complete_settings
@dataclass(frozen=True)
class Recipe(FewShotRecipe):
    """All settings of an `ActionRecognizer`.

    The defaults of ``sigma_range`` and ``sigma_gain`` depend on ``mode`` and are set when the recipe is made;
    `dataclasses.replace` with another mode keeps the values of the first.

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
        Bounds of σ. Default: (0.9, 1.1) with labels, (0.5, 2.0) without.
    sigma_hidden : int, optional
        Width of the SigmaNet's hidden layer; 0 for no hidden layer.
    sigma_gain : float
        Factor applied to tokens at the input of the SigmaNet. Default: 1 with labels, 8 without.
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
        Initial learning rate of AdamW in supervised training; it falls to zero as a cosine.
    weight_decay : float
        Weight decay of AdamW in supervised training.
    n_way, n_shot, n_query : int
        Classes, supports per class and queries per class of a training episode.
    episodes_per_step : int
        Episodes averaged in a step; a multiple of the number of processes.
    preset : "default" or "paper"
        "paper": the settings of the paper for all that are not given, no LayerNorm in the MLP of the blocks, plain
        gradient steps on the atoms, and no rescaling of the encoder before training without labels.
    encoder : "joints" or "pictures"
        `SkeletonEncoder`, or a small convolutional network on pictures of the blocks.
    block_size : int
        Number of frames per block; every block becomes a token.
    stride : int
        Number of frames between the starts of two blocks.
    scale : "body", "axis" or None
        Unit of length: the root mean square of all coordinates, the range of each axis, or that of the data.
    facing : bool
        Turn every clip so that people face the same way.
    confidence : "estimate", "sensor" or "ignore"
        Source of the joints' variances: the sensor's confidence capped by motion plausibility, unless it predicts no
        error; the sensor's confidence alone, whatever it predicts; or none.
    rotation : float
        Largest random rotation about the vertical axis in training, in degrees.
    stretch : float
        Largest random relative change of the size along each axis in training.
    noise : float
        Standard deviation of noise added in training, in units of the normalized body.
    dim : int
        Number of features per token, without those of single joints.
    joint_dim : int
        Number of features per joint inside the encoder.
    width, depth, heads : int
        Width, number of layers and attention heads of the Transformer; ``depth=0`` leaves it out.
    dropout : float
        Dropout rate of the encoder.
    hops : int
        Number K of powers of the joint graph in S²GC.
    alpha : float
        Share α of a joint's own features in S²GC.
    frequencies : int
        Number of cosines that describe the motion of a single joint; 0 for features of the whole body only.
    image_size : int
        Side of the pictures in pixels, for ``encoder="pictures"``.
    n_atoms : int
        Number of atoms of the dictionary (unsupervised training).
    n_nearest : int
        Number of nearest atoms in the code of a clip.
    temperature : float
        Temperature of the soft assignment to atoms.
    dict_iter : int
        Gradient steps on the atoms in each training step.
    dictionary_rate, encoder_rate : float
        Learning rates of the atoms and of the encoder in unsupervised training.
    spread : float
        Weight of the term that keeps tokens from becoming equal.
    batch_size : int
        Number of clips per step of unsupervised training.

    Examples
    --------
    >>> from udtw.skeleton import Recipe
    >>> recipe = Recipe(metric="soft_dtw", n_steps=100)
    >>> recipe.encoder, recipe.as_dict()["n_steps"]
    ('joints', 100)
    >>> Recipe(mode="unsupervised").sigma_range
    (0.5, 2.0)
    """

    BEFORE = FewShotRecipe.BEFORE | {
        "confidence": "ignore",
        "facing": False,
        "frequencies": 0,
        "sigma_range": [0.9, 1.1],
        "sigma_gain": 1.0,
    }
    PRESETS = FewShotRecipe.PRESETS | {
        "paper": FewShotRecipe.PRESETS["paper"] | {
            "scale": "axis", "facing": False, "confidence": "ignore", "frequencies": 0, "joint_dim": 50, "width": 384,
            "depth": 6, "heads": 6, "dropout": 0.5, "hops": 6, "alpha": 0.7, "spread": 0.0,
        }
    }  # fmt: skip
    encoder: str = "joints"
    sigma_range: tuple[float, float] = None  # type: ignore[assignment] # set by mode
    sigma_hidden: int | None = 64
    sigma_gain: float = None  # type: ignore[assignment] # set by mode
    learned: bool = True
    # Blocks and their augmentation
    block_size: int = 8
    stride: int = 4
    scale: str | None = "body"
    facing: bool = True
    confidence: str = "estimate"
    rotation: float = 0.0
    stretch: float = 0.0
    noise: float = 0.0
    # Network
    dim: int = 64
    joint_dim: int = 50
    width: int = 128
    depth: int = 2
    heads: int = 4
    dropout: float = 0.1
    hops: int = 6
    alpha: float = 0.7
    frequencies: int = 3
    image_size: int = 224
    # Training without labels
    n_atoms: int = 64
    n_nearest: int = 8
    temperature: float = 0.7
    dict_iter: int = 10
    dictionary_rate: float = 1e-3
    encoder_rate: float = 1e-3
    spread: float = 1.0
    batch_size: int = 32

    def __post_init__(self) -> None:
        self.check_choice("mode", MODES)
        for name, value in zip(("sigma_range", "sigma_gain"), SIGMA_DEFAULTS[self.mode], strict=True):
            if getattr(self, name) is None:
                object.__setattr__(self, name, value)
        super().__post_init__()
        self.check_choice("encoder", ENCODERS)
        self.check_choice("confidence", CONFIDENCE)


class ActionRecognizer(Recognizer):
    """Few-shot recognizer of actions for skeletons of one joint layout.

    Parameters
    ----------
    recipe : Recipe
        All settings of the model and its training.
    layout : str or Graph
        The joints: one of `GRAPHS`, or a graph by `from_edges`.
    coordinates : int
        2 or 3 per joint.
    dictionary_steps : int
        Length of the atoms if ``recipe.mode`` is "unsupervised"; `fit` sets it from the training clips.

    Examples
    --------
    >>> from udtw.skeleton import ActionRecognizer, Recipe, make_actions
    >>> actions = make_actions(n_classes=6, n_clips=4)
    >>> recipe = Recipe(n_steps=2, n_way=3, n_query=1, dim=8, joint_dim=4, width=8, depth=0)
    >>> recognizer = ActionRecognizer(recipe, actions.graph).fit(actions.of_classes([0, 1, 2]))
    >>> novel = actions.of_classes([3, 4, 5])
    >>> recognizer.scores(novel[:2], novel).shape  # one row per query, one column per support; lower is closer
    (2, 12)
    """

    what = "an action recognizer"
    recipe: Recipe

    def __init__(self, recipe: Recipe, layout: str | Graph, coordinates: int = 3, *, dictionary_steps: int = 1) -> None:
        super().__init__()
        self.recipe, self.graph_name, self.coordinates = recipe, graph_name(layout), coordinates
        self.graph = graph(layout)
        self.believes_confidence = True
        """False if the confidence of the training clips predicted no error."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(recipe.seed)
            self.model = self._make_model()
        self.dictionary: Dictionary | None = None
        if recipe.mode == "unsupervised":
            self.dictionary = Dictionary(
                recipe.n_atoms, dictionary_steps, self._dim, recipe.n_nearest, recipe.temperature
            )

    @property
    def _dim(self) -> int:
        """Features per token."""
        return int(self.model.encoder.dim)  # type: ignore[arg-type]

    def _make_model(self) -> FewShotModel:
        r = self.recipe
        if r.encoder == "pictures":
            encoder: torch.nn.Module = RenderedEncoder(self.coordinates, dim=r.dim, image_size=r.image_size)
        else:
            encoder = SkeletonEncoder(
                self.graph, r.block_size, self.coordinates, dim=r.dim, joint_dim=r.joint_dim, width=r.width,
                depth=r.depth, heads=r.heads, dropout=r.dropout, hops=r.hops, alpha=r.alpha,
                weighted=r.confidence != "ignore", frequencies=min(r.frequencies, r.block_size),
                block_norm=r.preset != "paper",
            )  # fmt: skip
        return r.model(encoder)

    def source(self, skeletons: SkeletonSet, *, augment: bool = False) -> SkeletonSource:
        """Return batches of these clips for the model's encoder, with augmentation in training if ``augment``."""
        if skeletons.graph != self.graph_name:
            raise DataError(
                f"The model was made for {self.graph_name} skeletons; {skeletons.name} has {skeletons.graph}."
            )
        r = self.recipe
        return SkeletonSource(
            skeletons,
            skeletons.labels,
            self.graph,
            block_size=r.block_size,
            stride=r.stride,
            scale=r.scale,
            facing=r.facing,
            confidence=r.confidence,
            believed=self.believes_confidence,
            augmentation=Augmentation(r.rotation, r.stretch, r.noise) if augment else None,
        )

    def _task(self, samples: SkeletonSet, fabric: Any) -> Task:
        self.believes_confidence = True
        r, source = self.recipe, self.source(samples, augment=True)
        self.believes_confidence = source.believed
        self._trained_on = checksum(samples.name, samples.names, samples.labels.tolist())
        if self.dictionary is None:
            return r.episodic_task(self.model, source, fabric)
        self._start_dictionary(samples)
        return DictionaryTask(
            self.model, self.dictionary, source, batch_size=r.batch_size, dict_iter=r.dict_iter,
            dictionary_rate=r.dictionary_rate, encoder_rate=r.encoder_rate, beta=r.beta, spread=r.spread,
            stages=r.stages(self.model), seed=r.seed, fabric=fabric, plain_steps=r.preset == "paper",
        )  # fmt: skip

    def _start_dictionary(self, skeletons: SkeletonSet) -> None:
        """Make a dictionary of atoms as long as the mean clip, initialized by the tokens of random clips."""
        r = self.recipe
        chosen = np.random.default_rng((r.seed, 0)).choice(
            len(skeletons), min(r.n_atoms, len(skeletons)), replace=False
        )
        source, device = self.source(skeletons), next(self.model.parameters()).device
        if isinstance(self.model.encoder, SkeletonEncoder) and r.preset != "paper":
            self.model.eval()
            self.model.encoder.standardize(moved(source.batch(chosen), device))
        tokens = encode_all(self.model, source, chosen)
        steps = max(1, round(float(tokens.lengths.float().mean())))
        self.dictionary = Dictionary(r.n_atoms, steps, self._dim, r.n_nearest, r.temperature).to(device)
        self.dictionary.start_from(tokens)

    def encode(self, skeletons: SkeletonSet) -> Tokens:
        """Encode clips as tokens, with variances if the metric uses them."""
        return encode_all(self.model, self.source(skeletons))

    tokens = encode

    def class_scores(self, support: SkeletonSet, labels: Tensor, query: SkeletonSet) -> tuple[Tensor, Tensor]:
        if self.dictionary is None:
            return super().class_scores(support, labels, query)
        return torch.from_numpy(self.scores(query, support)), labels

    def scores(self, queries: SkeletonSet, supports: SkeletonSet | None = None, inference: str = "auto") -> np.ndarray:
        """Return the distance of every query to every support (by default the queries themselves), (Q, S).

        ``inference``: "alignment" compares tokens by the recipe's metric; "codes" compares dictionary codes by
        histogram intersection; "auto" uses codes if there is a dictionary.
        """
        if inference not in INFERENCE or (inference == "codes" and self.dictionary is None):
            raise OptionError(
                f"inference must be one of {INFERENCE}, and codes need a dictionary (mode='unsupervised'); "
                f"got {inference!r} with mode={self.recipe.mode!r}."
            )
        x = self.tokens(queries)
        y = x if supports is None else self.tokens(supports)
        if self.dictionary is None or inference == "alignment":
            return support_scores(self.model, x, y)
        return code_scores(self.model, self.dictionary, x, y)

    @property
    def config(self) -> dict[str, Any]:
        steps = 1 if self.dictionary is None else self.dictionary.atoms.shape[1]
        return {
            "recipe": self.recipe.as_dict(), "graph": self.graph_name, "coordinates": self.coordinates,
            "dictionary_steps": steps, "data": self._trained_on, "believes_confidence": self.believes_confidence,
        }  # fmt: skip

    @property
    def _modules(self) -> dict[str, torch.nn.Module]:
        return super()._modules | ({} if self.dictionary is None else {"dictionary": self.dictionary})

    @classmethod
    def load(cls, path: str | Path) -> "ActionRecognizer":
        """Load the recognizer whose training wrote the checkpoint ``path``, ready to compare."""
        saved = read_checkpoint(Path(path))
        config = saved.settings

        def make() -> "ActionRecognizer":
            recipe = Recipe.from_saved(config["recipe"])
            made = cls(recipe, config["graph"], config["coordinates"], dictionary_steps=config["dictionary_steps"])
            made._trained_on = config["data"]
            made.believes_confidence = config.get("believes_confidence", True)
            return made

        return cls._loaded(Path(path), saved, make)
