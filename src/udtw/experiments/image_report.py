"""Tables of the image experiments, beside the paper's own numbers."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from udtw.experiments.document import Document
from udtw.experiments.image_runs import METHODS
from udtw.experiments.intervals import over_seeds
from udtw.experiments.units import Unit
from udtw.images.datasets import settings_of

Results = list[tuple[Unit, dict[str, Any]]]
Paper = Mapping[str, Mapping[str, Sequence[float]]]
"""Mode, then method, to the numbers of the settings."""

NOTE = (
    "Mean accuracy in %. With several training seeds ± is the 95 % interval over seeds (Student's t), with one it is "
    "that over the test episodes, which are the same for all methods. The paper's numbers, with DINOv3 tokens, are in "
    "brackets."
)


def report_accuracies(results: Results, document: Document, paper: Paper) -> None:
    """A table for each data set, backbone and mode: methods down, settings across; then the changes of the recipe."""
    for group in sorted({_group(unit) for unit, _ in results}):
        dataset, mode, backbone = group[:3]
        mine = [(unit, result) for unit, result in results if _group(unit) == group]
        usual = [(u, r) for u, r in mine if "changes" not in u.options]
        columns = {f"{s.n_way}-way {s.n_shot}-shot": f"{s.n_way}-{s.n_shot}" for s in settings_of(dataset, mode)}
        title = f"{dataset}, {mode}, {short(backbone)}" + (f", {group[3]} images a class" if group[3] else "")
        printed = paper.get(mode, {}) if dataset != "synthetic" else {}
        document.table(title, ["comparator", *columns], _rows(usual, columns, printed), _note(usual))
        differences = _differences(usual, columns)
        if differences:
            document.table(f"{title}: uDTW minus the other, in points", ["other", *columns], differences)
        report_correlations(title, usual, document)
        names = sorted({u.options["changes"] for u, _ in mine if "changes" in u.options})
        if names:
            compared = {(u.method, u.seed) for u, _ in mine if "changes" in u.options}
            rows = [
                [METHODS[method], "the usual recipe" if name is None else name, *_cells(found, columns)]
                for method in METHODS
                for name in (None, *names)
                if (
                    found := [
                        r
                        for u, r in mine
                        if u.method == method and u.options.get("changes") == name and (method, u.seed) in compared
                    ]
                )
            ]
            document.table(f"{title}: what changes of the recipe bring", ["comparator", "change", *columns], rows)


def report_correlations(title: str, results: Results, document: Document) -> None:
    """Is uncertainty attention in reverse? Spearman's ρ of σ with each map, mean over novel images and seeds."""
    found: dict[str, list[float]] = {}
    for _, result in results:
        for name, (mean, _) in result.get("correlations", {}).items():
            found.setdefault(name, []).append(mean)
    if found:
        document.table(
            f"{title}: rank correlation of uncertainty within an image",
            ["with", "ρ (mean over seeds)", "lowest", "highest"],
            [[name, f"{np.mean(v):+.2f}", f"{min(v):+.2f}", f"{max(v):+.2f}"] for name, v in found.items()],
            "Negative: uncertainty behaves as reverse attention. Contrast is how far a token lies from the mean token "
            "of its image.",
        )


def short(backbone: str) -> str:
    """A backbone's spec without the folders of a path."""
    kind, colon, rest = backbone.partition(":")
    if kind not in ("onnx", "hf"):
        return backbone
    path, mark, output = rest.partition("#")
    return f"{kind}{colon}{path.rsplit('/', 1)[-1]}{mark}{output}"


def _group(unit: Unit) -> tuple[str, str, str, int, int, str]:
    """What units must agree in to be seeds of each other, or to be compared; 0 images a class are all."""
    o = unit.options
    mode = "cross-domain" if "source" in o else o["mode"]
    return unit.dataset, mode, o["backbone"], o["per_class"] or 0, o["n_episodes"], o.get("source", "")


def _note(results: Results) -> str:
    seeds = sorted({unit.seed for unit, _ in results})
    episodes = sorted({unit.options["n_episodes"] for unit, _ in results})
    return f"{NOTE} Seeds {seeds}, {episodes} episodes."


def _rows(results: Results, columns: Mapping[str, str], paper: Mapping[str, Sequence[float]]) -> list[list[Any]]:
    rows = []
    for method, label in METHODS.items():
        cells = _cells([result for unit, result in results if unit.method == method], columns)
        theirs: Sequence[float | None] = paper.get(method, [None] * len(columns))
        if any(cells) or method in paper:
            rows.append([label, *(c if p is None else f"{c or '–'} ({p})" for c, p in zip(cells, theirs, strict=True))])
    return rows


def _cells(results: list[dict[str, Any]], columns: Mapping[str, str]) -> list[str | None]:
    cells: list[str | None] = []
    for key in columns.values():
        found = [result[key] for result in results if key in result]
        if len(found) == 1:
            cells.append(f"{100 * found[0]['mean']:.1f} ± {100 * found[0]['half_width']:.1f}")
        else:
            cells.append(over_seeds([one["mean"] for one in found]) if found else None)
    return cells


def _differences(results: Results, columns: Mapping[str, str]) -> list[list[Any]]:
    by_seed = {(unit.method, unit.seed): result for unit, result in results}
    seeds = sorted({unit.seed for unit, _ in results})
    rows = []
    for other, label in METHODS.items():
        pairs = [(by_seed.get(("udtw", seed)), by_seed.get((other, seed))) for seed in seeds]
        both = [(ours, theirs) for ours, theirs in pairs if ours and theirs]
        if other != "udtw" and both:
            found = [
                [a[key]["mean"] - b[key]["mean"] for a, b in both if key in a and key in b] for key in columns.values()
            ]
            rows.append([label, *(over_seeds(one) if one else None for one in found)])
    return rows
