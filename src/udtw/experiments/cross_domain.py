"""Cross-domain: trained on miniImageNet without labels, tested on birds, cars, cotton and soy that it never saw."""

from udtw.errors import OptionError
from udtw.experiments.document import Document
from udtw.experiments.image_report import Results, report_accuracies
from udtw.experiments.image_runs import make_units, prepare, work
from udtw.experiments.image_tables import UNSUPERVISED
from udtw.experiments.units import Unit
from udtw.images.datasets import DATASETS

__all__ = ["BACKBONES", "KEEPS_FILES", "TITLE", "prepare", "report", "units", "work"]

TITLE = "Cross-domain: trained on miniImageNet without labels"
NAME, SOURCE = "cross-domain", "miniimagenet"
BACKBONES = ["dinov3"]
KEEPS_FILES = True
PAPER = {name: row.paper["cross-domain"] for name, row in DATASETS.items() if "cross-domain" in row.paper}


def units(
    *, datasets: list[str] | None, seeds: list[int], quick: bool, data_dir: str | None, backbones: list[str],
    per_class: int | None,
) -> list[Unit]:  # fmt: skip
    """One unit a target, method and seed. ``datasets``: the targets, or "SOURCE>TARGET" for another source."""
    found = []
    for name in datasets or list(PAPER):
        source, arrow, target = name.rpartition(">")
        if arrow and not (source and target):
            raise OptionError(f"A pair of data sets is SOURCE>TARGET; got {name!r}.")
        made = make_units(
            NAME, target, seeds, {"unsupervised": UNSUPERVISED}, backbones=backbones, per_class=per_class, quick=quick
        )
        for unit in made:
            found.append(Unit(NAME, target, unit.method, unit.seed, unit.options | {"source": source or SOURCE}))
    return found


def report(results: Results, document: Document) -> None:
    for target in sorted({unit.dataset for unit, _ in results}):
        mine = [(unit, result) for unit, result in results if unit.dataset == target]
        for source in sorted({unit.options["source"] for unit, _ in mine}):
            document.text(f"## {target}, trained on {source}")
            paper = PAPER.get(target, {}) if source == SOURCE else {}
            chosen = [(unit, result) for unit, result in mine if unit.options["source"] == source]
            report_accuracies(chosen, document, {"cross-domain": paper})
