"""Tables of the image experiments, beside the paper's figures."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from experiments.experiment import Results, over_seeds
from experiments.image_runs import METHODS
from experiments.image_settings import settings_of
from experiments.published import Rows
from experiments.units import Unit
from udtw.demo.document import Document

NOTE = (
    "Mean accuracy in %. With several training seeds, ± is the 95 % interval over seeds (Student's t), with one seed "
    "that over the test episodes, which are the same for all methods. The paper's figures, with DINOv3 tokens, are in "
    "brackets."
)


def report_accuracies(results: Results, document: Document, paper: Mapping[str, Rows]) -> None:
    """Report a table for each data set, backbone and mode (methods down, settings across), then changes of the recipe.

    ``paper`` has the published figures by mode and method.
    """
    for group in sorted({_group(unit) for unit, _ in results}):
        dataset, mode, backbone = group[:3]
        mine = [(unit, result) for unit, result in results if _group(unit) == group]
        usual = [(u, r) for u, r in mine if "changes" not in u.options]
        columns = {f"{s.n_way}-way {s.n_shot}-shot": f"{s.n_way}-{s.n_shot}" for s in settings_of(dataset, mode)}
        title = f"{dataset}, {mode}, {short(backbone)}" + (f", {group[3]} images per class" if group[3] else "")
        printed = paper.get(mode, {}) if dataset != "synthetic" else {}
        document.table(title, ["comparator", *columns], _rows(usual, columns, printed), _note(usual))
        differences = _differences(usual, columns)
        if differences:
            document.table(f"{title}: uDTW minus the other, in points", ["other", *columns], differences)
        report_correlations(title, usual, document)
        names = sorted({u.options["changes"] for u, _ in mine if "changes" in u.options})
        if names:
            compared = {(u.method, u.seed) for u, _ in mine if "changes" in u.options}
            seeds = [(u, r) for u, r in mine if (u.method, u.seed) in compared]
            rows = [
                [label, "the usual recipe" if name is None else name, *_cells(found, columns)]
                for name in (None, *names)
                for label, found in _variants([(u, r) for u, r in seeds if u.options.get("changes") == name])
            ]
            document.table(f"{title}: what changes of the recipe bring", ["comparator", "change", *columns], rows)


def report_correlations(title: str, results: Results, document: Document) -> None:
    """Report Spearman's ρ of σ with attention and contrast, as a mean over novel images and seeds."""
    found: dict[str, list[float]] = {}
    for _, result in results:
        for name, (mean, _) in result.get("correlations", {}).items():
            found.setdefault(name, []).append(mean)
    if found:
        document.table(
            f"{title}: rank correlation of uncertainty within an image",
            ["with", "ρ (mean over seeds)", "lowest", "highest"],
            [[name, f"{np.mean(v):+.2f}", f"{min(v):+.2f}", f"{max(v):+.2f}"] for name, v in found.items()],
            "Negative: uncertainty is low where attention is high. Contrast is the distance of a token to the mean "
            "token of its image.",
        )


def short(backbone: str) -> str:
    """Return a backbone's spec without the folders of a path."""
    kind, colon, rest = backbone.partition(":")
    if kind not in ("onnx", "hf"):
        return backbone
    path, mark, output = rest.partition("#")
    return f"{kind}{colon}{path.rsplit('/', 1)[-1]}{mark}{output}"


def _group(unit: Unit) -> tuple[str, str, str, int, int, str]:
    """Return what units must have in common to be compared; 0 images per class means all."""
    o = unit.options
    mode = "cross-domain" if "source" in o else o["mode"]
    return unit.dataset, mode, o["backbone"], o["per_class"] or 0, o["n_episodes"], o.get("source", "")


def _note(results: Results) -> str:
    seeds = sorted({unit.seed for unit, _ in results})
    episodes = sorted({unit.options["n_episodes"] for unit, _ in results})
    return f"{NOTE} Seeds {seeds}, {episodes} episodes."


def _rows(results: Results, columns: Mapping[str, str], paper: Rows) -> list[list[Any]]:
    rows = []
    for method, label in METHODS.items():
        theirs: Sequence[float | None] = paper.get(method, [None] * len(columns))
        own = _variants([(unit, result) for unit, result in results if unit.method == method])
        for name, found in own or ([(label, [])] if method in paper else []):
            cells = _cells(found, columns)
            rows.append([name, *(c if p is None else f"{c or '–'} ({p})" for c, p in zip(cells, theirs, strict=True))])
    return rows


def _variants(results: Results) -> list[tuple[str, Results]]:
    """Group results by method and settings, with a label.

    A folder may hold results of several settings, such as those of another version of this program. They are listed
    separately, and their labels say what differs.
    """
    found = []
    for method in METHODS:
        mine = [(unit, result) for unit, result in results if unit.method == method]
        kinds = sorted({unit.params for unit, _ in mine})
        shared = set(kinds[0]).intersection(*kinds) if kinds else set()
        for params in kinds:
            own = ", ".join(f"{name}={value}" for name, value in params if (name, value) not in shared)
            label = METHODS[method] if len(kinds) == 1 else f"{METHODS[method]} ({own or 'settings left as they were'})"
            found.append((label, [(unit, result) for unit, result in mine if unit.params == params]))
    return found


def _cells(results: Results, columns: Mapping[str, str]) -> list[str | None]:
    cells: list[str | None] = []
    for key in columns.values():
        found = [result[key] for _, result in results if key in result]
        if len(found) == 1:
            cells.append(f"{100 * found[0]['mean']:.1f} ± {100 * found[0]['half_width']:.1f}")
        else:
            cells.append(over_seeds([one["mean"] for one in found]) if found else None)
    return cells


def _differences(results: Results, columns: Mapping[str, str]) -> list[list[Any]]:
    every = _variants(results)
    ours = [(label, found) for label, found in every if found[0][0].method == "udtw"]
    rows: list[list[Any]] = []
    for other, theirs in every:
        for label, mine in ours if theirs[0][0].method != "udtw" else []:
            by_seed = {unit.seed: result for unit, result in theirs}
            both = [(result, by_seed[unit.seed]) for unit, result in mine if unit.seed in by_seed]
            if both:
                found = [[a[k]["mean"] - b[k]["mean"] for a, b in both if k in a and k in b] for k in columns.values()]
                name = other if len(ours) == 1 else f"{other}, from {label}"
                rows.append([name, *(over_seeds(one) if one else None for one in found)])
    return rows
