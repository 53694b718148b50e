"""The experiments by name."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from experiments import (
    barycenters,
    calibration,
    clutter,
    ecg5000,
    faults,
    omniglot,
    skeleton_faults,
    ucr,
    ucr_default,
)
from experiments.experiment import Experiment, Results
from experiments.image_tables import IMAGE_TABLES
from experiments.skeleton_tables import SKELETON_TABLES
from experiments.units import Unit
from udtw.demo.document import Document
from udtw.errors import OptionError

EXPERIMENTS: dict[str, Experiment] = {
    entry.name: entry
    for entry in (
        ucr.EXPERIMENT,
        ucr_default.EXPERIMENT,
        faults.EXPERIMENT,
        ecg5000.EXPERIMENT,
        barycenters.EXPERIMENT,
        calibration.EXPERIMENT,
        *(table.experiment for table in SKELETON_TABLES),
        skeleton_faults.EXPERIMENT,
        omniglot.EXPERIMENT,
        *(table.experiment for table in IMAGE_TABLES),
        clutter.EXPERIMENT,
    )
}
"""Name to experiment."""


def experiment(name: str) -> Experiment:
    """The experiment of that name."""
    if name not in EXPERIMENTS:
        raise OptionError(f"There is no experiment {name!r}; there are {', '.join(EXPERIMENTS)}.")
    return EXPERIMENTS[name]


def protocol_name(name: str, protocol: str) -> str:
    """The experiment that is a protocol of another one."""
    protocols = {"seeds": ucr.NAME, "default": ucr_default.NAME}
    if name != ucr.NAME or protocol not in protocols:
        raise OptionError(f"--protocol is for ucr, and one of {', '.join(protocols)}; got {protocol!r} for {name}.")
    return protocols[protocol]


def units_of(entry: Experiment, *, backbones: list[str] | None, per_class: int | None, **options: Any) -> list[Unit]:
    """The units of an experiment; options that only images have are refused for the others."""
    if entry.backbones:
        return entry.units(**options, backbones=backbones or list(entry.backbones), per_class=per_class)
    if backbones is not None or per_class is not None:
        raise OptionError("--backbones and --per-class are for experiments on images.")
    return entry.units(**options)


def work_of(entry: Experiment, data_dir: str | None, folder: Path) -> Callable[[Unit], dict[str, Any]]:
    """The function ``work`` with all arguments but the unit; ``folder`` is that of the experiment's results."""
    if entry.keeps_files:
        return partial(entry.work, data_dir=data_dir, folder=str(folder))
    return partial(entry.work, data_dir=data_dir)


def name_of(unit: Unit) -> str | None:
    """The experiment that a unit belongs to; None if it is not in the table."""
    of = unit.experiment
    fitting = [name for name in EXPERIMENTS if of == name or of.startswith(f"{name}-")]
    return max(fitting, key=len, default=None)


def write_report(name: str, results: Results, folder: Path) -> Path:
    """Write report.md and report.html of an experiment; returns the path of the latter."""
    entry = experiment(name)
    document = Document(entry.title)
    entry.report(results, document)
    return document.write(folder)
