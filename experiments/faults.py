"""Classification of UCR series with sensor faults: 1-NN by every metric, in equal budgets.

Series are drawn, normalized and split 50/25/25 as for `udtw reproduce ucr`; then every series gets one fault
(`udtw.data.add_faults`) and is normalized again, as a faulty recording would have been. Settings are chosen on
validation.
"""

from collections import defaultdict
from typing import Any

import numpy as np
from scipy.stats import rankdata, wilcoxon

from experiments.estimator_options import estimator_options
from experiments.experiment import Experiment, Results
from experiments.ucr import load_parts
from experiments.units import Unit
from udtw._engine.series_set import load_series
from udtw.data import add_faults, available_ucr, load_ucr, znormalize
from udtw.data.faults import FAULTS, STRENGTHS
from udtw.demo.document import Document
from udtw.plots import plot_critical_difference, plot_reliability
from udtw.timeseries import KNeighborsTimeSeriesClassifier

NAME = "faults"
MAX_SERIES, MAX_LENGTH, MAX_CLASSES = 160, 150, 20
OURS = "uDTW"
METHODS: dict[str, list[dict[str, Any]]] = {
    "DTW": [{"metric": "dtw", "band": band} for band in (None, 0.05, 0.1, 0.2)],
    "ADTW": [{"metric": "dtw", "warp_penalty": penalty} for penalty in (0.02, 0.1, 0.5, 2.0)],
    "sDTW": [{"metric": "soft_dtw", "gamma": gamma} for gamma in (0.01, 0.1, 1.0, 10.0)],
    "sDTW div.": [{"metric": "soft_dtw_divergence", "gamma": gamma} for gamma in (0.01, 0.1, 1.0, 10.0)],
    OURS: [{"metric": "udtw"}],
}
"""Method to the settings among which validation chooses. uDTW learns β, ω and its network, and has one setting."""
CONDITIONS: dict[str, tuple[str, str, bool]] = {
    "medium": ("mixed", "medium", True),
    "test only": ("mixed", "medium", False),
    "none": ("", "medium", True),
    "weak": ("mixed", "weak", True),
    "strong": ("mixed", "strong", True),
    **{kind: (kind, "medium", True) for kind in FAULTS},
}
"""Condition to the kind of faults (or none), their strength, and whether the training part has them too."""
MIXED = ("none", *STRENGTHS, "test only")


def units(*, datasets: list[str] | None, seeds: list[int], quick: bool, data_dir: str | None) -> list[Unit]:
    """Return all units, by seed and condition, so that an interrupted run has complete tables of fewer conditions."""
    names = datasets or [name for name in available_ucr(data_dir) if _small(name, data_dir)]
    conditions = list(CONDITIONS)[:2] if quick else list(CONDITIONS)
    return [
        Unit(NAME, name, method, seed, {"condition": condition})
        for seed in seeds
        for condition in conditions
        for name in names
        for method in METHODS
    ]


def _small(name: str, data_dir: str | None) -> bool:
    """Return whether the series are short and the classes few, so that the whole table takes hours on two cores."""
    whole = load_ucr(name, data_dir).all
    return int(whole.lengths.max()) <= MAX_LENGTH and len(np.unique(whole.y)) <= MAX_CLASSES


def work(unit: Unit, data_dir: str | None) -> dict[str, Any]:
    """Return accuracies of every setting, ``{"validation": [...], "test": [...]}``; for uDTW also examples with σ."""
    kind, strength, everywhere = CONDITIONS[unit.options["condition"]]
    rng = np.random.default_rng([unit.seed, 1])
    parts = []
    for number, (X, y) in enumerate(load_parts(unit.dataset, unit.seed, data_dir, MAX_SERIES)):
        hit = bool(kind) and (everywhere or number > 0)
        parts.append((znormalize(add_faults(X, kind, strength, rng)[0]).astype(np.float32) if hit else X, y))
    (X, y), *others = parts
    found: dict[str, Any] = {"validation": [], "test": []}
    for setting in METHODS[unit.method]:
        options = estimator_options(KNeighborsTimeSeriesClassifier, setting)
        model = KNeighborsTimeSeriesClassifier(random_state=unit.seed, **options).fit(X, y)
        for name, (new, truth) in zip(found, others, strict=True):
            found[name].append(float(model.score(new, truth)))
    if unit.method == OURS and unit.options["condition"] == "medium":
        found["examples"] = _examples(model, unit, data_dir)
    return found


def _examples(model: KNeighborsTimeSeriesClassifier, unit: Unit, data_dir: str | None) -> dict[str, Any]:
    """Return one test series with each kind of fault, the σ of its values (not of slopes), and the steps at fault."""
    X, _ = load_parts(unit.dataset, unit.seed, data_dir, MAX_SERIES)[2]
    found = {}
    for number, kind in enumerate(FAULTS):
        faulty, where = add_faults(X[number % len(X)][None], kind, "medium", unit.seed)
        series = znormalize(faulty).astype(np.float32)
        assert model.view_ is not None, "uDTW has one"
        variance = model.view_.of(load_series("X", series)).variances
        assert variance is not None, "uDTW has them"
        found[kind] = {"series": series[0], "sigma": np.sqrt(variance[0, :, 0]), "faulty": where[0]}
    return found


