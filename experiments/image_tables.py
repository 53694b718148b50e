"""The paper's tables on images: an entry for each table.

Settings were chosen on the validation classes of CIFAR-FS and are the same for all data sets; β and the gain of the
SigmaNet were chosen on 16 of its training classes. Omniglot, which has official runs of its own, is in
`experiments.omniglot`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from experiments.experiment import Experiment, Results, chosen_datasets
from experiments.image_report import report_accuracies
from experiments.image_runs import Settings, changed, make_units, prepare, work
from experiments.published import IMAGES, Rows
from experiments.units import Unit
from udtw.demo.document import Document
from udtw.errors import OptionError
from udtw.images import ImageRecipe

SUPERVISED: Settings = {"n_steps": 300, "n_way": 10}
UNSUPERVISED: Settings = {"n_steps": 150}
PHOTOGRAPHS = tuple(name for name in IMAGES if name not in ("cifar-fs", "omniglot"))
"""Data sets of photographs with published figures; all have the same settings."""


@dataclass(frozen=True)
class ImageTable:
    """An experiment that trains every method on a data set of images, in some modes."""

    name: str
    title: str
    published: Mapping[str, Rows]
    """The paper's figures by mode and method; with a ``source``, by test set and method."""
    modes: Mapping[str, Settings] = field(
        default_factory=lambda: {"supervised": SUPERVISED, "unsupervised": UNSUPERVISED}
    )
    """Modes of training with their settings."""
    changes: Mapping[str, Settings] = field(default_factory=dict)
    """Changes of the usual recipe by name, one at a time: uDTW, supervised, the first seed."""
    source: str | None = None
    """The data set to train on; by default the one that is tested."""
    backbones: tuple[str, ...] = ("dinov3",)

    @property
    def experiment(self) -> Experiment:
        """The entry of the registry."""
        return Experiment(
            self.name, self.title, self.units, work, self.report,
            keeps_files=True, backbones=self.backbones, recipe=ImageRecipe, prepare=prepare,
        )  # fmt: skip

    def units(
        self, *, datasets: list[str] | None, seeds: list[int], quick: bool, data_dir: str | None,
        backbones: list[str], per_class: int | None,
    ) -> list[Unit]:  # fmt: skip
        """Return a unit for each backbone, mode, method and seed, and those with changes of the recipe.

        ``datasets`` may be ``["synthetic"]``, which needs no files. With a ``source`` they are the data sets to test
        on, or "SOURCE>TARGET" for another source.
        """
        found = []
        for source, target in self._pairs(datasets):
            usual = make_units(
                self.name, target, seeds, dict(self.modes), backbones=backbones, per_class=per_class, quick=quick
            )
            if source is not None:
                usual = [replace(unit, params=unit.options | {"source": source}) for unit in usual]
            first = [u for u in usual if (u.seed, u.method, u.options["mode"]) == (seeds[0], "udtw", "supervised")]
            found += usual
            for label, settings in self.changes.items():
                found += changed(first, label, settings)
        return found

    def _pairs(self, datasets: list[str] | None) -> list[tuple[str | None, str]]:
        """Return pairs: the data set to train on, or None for the same, and the data set to test on."""
        if self.source is None:
            return [(None, name) for name in chosen_datasets(datasets, [self.name], ["synthetic"])]
        pairs: list[tuple[str | None, str]] = []
        for name in datasets or self.published:
            source, arrow, target = name.rpartition(">")
            if arrow and not (source and target):
                raise OptionError(f"A pair of data sets is SOURCE>TARGET; got {name!r}.")
            pairs.append((source or self.source, target))
        return pairs

    def report(self, results: Results, document: Document) -> None:
        """Report our accuracies beside the paper's."""
        if self.source is None:
            report_accuracies(results, document, self.published)
            return
        for target, source in sorted({(unit.dataset, unit.options["source"]) for unit, _ in results}):
            document.text(f"## {target}, trained on {source}")
            paper = self.published.get(target, {}) if source == self.source else {}
            mine = [(u, r) for u, r in results if (u.dataset, u.options["source"]) == (target, source)]
            report_accuracies(mine, document, {"cross-domain": paper})


IMAGE_TABLES = (
    ImageTable(
        "cifar-fs",
        "CIFAR-FS: few-shot image classification",
        IMAGES["cifar-fs"],
        changes={
            "snake order": {"order": "snake"},
            "Hilbert order": {"order": "hilbert"},
            "the paper's (d² − δ)² + βΩ": {"objective": "similarity"},
            "the same with β = 0.1 and without the gain": {"objective": "similarity", "beta": 0.1, "sigma_gain": 1.0},
            "every support by itself": {"matching": "support"},
            "β = 0": {"beta": 0.0},
            "β = 0.1": {"beta": 0.1},
            "the SigmaNet sees the unit tokens as they are": {"sigma_gain": 1.0},
        },
    ),
    *(ImageTable(name, f"{name}: few-shot image classification", IMAGES[name]) for name in PHOTOGRAPHS),
    ImageTable(
        "cross-domain",
        "Cross-domain: trained on miniImageNet without labels",
        {name: modes["cross-domain"] for name, modes in IMAGES.items() if "cross-domain" in modes},
        modes={"unsupervised": UNSUPERVISED},
        source="miniimagenet",
    ),
)
"""Each entry is an experiment of `udtw reproduce`."""
