"""The paper's tables on photographs: one experiment a data set, all alike, each beside the paper's numbers.

The settings were chosen on the validation classes of CIFAR-FS, and are the same for all sets.
"""

from dataclasses import dataclass, field
from typing import Any

from udtw.errors import OptionError
from udtw.experiments.document import Document
from udtw.experiments.image_report import Paper, Results, report_accuracies
from udtw.experiments.image_runs import Settings, make_units, prepare, work
from udtw.experiments.units import Unit

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


def _both(euclidean: tuple[float, ...], soft_dtw: tuple[float, ...], udtw: tuple[float, ...]) -> dict[str, Any]:
    return {"protonet": euclidean, "soft_dtw": soft_dtw, "udtw": udtw}


MINIIMAGENET = ImageExperiment(
    "miniimagenet",
    {
        "supervised": _both((81.66, 92.56), (85.82, 95.00), (88.05, 95.59)),
        "unsupervised": _both((76.92, 91.21, 93.93, 94.47), (79.29, 92.96, 96.36, 96.96), (80.18, 93.16, 96.55, 97.13)),
    },
)
TIEREDIMAGENET = ImageExperiment(
    "tieredimagenet", {"supervised": _both((77.71, 88.49), (81.54, 92.37), (83.44, 93.07))}
)
CUB = ImageExperiment("cub", {"supervised": _both((72.00, 85.61), (84.17, 93.74), (87.77, 95.08))})
DOGS = ImageExperiment("dogs", {"supervised": _both((71.48, 86.31), (75.32, 89.97), (83.38, 93.58))})
CARS = ImageExperiment("cars", {"supervised": _both((68.34, 83.42), (82.58, 94.82), (90.45, 96.64))})
AIRCRAFT = ImageExperiment("aircraft", {"supervised": _both((62.58, 76.13), (74.02, 88.03), (83.89, 91.68))})
NABIRDS = ImageExperiment("nabirds", {"supervised": _both((71.75, 76.17), (81.19, 92.85), (85.72, 94.49))})
COTTON80 = ImageExperiment(
    "cotton80",
    {
        "supervised": _both((60.65, 71.07), (64.02, 71.40), (64.72, 75.47)),
        "unsupervised": _both((51.77, 60.73), (58.48, 69.27), (60.12, 72.30)),
    },
)
SOYLOCAL = ImageExperiment(
    "soylocal",
    {
        "supervised": _both((59.40, 67.63), (58.85, 71.43), (61.25, 72.67)),
        "unsupervised": _both((50.53, 58.60), (54.13, 64.30), (56.78, 64.83)),
    },
)
