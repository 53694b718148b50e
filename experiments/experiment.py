"""What an experiment consists of. A table of the paper is one such entry; `experiments.registry` lists them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import stats

from experiments.units import Unit
from udtw.demo.document import Document
from udtw.errors import OptionError
from udtw.fewshot.recipe import FewShotRecipe

Results = list[tuple[Unit, dict[str, Any]]]
"""Finished units with their results."""


@dataclass(frozen=True)
class Experiment:
    """Functions that make the units of an experiment, compute one of them, and report the results."""

    name: str
    """Name of the command line; units have it too, alone or followed by "-" and a part."""
    title: str
    units: Callable[..., list[Unit]]
    """``units(datasets=, seeds=, quick=, data_dir=)``; of images also ``backbones=`` and ``per_class=``."""
    work: Callable[..., dict[str, Any]]
    """``work(unit, data_dir=)`` returns the result of a unit; also takes ``folder=`` if ``keeps_files``."""
    report: Callable[[Results, Document], None]
    """``report(results, document)`` adds texts, tables and figures."""
    seeds: Sequence[int] = (0, 1, 2)
    """Seeds of a full run."""
    keeps_files: bool = False
    """Whether long units write checkpoints into the folder of results, to resume after an interruption."""
    backbones: tuple[str, ...] = ()
    """Of images: the backbones that extract the tokens by default."""
    draws_pairs: bool = False
    """Whether ``units`` also takes ``pairs=``, the number of pairs of each row and seed."""
    recipe: type[FewShotRecipe] | None = None
    """The recipe whose settings the units have, for a run with its ``preset``."""
    prepare: Callable[..., None] | None = None
    """``prepare(units, data_dir, folder, n_jobs)`` is called once before the units and computes what they share."""


def with_preset(entry: Experiment, units: Sequence[Unit], preset: str, quick: bool = False) -> list[Unit]:
    """Return the units with a preset of their recipe in place of their own settings; ``quick`` keeps small networks."""
    if entry.recipe is None:
        raise OptionError(f"--preset is for experiments on images and skeletons; got {preset!r} for {entry.name}.")
    if preset not in entry.recipe.PRESETS:
        raise OptionError(f"preset must be one of {', '.join(entry.recipe.PRESETS)}; got {preset!r}.")
    taken = set() if quick else set(entry.recipe.PRESETS[preset])
    usual = [unit for unit in units if "changes" not in unit.options]
    kept = [{name: value for name, value in unit.options.items() if name not in taken} for unit in usual]
    return [replace(unit, params=own | {"preset": preset}) for unit, own in zip(usual, kept, strict=True)]


def chosen_datasets(datasets: list[str] | None, known: Sequence[str], also: Sequence[str] = ()) -> list[str]:
    """Return the data sets to run on: the requested ones, which must be known or in ``also``; by default all known."""
    if datasets is not None and not set(datasets) <= {*known, *also}:
        names = dict.fromkeys((*known, *also))
        raise OptionError(f"This experiment runs on {' or '.join(names)}; got {datasets}.")
    return datasets or list(known)


def over_seeds(values: Sequence[float]) -> str:
    """Format ``mean ± half width`` of the 95 % confidence interval of the mean over seeds (Student's t), in percent."""
    mean = 100 * float(np.mean(values))
    if len(values) < 2:
        return f"{mean:.1f}"
    return f"{mean:.1f} ± {100 * stats.t.ppf(0.975, len(values) - 1) * stats.sem(values):.1f}"
