"""The paper's tables on photographs: one experiment for each data set, all alike, each beside the paper's numbers.

The settings were chosen on the validation classes of CIFAR-FS, and are the same for all sets.
"""

from dataclasses import dataclass, field
from typing import Any

from udtw.errors import OptionError
from udtw.experiments.document import Document
from udtw.experiments.image_report import Paper, Results, report_accuracies
from udtw.experiments.image_runs import Settings, make_units, prepare, work
from udtw.experiments.units import Unit
from udtw.images.datasets import DATASETS

SUPERVISED: Settings = {"n_steps": 300, "n_way": 10}
UNSUPERVISED: Settings = {"n_steps": 150}
MODES = {"supervised": SUPERVISED, "unsupervised": UNSUPERVISED}


@dataclass(frozen=True)
class ImageExperiment:
    """An experiment of `udtw.experiments.registry`: every comparator on one data set, in the modes of the paper."""

    name: str
    paper: Paper
    modes: dict[str, Settings] = field(default_factory=lambda: dict(MODES))
    BACKBONES: tuple[str, ...] = ("dinov3",)
    SEEDS: tuple[int, ...] = (0, 1, 2)
    KEEPS_FILES: bool = True

    @property
    def TITLE(self) -> str:
        return f"{self.name}: few-shot image classification"

    def units(
        self, *, datasets: list[str] | None, seeds: list[int], quick: bool, data_dir: str | None,
        backbones: list[str], per_class: int | None,
    ) -> list[Unit]:  # fmt: skip
        """One unit a backbone, mode, method and seed; ``datasets`` may be ``["synthetic"]``, which needs no files."""
        chosen = datasets or [self.name]
        if not set(chosen) <= {self.name, "synthetic"}:
            raise OptionError(f"This experiment runs on {self.name} or synthetic; got {datasets}.")
        return [
            unit
            for name in chosen
            for unit in make_units(
                self.name, name, seeds, self.modes, backbones=backbones, per_class=per_class, quick=quick
            )
        ]

    def prepare(self, units: list[Unit], data_dir: str | None, folder: str, n_jobs: int = 1) -> None:
        prepare(units, data_dir, folder, n_jobs)

    def work(self, unit: Unit, data_dir: str | None, folder: str | None = None) -> dict[str, Any]:
        return work(unit, data_dir, folder)

    def report(self, results: Results, document: Document) -> None:
        report_accuracies(results, document, self.paper)


TABLES = {name: ImageExperiment(name, data_set.paper) for name, data_set in DATASETS.items() if data_set.paper}
"""One experiment for each data set that the paper has figures for."""
