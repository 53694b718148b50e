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
from experiments.alignments import comparison, joint
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
        comparison.EXPERIMENT,
        joint.EXPERIMENT,
        *(table.experiment for table in SKELETON_TABLES),
        skeleton_faults.EXPERIMENT,
        omniglot.EXPERIMENT,
        *(table.experiment for table in IMAGE_TABLES),
        clutter.EXPERIMENT,
    )
}
"""Name to experiment."""


def experiment(name: str) -> Experiment:
    """Return the experiment of that name."""
    if name not in EXPERIMENTS:
        raise OptionError(f"There is no experiment {name!r}; there are {', '.join(EXPERIMENTS)}.")
    return EXPERIMENTS[name]


def protocol_name(name: str, protocol: str) -> str:
    """Return the experiment that is a protocol of another one."""
    protocols = {"seeds": ucr.NAME, "default": ucr_default.NAME}
    if name != ucr.NAME or protocol not in protocols:
        raise OptionError(f"--protocol is for ucr, and one of {', '.join(protocols)}; got {protocol!r} for {name}.")
    return protocols[protocol]


def units_of(
    entry: Experiment, *, backbones: list[str] | None, per_class: int | None, pairs: int | None = None, **options: Any
) -> list[Unit]:
    """List the units of an experiment; options for images or for pairs are refused for other experiments."""
    if entry.draws_pairs:
        options["pairs"] = pairs
    elif pairs is not None:
        raise OptionError("--pairs is for alignments and joint.")
    if entry.backbones:
        return entry.units(**options, backbones=backbones or list(entry.backbones), per_class=per_class)
    if backbones is not None or per_class is not None:
        raise OptionError("--backbones and --per-class are for experiments on images.")
    return entry.units(**options)


def work_of(entry: Experiment, data_dir: str | None, folder: Path) -> Callable[[Unit], dict[str, Any]]:
    """Bind all arguments of ``work`` except the unit; ``folder`` holds the results of the experiment."""
    if entry.keeps_files:
        return partial(entry.work, data_dir=data_dir, folder=str(folder))
    return partial(entry.work, data_dir=data_dir)


def name_of(unit: Unit) -> str | None:
    """Return the experiment of a unit, or None if it is not in the table."""
    of = unit.experiment
    fitting = [name for name in EXPERIMENTS if of == name or of.startswith(f"{name}-")]
    return max(fitting, key=len, default=None)


def write_report(name: str, results: Results, folder: Path) -> Path:
    """Write report.md and report.html of an experiment; return the path of the latter."""
    entry = experiment(name)
    document = Document(entry.title)
    entry.report(results, document)
    return document.write(folder)
