"""The common base of recognizers of actions and of images: a model of a recipe that is trained, saved and loaded."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar, Self

import torch
from torch import Tensor, nn

from udtw._io.checkpoint import (
    Checkpoint,
    History,
    Saved,
    check_shapes,
    load_modules,
    module_tensors,
    write_checkpoint,
)
from udtw._io.device import Device, checked_device
from udtw._io.hub import HubModel
from udtw._io.training import Task, Training
from udtw.errors import FileFormatError, OptionError
from udtw.fewshot.model import Classifier, FewShotModel
from udtw.fewshot.recipe import FewShotRecipe
from udtw.fewshot.tokens import Tokens


class Recognizer(Classifier, HubModel, ABC):
    """A ``model`` of a ``recipe`` and the ``losses`` of its training."""

    what: ClassVar[str]
    """Its name in messages: "an action recognizer"."""
    recipe: FewShotRecipe
    model: FewShotModel

    def __init__(self) -> None:
        self.losses: list[float] = []
        self._trained_on: str | None = None
        """A checksum of the training samples: a checkpoint is not continued on others."""

    def fit(
        self, samples: Any, *, checkpoint_path: str | Path | None = None, checkpoint_every: int = 100,
        fabric: Any = None, tick: Callable[[int, float], None] | None = None, device: Device = None,
    ) -> Self:  # fmt: skip
        """Train on samples of the training classes. Labels are read in supervised mode only.

        With ``checkpoint_path``, the state is written there every ``checkpoint_every`` steps, and an interrupted
        training goes on from there with the same result, bit for bit on one CPU. ``fabric``: a launched
        lightning-fabric object, for several processes or a GPU. ``tick(number, loss)`` is called after every step.
        ``device``: where the model is trained and stays (`udtw._io.device`); None leaves it where it is.
        """
        if device is not None:
            if fabric is not None:
                raise OptionError(f"The device of a training with fabric is that of fabric; got device={device!r} too.")
            where = checked_device(device)
            for module in self._modules.values():
                module.to(where)
        task = self._task(samples, fabric)
        checkpoint = None
        if checkpoint_path is not None:
            writes = fabric is None or fabric.is_global_zero
            checkpoint = Checkpoint(checkpoint_path, self.config, every=checkpoint_every, writes=writes)
        self.losses = Training(task, self.recipe.n_steps, checkpoint=checkpoint).run(tick).train
        return self

    def save(self, path: str | Path) -> None:
        """Write the model to a file for `load`; without the state of the optimizer, so that no training goes on."""
        history = {"training": History(list(self.losses))}
        write_checkpoint(Path(path), self.config, history, module_tensors(self._modules))

    @classmethod
    @abstractmethod
    def load(cls, path: str | Path) -> Self:
        """Load the recognizer in a file by `save`, or by a training with ``checkpoint_path``."""

    @property
    def objective(self) -> nn.Module:
        """The objective of the model, which turns comparisons into scores."""
        return self.model.objective

    @abstractmethod
    def encode(self, samples: Any) -> Tokens:
        """Encode samples as tokens, with variances if the metric reads them."""

    def class_scores(self, support: Any, labels: Tensor, query: Any) -> tuple[Tensor, Tensor]:
        supports, queries = (one if isinstance(one, Tokens) else self.encode(one) for one in (support, query))
        comparison, columns = self.model.compare(queries, supports, labels.to(supports.features.device))
        return self.model.objective.scores(comparison), columns

    @abstractmethod
    def _task(self, samples: Any, fabric: Any) -> Task:
        """Build the task that `fit` trains; set ``_trained_on``."""

    @property
    @abstractmethod
    def config(self) -> dict[str, Any]:
        """Settings by which `load` builds the same model; a continued training must agree in them."""

    @property
    def _modules(self) -> dict[str, nn.Module]:
        """Everything with weights, by name."""
        return {"model": self.model}

    @classmethod
    def _loaded(cls, path: Path, saved: Saved, make: Callable[[], Self]) -> Self:
        """Return the recognizer that ``make`` builds from the settings in ``saved``, with its weights and losses."""
        try:
            # First on the meta device: a damaged size would otherwise be found only after the model was allocated.
            with torch.device("meta"):
                shapes = make()
            check_shapes(path, saved.tensors, shapes._modules)
            found = make()
        except FileFormatError:
            raise
        except (LookupError, TypeError, ValueError, ArithmeticError, RuntimeError) as error:
            raise FileFormatError(f"{path} does not describe {cls.what}: {error!r}.") from error
        load_modules(path, saved.tensors, found._modules)
        found.losses = next(iter(saved.history.values())).train if saved.history else []
        for module in found._modules.values():
            module.eval()
        return found