def chosen_scores(results: Results) -> dict[tuple[str, str], dict[str, float]]:
    """Return the test accuracy in % of the setting that is best on validation.

    The keys are (condition, method) and then the data set; values are means over seeds.
    """
    by_seed: dict[tuple[str, str], dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for unit, result in results:
        best = int(np.argmax(result["validation"]))
        by_seed[unit.options["condition"], unit.method][unit.dataset].append(100 * result["test"][best])
    return {which: {name: float(np.mean(v)) for name, v in sets.items()} for which, sets in by_seed.items()}


def report(results: Results, document: Document) -> None:
    """Report accuracies by condition, differences with tests, ranks, and pictures of what the network distrusts."""
    document.text(
        f"Accuracy of 1-NN in %. At most {MAX_SERIES} series per data set, split 50/25/25 by seed. Every series has "
        "one fault, but for “none”, and for “test only”, where the training series have none. Settings are chosen on "
        "validation: four for each rival, one for uDTW, which learns. Faults: bursts of noise over a fifth of the "
        "steps, spikes at one step in twenty, drop-outs (stuck at zero), drift of the gain; “medium” mixes them."
    )
    scores = chosen_scores(results)
    conditions = [one for one in (*MIXED, *FAULTS) if any(which[0] == one for which in scores)]
    tables: dict[str, tuple[list[str], np.ndarray]] = {}
    for condition in conditions:
        rows = [scores.get((condition, method), {}) for method in METHODS]
        names = sorted(set.intersection(*(set(row) for row in rows)))
        if names:  # only data sets that have results of all methods can be compared
            tables[condition] = names, np.array([[row[name] for name in names] for row in rows])
    if not tables:
        document.text("No data set has results of all methods yet.")
        return
    methods = list(METHODS)
    document.table(
        "Mean over data sets",
        ["", *tables],
        [
            *([method, *(f"{t[1][i].mean():.1f}" for t in tables.values())] for i, method in enumerate(methods)),
            ["data sets", *(len(t[0]) for t in tables.values())],
        ],
        note=f"Seeds: {', '.join(map(str, sorted({unit.seed for unit, _ in results})))}.",
    )
    ours = methods.index(OURS)
    rivals = [i for i, method in enumerate(methods) if i != ours]
    document.table(
        "uDTW minus each rival: mean, and p of the two-sided Wilcoxon signed-rank test over data sets",
        ["against", *tables],
        [[methods[i], *(_difference(t[1][ours] - t[1][i]) for t in tables.values())] for i in rivals],
    )
    if {"none", "test only"} <= tables.keys():
        both = sorted(set(tables["none"][0]) & set(tables["test only"][0]))
        lost = [
            np.mean([scores["none", method][name] - scores["test only", method][name] for name in both])
            for method in methods
        ]
        document.table(
            f"Points lost if the faults come after training, {len(both)} data sets",
            methods,
            [[f"{value:.1f}" for value in lost]],
        )
    main = "medium" if "medium" in tables else next(iter(tables))
    names, table = tables[main]
    ranks = rankdata(-table, axis=0)
    document.figure(
        plot_critical_difference(dict(zip(methods, table, strict=True))),
        f"Average ranks, condition “{main}”, {len(names)} data sets; bars join methods whose difference is not "
        "significant (Wilcoxon, Holm, 5 %).",
    )
    document.table("Average rank", methods, [[f"{rank:.2f}" for rank in ranks.mean(1)]])
    _distrust(document, {unit.dataset: result["examples"] for unit, result in results if "examples" in result})
    document.table(
        f"All data sets, condition “{main}”",
        ["", *methods],
        [[name, *(f"{value:.1f}" for value in table[:, k])] for k, name in enumerate(names)],
    )


def _distrust(document: Document, examples: dict[str, dict[str, Any]]) -> None:
    """Report how much larger σ is at faulty steps, and draw the data set with the median ratio."""
    if not examples:
        return
    local = [kind for kind in FAULTS if all(not np.all(one[kind]["faulty"]) for one in examples.values())]
    ratios = np.array([[_ratio(**one[kind]) for kind in local] for one in examples.values()])
    document.table(
        f"σ of the values at faulty steps over σ elsewhere, geometric mean over {len(examples)} data sets",
        local,
        [[f"{value:.2f}" for value in np.exp(np.log(ratios).mean(0))]],
    )
    overall = np.log(ratios).mean(1)
    name = list(examples)[int(np.argsort(overall)[len(overall) // 2])]
    document.figure(
        plot_reliability({kind: (one["series"], one["sigma"], one["faulty"]) for kind, one in examples[name].items()}),
        f"{name}, the data set with the median of these ratios: a test series with each kind of fault (gray: the steps "
        "at fault) and the σ of its values. The network learned it to tell classes apart; it need not be the level of "
        "the noise.",
    )


def _ratio(series: Any, sigma: Any, faulty: Any) -> float:
    sigma, faulty = np.asarray(sigma), np.asarray(faulty)
    return float(sigma[faulty].mean() / sigma[~faulty].mean())


def _difference(values: np.ndarray) -> str:
    p = wilcoxon(values).pvalue if np.any(values) else 1.0
    return f"{values.mean():+.1f} (p {p:.3f})"


EXPERIMENT = Experiment(NAME, "Classification with sensor faults", units, work, report, seeds=(0,))
