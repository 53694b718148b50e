"""Say where the modules of version 0.2 went when one of them is imported."""

import sys
from importlib.abc import MetaPathFinder
from typing import Any

MOVED = {
    "udtw.calibration": "udtw.Calibration and udtw.calibrate",
    "udtw.distribution": "udtw.PathDistribution",
    "udtw.experiments": "the package experiments of the repository (python -m experiments NAME)",
    "udtw.fewshot.baselines": "udtw.fewshot.comparators",
    "udtw.fewshot.ContrastiveTask": "udtw.fewshot.contrastive.ContrastiveTask",
    "udtw.fewshot.DictionaryTask": "udtw.fewshot.dictionary.DictionaryTask",
    "udtw.fewshot.EpisodicTask": "udtw.fewshot.tasks.EpisodicTask",
    "udtw.images.backbones.efficientnet": "udtw.images.backbones",
    "udtw.images.backbones.sift": "udtw.images.backbones",
    "udtw.images.deletion": "the module experiments.deletion of the repository",
    "udtw.images.deletion_curves": "experiments.deletion.deletion_curves of the repository",
    "udtw.images.DeletionCurves": "experiments.deletion.DeletionCurves of the repository",
    "udtw.images.datasets.omniglot": "udtw.images.datasets.layouts.find_omniglot and class_splits.split_omniglot",
    "udtw.images.datasets.omniglot_runs": "experiments.omniglot_runs of the repository",
    "udtw.images.datasets.runs_as_images": "experiments.omniglot_runs of the repository",
    "udtw.images.datasets.settings_of": "experiments.image_settings of the repository",
    "udtw.images.order": "udtw.images.projection",
    "udtw.images.recipe": "udtw.images.ImageRecipe",
    "udtw.inputs": "udtw.align, which checks its inputs",
    "udtw.kernels": "udtw.available_backends and the option backend",
    "udtw.matches": "udtw.Matches",
    "udtw.metrics": "udtw.Metric, udtw.get_metric and udtw.register_metric",
    "udtw.plots.deletion": "the module experiments.deletion of the repository",
    "udtw.plots.plot_deletion": "experiments.deletion.plot_deletion of the repository",
    "udtw.skeleton.joint_features": "udtw.skeleton.encoder",
    "udtw.skeleton.sides": "udtw.skeleton.confidence",
    "udtw.timeseries.corruption": "udtw.data.faults",
    "udtw.timeseries.pretraining": "the module experiments.pretraining of the repository",
}
"""Module of version 0.2, or name in a package, to what replaces it."""


class MovedFinder(MetaPathFinder):
    """Raise an error that names the replacement of a module that moved."""

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> None:
        """Raise `ModuleNotFoundError` for a module in `MOVED`; leave all others to the other finders."""
        if fullname in MOVED:
            # Without ``name``: ``from package import name`` ignores an error that names what it looks for.
            raise ModuleNotFoundError(f"{fullname} moved in version 0.3; use {MOVED[fullname]} instead.")


def install() -> None:
    """Add the finder after all others, once."""
    if not any(isinstance(finder, MovedFinder) for finder in sys.meta_path):
        sys.meta_path.append(MovedFinder())
