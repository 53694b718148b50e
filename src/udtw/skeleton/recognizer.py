"""Few-shot action recognition from clips to scores: train, save, load, compare."""

from pathlib import Path
from typing import Any

import numpy as np
import torch

from udtw.checkpoint import read_checkpoint
from udtw.data.checked_shards import plan_of
from udtw.errors import DataError, OptionError
from udtw.fewshot import Dictionary, DictionaryTask, FewShotModel, Tokens
from udtw.fewshot.evaluation import code_scores, encode_all, support_scores
from udtw.fewshot.recognizer import Recognizer
from udtw.skeleton.datasets import SkeletonSet
from udtw.skeleton.encoder import SkeletonEncoder
from udtw.skeleton.graphs import graph
from udtw.skeleton.recipe import Recipe
from udtw.skeleton.rendering import RenderedEncoder
from udtw.skeleton.source import SkeletonSource
from udtw.training import Task

INFERENCE = ("auto", "alignment", "codes")


class ActionRecognizer(Recognizer):
    """A model of a `Recipe` for skeletons of one joint layout.

    >>> recognizer = ActionRecognizer(Recipe(metric="udtw"), "kinect20")
    >>> recognizer.fit(skeletons.of_classes(training_classes), checkpoint_path="run.safetensors")
    >>> recognizer.scores(queries, supports)           # (Q, S), lower is closer
    """

    what = "an action recogniser"
    recipe: Recipe

    def __init__(self, recipe: Recipe, graph_name: str, coordinates: int = 3, *, dictionary_steps: int = 1) -> None:
        super().__init__()
        self.recipe, self.graph_name, self.coordinates = recipe, graph_name, coordinates
        self.graph = graph(graph_name)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(recipe.seed)
            self.model = self._make_model()
        self.dictionary: Dictionary | None = None
        if recipe.mode == "unsupervised":
            self.dictionary = Dictionary(
                recipe.n_atoms, dictionary_steps, recipe.dim, recipe.n_nearest, recipe.temperature
            )

    def _make_model(self) -> FewShotModel:
        r = self.recipe
        if r.encoder == "pictures":
            encoder: torch.nn.Module = RenderedEncoder(self.coordinates, dim=r.dim, image_size=r.image_size)
        else:
            encoder = SkeletonEncoder(
                self.graph, r.block_size, self.coordinates, dim=r.dim, joint_dim=r.joint_dim, width=r.width,
                depth=r.depth, heads=r.heads, dropout=r.dropout, hops=r.hops, alpha=r.alpha,
            )  # fmt: skip
        return r.model(encoder)

    def source(self, skeletons: SkeletonSet, *, augment: bool = False) -> SkeletonSource:
        """Batches of these clips as the model's encoder takes them."""
        if skeletons.graph != self.graph_name:
            raise DataError(
                f"The model was made for {self.graph_name} skeletons; {skeletons.name} has {skeletons.graph}."
            )
        r = self.recipe
        extra = {"rotation": r.rotation, "stretch": r.stretch, "noise": r.noise} if augment else {}
        return SkeletonSource(
            skeletons, skeletons.labels, self.graph, block_size=r.block_size, stride=r.stride, scale=r.scale, **extra
        )

    def _task(self, samples: SkeletonSet, fabric: Any) -> Task:
        r, source = self.recipe, self.source(samples, augment=True)
        self._trained_on = plan_of(samples.name, samples.names, samples.labels.tolist())
        if self.dictionary is None:
            return r.episodic_task(self.model, source, fabric)
        self._start_dictionary(samples)
        return DictionaryTask(
            self.model, self.dictionary, source, batch_size=r.batch_size, dict_iter=r.dict_iter,
            dictionary_rate=r.dictionary_rate, encoder_rate=r.encoder_rate, beta=r.beta, spread=r.spread, seed=r.seed,
            fabric=fabric,
        )  # fmt: skip

    def _start_dictionary(self, skeletons: SkeletonSet) -> None:
        """Atoms of the mean block count begin as tokens of random clips under the untrained encoder."""
        r = self.recipe
        chosen = np.random.default_rng((r.seed, 0)).choice(
            len(skeletons), min(r.n_atoms, len(skeletons)), replace=False
        )
        source = self.source(skeletons)
        if isinstance(self.model.encoder, SkeletonEncoder):
            self.model.eval()
            self.model.encoder.standardize(source.batch(chosen))
        tokens = encode_all(self.model, source, chosen)
        steps = max(1, round(float(tokens.lengths.float().mean())))
        self.dictionary = Dictionary(r.n_atoms, steps, r.dim, r.n_nearest, r.temperature)
        self.dictionary.start_from(tokens)

    def tokens(self, skeletons: SkeletonSet) -> Tokens:
        """The tokens of clips, with variances if the metric reads them."""
        return encode_all(self.model, self.source(skeletons))

    def scores(self, queries: SkeletonSet, supports: SkeletonSet | None = None, inference: str = "auto") -> np.ndarray:
        """(Q, S) of every query against every support (the queries themselves by default); lower is closer.

        ``inference``: "alignment" compares tokens by the recipe's metric; "codes" compares dictionary codes by
        histogram intersection; "auto" is codes where there is a dictionary.
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
            recipe = Recipe.from_dict(config["recipe"])
            made = cls(recipe, config["graph"], config["coordinates"], dictionary_steps=config["dictionary_steps"])
            made._trained_on = config["data"]
            return made

        return cls._loaded(Path(path), saved, make)
