"""Tables of the skeleton experiments, beside the paper's own numbers."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from udtw.experiments.document import Document
from udtw.experiments.intervals import over_seeds
from udtw.experiments.skeleton_runs import METHODS
from udtw.experiments.units import Unit

Results = list[tuple[Unit, dict[str, Any]]]
Paper = Mapping[str, Mapping[str, Iterable[float]]]
"""Mode, then method, to the numbers of the columns."""

WAYS = {
    ("supervised", "alignment"): "Supervised",
    ("unsupervised", "codes"): "Unsupervised, by codes",
    ("unsupervised", "alignment"): "Unsupervised, by alignment",
}


def accuracies(results: Results, mode: str, way: str) -> dict[tuple[str, Any], list[float]]:
    """(method, n_train) to the accuracies of the seeds, in their order."""
    found: dict[tuple[str, Any], list[float]] = {}
    for unit, result in sorted(results, key=lambda pair: pair[0].seed):
        if unit.options["mode"] == mode and way in result:
            found.setdefault((unit.method, unit.options.get("n_train")), []).append(result[way]["mean"])
    return found


def one_table(document: Document, title: str, results: Results, note: str) -> None:
    """Methods down; supervised and unsupervised accuracies across."""
    columns = {name: accuracies(results, *key) for key, name in WAYS.items()}
    rows = [
        [METHODS[m], *(over_seeds(c[m, None]) if (m, None) in c else None for c in columns.values())]
        for m in METHODS
        if any((m, None) in c for c in columns.values())
    ]
    document.table(title, ["comparator", *columns], rows, note)


def report_by_size(paper: Paper, sizes: Sequence[int]) -> Callable[[Results, Document], None]:
    """The function ``report``: a table for each kind of training, training classes across, "ours (paper)" in it."""

    def report(results: Results, document: Document) -> None:
        for (mode, way), name in WAYS.items():
            found = accuracies(results, mode, way)
            printed = paper.get(mode, {}) if way != "alignment" or mode == "supervised" else {}
            rows = []
            for method, label in METHODS.items():
                theirs: list[float | None] = [*printed.get(method.partition("-")[0], [])] or [None] * len(sizes)
                if any((method, size) in found for size in sizes) or method in printed:
                    ours = [over_seeds(found[method, size]) if (method, size) in found else "–" for size in sizes]
                    rows.append([label, *(o if t is None else f"{o} ({t})" for o, t in zip(ours, theirs, strict=True))])
            title = f"{name}: accuracy in % with so many training classes; the paper's in brackets"
            document.table(title, ["", *map(str, sizes)], rows)

    return report


def against(
    results: Results, method: str = "udtw", way: tuple[str, str] = ("supervised", "alignment")
) -> list[list[Any]]:
    """Rows ``[other, mean difference, its 95 % interval]`` of ``method`` minus every other, paired by seed."""
    found = accuracies(results, *way)
    rows = []
    for other, label in METHODS.items():
        pair = found.get((method, None), []), found.get((other, None), [])
        if other != method and len(pair[0]) == len(pair[1]) > 1:
            rows.append([label, over_seeds([a - b for a, b in zip(*pair, strict=True)])])
    return rows
