"""The experiments by name, and what each of their modules offers."""

import importlib
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from udtw.errors import OptionError
from udtw.experiments.document import Document
from udtw.experiments.units import Unit
from udtw.images.datasets import DATASETS

OF_THEIR_OWN = ("omniglot", "cifar-fs")
PHOTOGRAPHS = tuple(name for name, data_set in DATASETS.items() if data_set.paper and name not in OF_THEIR_OWN)
EXPERIMENTS: dict[str, str] = {
    "ucr": "udtw.experiments.ucr",
    "ecg5000": "udtw.experiments.ecg5000",
    "barycenters": "udtw.experiments.barycenters",
    "utd-mhad": "udtw.experiments.utd_mhad",
    "ntu60": "udtw.experiments.ntu60",
    "ntu120": "udtw.experiments.ntu120",
    "kinetics": "udtw.experiments.kinetics",
    "omniglot": "udtw.experiments.omniglot",
    "cifar-fs": "udtw.experiments.cifar_fs",
    **{name: f"udtw.experiments.image_tables:{name}" for name in PHOTOGRAPHS},
    "cross-domain": "udtw.experiments.cross_domain",
}
"""Name to module, or to "module:key of its TABLES".

Units carry the experiment's name, alone or followed by "-" and a part.
"""

SEEDS = [0, 1, 2]
"""For experiments that do not say which seeds they want."""


class Experiment(Protocol):
    """What a module of `EXPERIMENTS` offers.

    It may also have

    - ``SEEDS``, the seeds of a full run;
    - ``KEEPS_FILES = True``: then ``work`` takes a further argument ``folder``, that of the results, where a long unit
      keeps what it needs to go on after an interruption;
    - ``prepare(units, data_dir, folder, n_jobs)``, called once before the units: what they share, such as the tokens of
      a data set, is computed there;
    - ``BACKBONES``, of images: then ``units`` also takes ``backbones`` and ``per_class``.
    """

    TITLE: str

    def units(
        self, *, datasets: list[str] | None, seeds: list[int], quick: bool, data_dir: str | None
    ) -> list[Unit]: ...
    def work(self, unit: Unit, data_dir: str | None) -> dict[str, Any]: ...
    def report(self, results: list[tuple[Unit, dict[str, Any]]], document: Document) -> None: ...


def experiment(name: str) -> Experiment:
    """The module of that name."""
    if name not in EXPERIMENTS:
        raise OptionError(f"There is no experiment {name!r}; there are {', '.join(EXPERIMENTS)}.")
    module, _, key = EXPERIMENTS[name].partition(":")
    found: Any = importlib.import_module(module)
    return found.TABLES[key] if key else found


def units_of(module: Experiment, *, backbones: list[str] | None, per_class: int | None, **options: Any) -> list[Unit]:
    """The module's units; what only images know is refused for the others."""
    if hasattr(module, "BACKBONES"):
        of_images: Any = module
        return of_images.units(**options, backbones=backbones or list(of_images.BACKBONES), per_class=per_class)
    if backbones is not None or per_class is not None:
        raise OptionError("--backbones and --per-class are for experiments on images.")
    return module.units(**options)


def seeds_of(module: Experiment) -> list[int]:
    return list(getattr(module, "SEEDS", SEEDS))


def work_of(module: Experiment, data_dir: str | None, folder: Path) -> Callable[[Unit], dict[str, Any]]:
    """The module's ``work`` with all arguments but the unit; ``folder`` is that of the experiment's results."""
    if getattr(module, "KEEPS_FILES", False):
        return partial(module.work, data_dir=data_dir, folder=str(folder))  # type: ignore[call-arg]
    return partial(module.work, data_dir=data_dir)


def name_of(unit: Unit, known: Mapping[str, str] = EXPERIMENTS) -> str | None:
    """The experiment that a unit belongs to, None if it is none of these."""
    return next((name for name in known if unit.experiment == name or unit.experiment.startswith(f"{name}-")), None)


def write_report(name: str, results: list[tuple[Unit, dict[str, Any]]], folder: Path) -> Path:
    """Write report.md and report.html of an experiment; returns the path of the latter."""
    module = experiment(name)
    document = Document(module.TITLE)
    module.report(results, document)
    return document.write(folder)
