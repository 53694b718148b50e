"""The experiments by name, and what each of their modules offers."""

import importlib
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from udtw.errors import OptionError
from udtw.experiments.document import Document
from udtw.experiments.units import Unit

EXPERIMENTS: dict[str, str] = {
    "ucr": "udtw.experiments.ucr",
    "ecg5000": "udtw.experiments.ecg5000",
    "barycenters": "udtw.experiments.barycenters",
    "utd-mhad": "udtw.experiments.utd_mhad",
    "ntu60": "udtw.experiments.ntu60",
    "ntu120": "udtw.experiments.ntu120",
    "kinetics": "udtw.experiments.kinetics",
}
"""Name to module. The units of an experiment carry its name, alone or followed by "-" and a part."""

SEEDS = [0, 1, 2]
"""For experiments that do not say which seeds they want."""


class Experiment(Protocol):
    """What a module of `EXPERIMENTS` offers.

    It may also have ``SEEDS``, the seeds of a full run, and ``CHECKPOINTS = True``: then ``work`` takes a further
    argument ``checkpoint_dir``, where a long unit keeps what it needs to go on after an interruption.
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
    return importlib.import_module(EXPERIMENTS[name])


def seeds_of(module: Experiment) -> list[int]:
    return list(getattr(module, "SEEDS", SEEDS))


def work_of(module: Experiment, data_dir: str | None, folder: Path) -> Callable[[Unit], dict[str, Any]]:
    """The module's ``work`` with all arguments but the unit; ``folder`` is that of the experiment's results."""
    if getattr(module, "CHECKPOINTS", False):
        return partial(module.work, data_dir=data_dir, checkpoint_dir=str(folder / "checkpoints"))  # type: ignore[call-arg]
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
