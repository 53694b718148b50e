"""CIFAR-FS: every comparator, with and without labels, by the paper's recipe and by ours, and what each change brings.

The settings were chosen on the 16 validation classes; β and the gain of the SigmaNet on 16 of the training classes.
"""

from udtw.errors import OptionError
from udtw.experiments.document import Document
from udtw.experiments.image_report import Results, report_accuracies
from udtw.experiments.image_runs import Settings, changed, make_units, prepare, work
from udtw.experiments.image_tables import MODES
from udtw.experiments.units import Unit
from udtw.images.datasets import data_set

__all__ = ["BACKBONES", "KEEPS_FILES", "TITLE", "prepare", "report", "units", "work"]

TITLE = "CIFAR-FS: few-shot image classification"
NAME = "cifar-fs"
BACKBONES = ["dinov3"]
KEEPS_FILES = True
PAPER = data_set(NAME).paper
CHANGES: dict[str, Settings] = {
    "snake order": {"order": "snake"},
    "Hilbert order": {"order": "hilbert"},
    "the paper's (d² − δ)² + βΩ": {"objective": "similarity"},
    "the same with β = 0.1 and without the gain": {"objective": "similarity", "beta": 0.1, "sigma_gain": 1.0},
    "every support by itself": {"matching": "support"},
    "β = 0": {"beta": 0.0},
    "β = 0.1": {"beta": 0.1},
    "the SigmaNet sees the unit tokens as they are": {"sigma_gain": 1.0},
}
"""What differs from the usual recipe, one at a time: uDTW, supervised, the first seed."""


def units(
    *, datasets: list[str] | None, seeds: list[int], quick: bool, data_dir: str | None, backbones: list[str],
    per_class: int | None,
) -> list[Unit]:  # fmt: skip
    """One unit a backbone, mode, method and seed, and those with changes of the recipe."""
    chosen = datasets or [NAME]
    if not set(chosen) <= {NAME, "synthetic"}:
        raise OptionError(f"This experiment runs on {NAME} or synthetic; got {datasets}.")
    found = []
    for name in chosen:
        usual = make_units(NAME, name, seeds, MODES, backbones=backbones, per_class=per_class, quick=quick)
        first = [u for u in usual if (u.seed, u.method, u.options["mode"]) == (seeds[0], "udtw", "supervised")]
        found += usual
        for label, settings in CHANGES.items():
            found += changed(first, label, settings)
    return found


def report(results: Results, document: Document) -> None:
    report_accuracies(results, document, PAPER)
