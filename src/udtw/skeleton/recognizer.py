"""Few-shot action recognition from clips to scores: train, save, load, compare."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from udtw._io.checkpoint import read_checkpoint
from udtw._io.shard_store import checksum
from udtw._io.training import Task
from udtw.errors import DataError, OptionError
from udtw.fewshot import Dictionary, DictionaryTask, FewShotModel, Tokens
from udtw.fewshot.evaluation import code_scores, encode_all, support_scores
from udtw.fewshot.recipe import FewShotRecipe
from udtw.fewshot.recognizer import Recognizer
from udtw.fewshot.tasks import moved
from udtw.skeleton.blocks import CONFIDENCE, Augmentation, SkeletonSource
from udtw.skeleton.datasets import SkeletonSet
from udtw.skeleton.encoder import RenderedEncoder, SkeletonEncoder
from udtw.skeleton.graphs import Graph, graph, graph_name

ENCODERS = ("joints", "pictures")
INFERENCE = ("auto", "alignment", "codes")


@dataclass(frozen=True)
class Recipe(FewShotRecipe):
    """All settings of a few-shot action recogniser, as JSON can hold them.

    The settings are explained in the classes named in brackets in the source, besides those of `FewShotRecipe`.
    ``encoder``: "joints" for `SkeletonEncoder`, "pictures" for a small convolutional network on pictures of the blocks.

    Examples
    --------
    >>> from udtw.skeleton import Recipe
    >>> recipe = Recipe(metric="soft_dtw", n_steps=100)
    >>> recipe.encoder, recipe.as_dict()["n_steps"]
    ('joints', 100)
    """

    BEFORE = FewShotRecipe.BEFORE | {"confidence": "ignore", "facing": False, "frequencies": 0}
    encoder: str = "joints"
    sigma_low: float = 0.9
    sigma_high: float = 1.1
    sigma_hidden: int | None = 64
    learned: bool = True
    # Blocks [SkeletonSource] and their augmentation [Augmentation]
    block_size: int = 8
    stride: int = 4
    scale: str | None = "body"
    facing: bool = True
    confidence: str = "estimate"
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
    frequencies: int = 3
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
        self.check_choice("confidence", CONFIDENCE)


def usual_settings(mode: str) -> dict[str, Any]:
    """Settings that are better than the defaults, which are for training with labels.

    There a SigmaNet learns more about the few classes of the training than about noise, so that σ stays near 1 and
    variances come from the joints. Without labels a wide range helps.

    Examples
    --------
    >>> from udtw.skeleton import Recipe, usual_settings
    >>> Recipe(mode="unsupervised", **usual_settings("unsupervised")).sigma_high
    2.0
    """
    return {} if mode == "supervised" else {"sigma_gain": 8.0, "sigma_low": 0.5, "sigma_high": 2.0}


class ActionRecognizer(Recognizer):
    """Few-shot recogniser of actions for skeletons of one joint layout.

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
    >>> from udtw.skeleton import ActionRecognizer, Recipe
    >>> from udtw.skeleton.datasets import make_actions
    >>> actions = make_actions(n_classes=6, n_clips=4)
    >>> recipe = Recipe(n_steps=2, n_way=3, n_query=1, dim=8, joint_dim=4, width=8, depth=0)
    >>> recognizer = ActionRecognizer(recipe, actions.graph).fit(actions.of_classes([0, 1, 2]))
    >>> novel = actions.of_classes([3, 4, 5])
    >>> recognizer.scores(novel[:2], novel).shape  # one row per query, one column per support; lower is closer
    (2, 12)
    """

    what = "an action recogniser"
    recipe: Recipe

    def __init__(self, recipe: Recipe, layout: str | Graph, coordinates: int = 3, *, dictionary_steps: int = 1) -> None:
        super().__init__()
        self.recipe, self.graph_name, self.coordinates = recipe, graph_name(layout), coordinates
        self.graph = graph(layout)
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
            )  # fmt: skip
        return r.model(encoder)

    def source(self, skeletons: SkeletonSet, *, augment: bool = False) -> SkeletonSource:
        """Batches of these clips for the model's encoder, with augmentation in training if ``augment``."""
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
            augmentation=Augmentation(r.rotation, r.stretch, r.noise) if augment else None,
        )

    def _task(self, samples: SkeletonSet, fabric: Any) -> Task:
        r, source = self.recipe, self.source(samples, augment=True)
        self._trained_on = checksum(samples.name, samples.names, samples.labels.tolist())
        if self.dictionary is None:
            return r.episodic_task(self.model, source, fabric)
        self._start_dictionary(samples)
        return DictionaryTask(
            self.model, self.dictionary, source, batch_size=r.batch_size, dict_iter=r.dict_iter,
            dictionary_rate=r.dictionary_rate, encoder_rate=r.encoder_rate, beta=r.beta, spread=r.spread,
            stages=r.stages(self.model), seed=r.seed, fabric=fabric,
        )  # fmt: skip

    def _start_dictionary(self, skeletons: SkeletonSet) -> None:
        """Make a dictionary of atoms as long as the mean clip, initialised by the tokens of random clips."""
        r = self.recipe
        chosen = np.random.default_rng((r.seed, 0)).choice(
            len(skeletons), min(r.n_atoms, len(skeletons)), replace=False
        )
        source, device = self.source(skeletons), next(self.model.parameters()).device
        if isinstance(self.model.encoder, SkeletonEncoder):
            self.model.eval()
            self.model.encoder.standardize(moved(source.batch(chosen), device))
        tokens = encode_all(self.model, source, chosen)
        steps = max(1, round(float(tokens.lengths.float().mean())))
        self.dictionary = Dictionary(r.n_atoms, steps, self._dim, r.n_nearest, r.temperature).to(device)
        self.dictionary.start_from(tokens)

    def tokens(self, skeletons: SkeletonSet) -> Tokens:
        """The tokens of clips, with variances if the metric uses them."""
        return encode_all(self.model, self.source(skeletons))

    def scores(self, queries: SkeletonSet, supports: SkeletonSet | None = None, inference: str = "auto") -> np.ndarray:
        """(Q, S): the distance of every query to every support (by default the queries themselves).

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
            "dictionary_steps": steps, "data": self._trained_on,
        }  # fmt: skip

    @property
    def _modules(self) -> dict[str, torch.nn.Module]:
        return super()._modules | ({} if self.dictionary is None else {"dictionary": self.dictionary})

    @classmethod
    def load(cls, path: str | Path) -> "ActionRecognizer":
        """The recogniser whose training wrote the checkpoint ``path``, ready to compare."""
        saved = read_checkpoint(Path(path))
        config = saved.settings

        def make() -> "ActionRecognizer":
            recipe = Recipe.from_saved(config["recipe"])
            made = cls(recipe, config["graph"], config["coordinates"], dictionary_steps=config["dictionary_steps"])
            made._trained_on = config["data"]
            return made

        return cls._loaded(Path(path), saved, make)
