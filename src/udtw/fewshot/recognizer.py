"""What recognisers of actions and of images share: a model of a recipe that is trained, saved and loaded."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, ClassVar, Self

import torch
from torch import Tensor, nn

from udtw.errors import FileFormatError
from udtw.fewshot import checkpoint, loop
from udtw.fewshot.model import FewShotModel
from udtw.fewshot.recipe import FewShotRecipe


class Recognizer(ABC):
    """A ``model`` of a ``recipe`` and the ``losses`` of its training."""

    what: ClassVar[str]
    """What it is, for messages: "an action recogniser"."""
    recipe: FewShotRecipe
    model: FewShotModel

    def __init__(self) -> None:
        self.losses: list[float] = []
        self._trained_on: str | None = None
        """A checksum of the training samples: a checkpoint is not continued on others."""

    def fit(
        self,
        samples: Any,
        *,
        checkpoint_path: str | Path | None = None,
        checkpoint_every: int = 100,
        fabric: Any = None,
        tick: Callable[[int, float], None] = lambda number, loss: None,
    ) -> Self:
        """Train on samples of the training classes. Labels are read in supervised mode only.

        With ``checkpoint_path`` an interrupted training goes on from there with the same result, bit for bit on one
        CPU. ``fabric``: a launched lightning-fabric object, for several processes or a GPU.
        """
        task = self._task(samples, fabric)
        self.losses = loop.run(
            task, self.recipe.n_steps, config=self.config, checkpoint_path=checkpoint_path,
            checkpoint_every=checkpoint_every, tick=tick, writes=fabric is None or fabric.is_global_zero,
        )  # fmt: skip
        return self

    @abstractmethod
    def _task(self, samples: Any, fabric: Any) -> loop.Task:
        """What `fit` does step by step; sets ``_trained_on``."""

    @property
    @abstractmethod
    def config(self) -> dict[str, Any]:
        """What `load` needs to make the same model again, and what a continued training must agree in."""

    @property
    def _modules(self) -> dict[str, nn.Module]:
        """All that has weights."""
        return {"model": self.model}

    @classmethod
    def _made(cls, path: Path, tensors: Mapping[str, Tensor], make: Callable[[], Self]) -> Self:
        """``make()``, which may raise what it likes, as a recogniser whose shapes are those of ``tensors``."""
        try:
            # First without memory: a damaged size would otherwise be found out only after the model was built.
            with torch.device("meta"):
                shapes = make()
            checkpoint.check_shapes(path, tensors, shapes._modules)
            return make()
        except FileFormatError:
            raise
        except (LookupError, TypeError, ValueError, ArithmeticError, RuntimeError) as error:
            raise FileFormatError(f"{path} does not describe {cls.what}: {error!r}.") from error

    def _take(self, path: Path, tensors: Mapping[str, Tensor]) -> None:
        """The weights and losses of a checkpoint, ready to compare."""
        checkpoint.load_modules(path, tensors, self._modules)
        self.losses = tensors["losses"].tolist()
        for module in self._modules.values():
            module.eval()
