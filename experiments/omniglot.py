"""Omniglot without labels: characters of novel alphabets, and the 20 official 20-way one-shot runs.

The model is trained to tell augmented drawings apart; the settings were chosen on the validation alphabets.
"""

from typing import Any

import numpy as np

from experiments import image_runs
from experiments.experiment import Experiment, Results, chosen_datasets, over_seeds
from experiments.image_report import report_accuracies, short
from experiments.image_runs import METHODS, Settings, make_units, tokens_folder
from experiments.omniglot_runs import omniglot_runs, runs_as_images
from experiments.published import IMAGES
from experiments.units import Unit
from udtw.demo.document import Document
from udtw.images import ImageRecipe, ImageRecognizer, TokenSet, embed, load_backbone, open_tokens

NAME, RUNS = "omniglot", "omniglot-runs"
MODES: dict[str, Settings] = {"unsupervised": {"n_steps": 150, "dim": 64, "learning_rate": 3e-3}}


def units(
    *, datasets: list[str] | None, seeds: list[int], quick: bool, data_dir: str | None, backbones: list[str],
    per_class: int | None,
) -> list[Unit]:  # fmt: skip
    """Return a unit for each backbone, method and seed."""
    chosen_datasets(datasets, [NAME])
    return make_units(NAME, NAME, seeds, MODES, backbones=backbones, per_class=per_class, quick=quick)


def prepare(units: list[Unit], data_dir: str | None, folder: str, n_jobs: int = 1) -> None:
    """Extract the tokens of the training and novel characters, and of the official runs."""
    image_runs.prepare(units, data_dir, folder, n_jobs)
    runs = runs_as_images(omniglot_runs(data_dir))
    for backbone in sorted({unit.options["backbone"] for unit in units}):
        embed(runs, load_backbone(backbone), _runs_folder(folder, backbone), n_jobs=n_jobs, progress=True)


def work(unit: Unit, data_dir: str | None = None, folder: str | None = None) -> dict[str, Any]:
    """Return the accuracies and errors of `judge` after training."""
    return image_runs.work(unit, data_dir, folder, judge)


def judge(recognizer: ImageRecognizer, unit: Unit, folder: str) -> dict[str, Any]:
    """Return accuracy on novel characters, and the errors in the official runs.

    The runs use characters of the evaluation alphabets. Some of these are training classes in the published split of
    the whole Omniglot; then the errors would be too low and are left out.
    """
    found = image_runs.accuracies(recognizer, unit, folder)
    train = image_runs.tokens_of(unit, "train", folder)
    if not any(name.startswith("images_evaluation") for name in train.names):
        found["run_errors"] = run_errors(recognizer, open_tokens(_runs_folder(folder, unit.options["backbone"])))
    return found


def run_errors(recognizer: ImageRecognizer, runs: TokenSet) -> list[float]:
    """Return the error rate in each official run: 20 drawings to classify, 20 characters with one example each."""
    found = []
    for run in range(len(runs) // 40):
        known, asked = (np.arange(first, first + 20) for first in (40 * run, 40 * run + 20))
        answers = recognizer.classify(runs, asked, known, runs.labels[known])
        found.append(float((answers != runs.labels[asked]).mean()))
    return found


def _runs_folder(folder: str, backbone: str) -> Any:
    return tokens_folder(folder, RUNS, "all", backbone, None)


def report(results: Results, document: Document) -> None:
    """Report accuracies beside the paper's, and the errors in the official runs."""
    report_accuracies(results, document, IMAGES[NAME])
    for backbone in sorted({unit.options["backbone"] for unit, _ in results}):
        rows = []
        for method, label in METHODS.items():
            errors = [
                float(np.mean(result["run_errors"]))
                for unit, result in results
                if (unit.method, unit.options["backbone"]) == (method, backbone) and "run_errors" in result
            ]
            if errors:
                rows.append([label, over_seeds(errors)])
        document.table(
            f"The 20 official runs, 20-way one-shot, {short(backbone)}: error in %",
            ["comparator", "error"],
            rows,
            "Published: people about 4.5, Bayesian program learning 3.3, a Siamese net 8, a plain ConvNet 13.5; all "
            "but the first trained on 964 characters, with labels or pen strokes.",
        )


EXPERIMENT = Experiment(
    NAME, "Omniglot: few-shot classification of characters without labels", units, work, report,
    keeps_files=True, backbones=("patches-grey",), recipe=ImageRecipe, prepare=prepare,
)  # fmt: skip
