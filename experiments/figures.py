"""The figures of the paper: ``python -m experiments figures NAME``.

Series are those of the UCR archive in ``--data-dir``, or generated ones where the paper also has generated ones; images
are generated unless ``--model`` and ``--tokens`` say otherwise. uDTW has the paper's weighting. Every picture is drawn
from a seed, none is chosen by its look.
"""

import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from numpy.typing import NDArray

import udtw
from experiments import barycenters, ecg5000
from experiments.estimator_options import estimator_options
from udtw.cli import options
from udtw.cli.output import note, save_figure
from udtw.data import add_faults, cylinder_bell_funnel, load_ucr, synthetic_control, znormalize
from udtw.errors import OptionError
from udtw.fewshot import EpisodeSampler
from udtw.images import ImageRecipe, ImageRecognizer, embed, load_backbone, load_images, make_images, open_tokens
from udtw.plots import plot_barycenter, plot_forecast, plot_match_pair
from udtw.plots.image_match import ImageMatch, check_match, patch_centres
from udtw.plots.image_views import describe_matches, show_components, show_uncertainty
from udtw.plots.style import (
    FONT,
    STD_COLORS,
    draw_coupling,
    draw_mode,
    hide_box,
    new_figure,
    set_power_ticks,
    set_std_ticks,
    std_norm,
)
from udtw.timeseries import SequenceForecaster, barycenter

Array = NDArray[np.float64]
PATH_GAMMAS = (0.01, 0.1)
PATH_POWER = 0.1
"""Couplings are drawn to this power, as in the paper, so that improbable paths are visible."""
ON_PATH = 1e-3
"""Probability of a match from which its σ is drawn."""
SIGMA_BOUNDS = (0.5, 2.0)
BETAS = (0.02, 0.1, 0.5)
BETA = 0.1
"""β of the barycenters: with 1, the paper's, no σ exceeds the noise of these series."""
WEIGHTS = (0.0, 0.25, 0.5, 0.75, 1.0)
"""Weights λ of the second of two series whose means are drawn."""
LOSSES = ("euclidean", "soft_dtw", ecg5000.PAPER)
QUICK_EPOCHS, QUICK_ITERATIONS = 5, 5
N_PATCHES = 5
IMAGE_SETTINGS: dict[str, Any] = {"dim": 32, "n_query": 2, "gamma": 0.1, "order": "set"}


@dataclass(frozen=True)
class Sources:
    """What figures are drawn from."""

    data_dir: str | None = None
    model: Path | None = None
    tokens: Path | None = None
    seed: int = 0
    quick: bool = False

    def series(self, name: str) -> tuple[Array, Any]:
        """Return standardized series (n, T) of a data set and their labels."""
        if self.data_dir is None and name in GENERATORS:
            data = GENERATORS[name](n_per_class=barycenters.MEMBERS, random_state=self.seed)
        else:
            data = load_ucr(name, self.data_dir).train
        return znormalize(np.asarray(data.X, float)), np.asarray(data.y)

    def of_one_class(self, name: str, count: int) -> Array:
        """Return series (count, T) of a class, both drawn by the seed."""
        X, y = self.series(name)
        rng = np.random.default_rng(self.seed)
        classes, counts = np.unique(y, return_counts=True)
        members = np.flatnonzero(y == rng.choice(classes[counts >= min(count, counts.max())]))
        return X[rng.permutation(members)[:count]]


GENERATORS: dict[str, Callable[..., Any]] = {"CBF": cylinder_bell_funnel, "SyntheticControl": synthetic_control}


def draw_paths(sources: Sources) -> dict[str, Figure]:
    """Draw soft-DTW and uDTW at two γ, and σ of the matches of uDTW with its histogram.

    The second series has a burst of noise, and the variances are estimated from the series, with σ about 1 as that of
    a SigmaNet.
    """
    pair = sources.of_one_class("CBF", 2)
    pair[1] = add_faults(pair[1:], "bursts", "strong", sources.seed)[0][0]
    rough = [np.sqrt(np.asarray(udtw.align(one, one, "estimate", "estimate").step_variances[0])) for one in pair]
    middle = np.exp(np.log(np.concatenate(rough)).mean())
    noise = [np.square((one / middle).clip(*SIGMA_BOUNDS)) for one in rough]
    figure = new_figure((9.2, 5.6), {})
    axes = figure.subplot_mosaic([["soft0", "soft1", "sigma"], ["u0", "u1", "histogram"]])
    for k, gamma in enumerate(PATH_GAMMAS):
        for name, variances, label in (("soft", (), "soft-DTW"), ("u", noise, "uDTW")):
            panel = axes[f"{name}{k}"]
            a = udtw.align(*pair, *variances, gamma=gamma, weighting="precision")
            drawn = draw_coupling(panel, a.coupling, PATH_POWER)
            draw_mode(panel, np.asarray(a.paths.mode()))
            panel.set_title(f"{label}, γ = {gamma:g}", fontsize=FONT)
            panel.set_xlabel("step of y", fontsize=FONT)
            panel.set_ylabel("step of x", fontsize=FONT)
            panel.tick_params(labelsize=FONT)
    coupling, sigma = np.asarray(a.coupling), np.sqrt(np.asarray(a.variance))
    norm = std_norm(sigma)
    image = axes["sigma"].imshow(np.where(coupling > ON_PATH, sigma, np.nan), cmap=STD_COLORS, norm=norm, aspect="auto")
    axes["sigma"].set_title(f"σ of matches with π* > {ON_PATH:g}, γ = {gamma:g}", fontsize=FONT)
    bar = figure.colorbar(image, ax=axes["sigma"])
    set_std_ticks(bar)
    below = [axes["u0"], axes["u1"]]
    bar = figure.colorbar(drawn, ax=below, location="bottom", aspect=50, label="coupling π* (line: likeliest path)")
    set_power_ticks(bar, PATH_POWER)
    edges = np.geomspace(*SIGMA_BOUNDS, 25)
    every, on_path = (np.histogram(sigma, edges, weights=w)[0] for w in (np.ones_like(sigma), coupling))
    axes["histogram"].stairs(every / every.sum(), edges, fill=True, color="#999999", alpha=0.6, label="all matches")
    axes["histogram"].stairs(on_path / on_path.sum(), edges, color="#D55E00", label="weighted by π*")
    axes["histogram"].set_xscale("log")
    axes["histogram"].set_xticks([0.5, 0.7, 1, 1.4, 2], ["0.5", "0.7", "1", "1.4", "2"])
    axes["histogram"].minorticks_off()
    axes["histogram"].set_xlabel("σ of match", fontsize=FONT)
    axes["histogram"].set_ylabel("share of matches", fontsize=FONT)
    axes["histogram"].legend(frameon=False, fontsize=FONT)
    hide_box(axes["histogram"])
    return {"paths": figure}


def draw_interpolation(sources: Sources) -> dict[str, Figure]:
    """Draw means of two series with weights 1 − λ and λ: Euclidean, soft-DTW, and uDTW for several β."""
    X, y = sources.series("CBF")
    rng = np.random.default_rng(sources.seed)
    pair = X[[int(rng.choice(np.flatnonzero(y == label))) for label in np.unique(y)[:2]]]
    most = QUICK_ITERATIONS if sources.quick else barycenters.MAX_ITER
    own: dict[str, Any] = {"gamma": 1.0, "weighting": "precision"}
    methods: dict[str, tuple[str, dict[str, Any]]] = {
        "Euclidean": ("euclidean", {}),
        "soft-DTW, γ = 1": ("soft_dtw", {"gamma": 1.0}),
        **{f"uDTW, γ = 1, β = {beta:g}": ("udtw", own | {"beta": beta}) for beta in BETAS},
    }
    figure = new_figure((2.5 * len(methods), 3.6), {})
    axes = figure.subplots(2, len(methods), sharex=True, sharey="row", height_ratios=[3, 1])
    colors: Any = ScalarMappable(Normalize(0, 1), "viridis")
    for column, (title, (metric, params)) in enumerate(methods.items()):
        above, below = axes[:, column]
        for weight in WEIGHTS:
            found = barycenter(pair, metric, weights=[1 - weight, weight], max_iter=most, **params)
            above.plot(found.mean, color=colors.to_rgba(weight), linewidth=1)
            if metric == "udtw":
                below.plot(np.sqrt(found.variance), color=colors.to_rgba(weight), linewidth=1)
        if metric != "udtw":
            below.text(0.5, 0.5, "none", transform=below.transAxes, ha="center", va="center", fontsize=FONT)
        above.set_title(title, fontsize=FONT)
        below.set_xlabel("step", fontsize=FONT)
        for panel in (above, below):
            hide_box(panel)
    axes[0, 0].set_ylabel("mean", fontsize=FONT)
    axes[1, 0].set_ylabel(r"$\sigma_\mu$", fontsize=FONT)
    figure.colorbar(colors, ax=axes, ticks=WEIGHTS, label="weight λ of the second series", aspect=30)
    return {"interpolation": figure}


def draw_barycenters(sources: Sources) -> dict[str, Figure]:
    """Draw means of a class of CBF and of SyntheticControl, by soft-DTW and uDTW (β = 0.1), at γ = 0.1, 1 and 10."""
    figures = {}
    most = QUICK_ITERATIONS if sources.quick else barycenters.MAX_ITER
    for name in GENERATORS:
        X = sources.of_one_class(name, barycenters.MEMBERS)
        params: dict[str, Any] = {"beta": BETA, "weighting": "precision"}
        means = {}
        for metric, label, more in (("soft_dtw", "soft-DTW", {}), ("udtw", "uDTW", params)):
            for gamma in barycenters.GAMMAS:
                means[f"{label}, γ = {gamma:g}"] = barycenter(X, metric, gamma=gamma, max_iter=most, **more)
        figures[f"barycenters-{name.lower()}"] = plot_barycenter(X, means)
    return figures


def draw_forecasts(sources: Sources) -> dict[str, Figure]:
    """Draw forecasts of the last 40 % of heartbeats by networks trained with three losses: a median case of each set.

    The case is the test series whose error by soft-DTW is the median.
    """
    figures = {}
    for name in ("ECG200", "ECG5000"):
        data = load_ucr(name, sources.data_dir)
        train, test = (np.asarray(part.X, float) for part in (data.train, data.test))
        cut = round(ecg5000.OBSERVED * train.shape[1])
        held = np.random.default_rng(sources.seed).permutation(len(train)) < len(train) // ecg5000.FOLDS
        found = {}
        for loss in LOSSES:
            own = ecg5000.COMMON | ecg5000.RECIPES[loss] | ({"max_epochs": QUICK_EPOCHS} if sources.quick else {})
            forecaster = SequenceForecaster(
                "udtw" if loss == ecg5000.PAPER else loss, random_state=sources.seed,
                **estimator_options(SequenceForecaster, own),
            )  # fmt: skip
            forecaster.fit(train[~held, :cut], train[~held, cut:], train[held, :cut], train[held, cut:])
            found[loss] = forecaster
        errors = np.square(found["soft_dtw"].predict(test[:, :cut]) - test[:, cut:]).mean(1)
        case = int(np.argsort(errors)[len(errors) // 2])
        past, future = test[case : case + 1, :cut], test[case : case + 1, cut:]
        interval = found[ecg5000.PAPER].predict_interval(past, ecg5000.BAND)
        figures[f"forecasts-{name.lower()}"] = plot_forecast(
            past, future, {ecg5000.LABELS[loss]: one.predict(past) for loss, one in found.items()},
            interval={ecg5000.LABELS[ecg5000.PAPER]: interval}, level=ecg5000.BAND,
            titles=[f"{name}, test series {case}: the median error of soft-DTW"], figsize=(7, 3),
        )  # fmt: skip
    return figures


def _images(sources: Sources, folder: str) -> tuple[ImageRecognizer, Any, Any]:
    """Return a trained model, the tokens of classes that it does not know, and their images."""
    if (sources.model is None) != (sources.tokens is None):
        raise OptionError("Pass --model and --tokens, or neither.")
    if sources.model is not None and sources.tokens is not None:
        tokens = open_tokens(sources.tokens)
        images = load_images(tokens.name, sources.data_dir or tokens.origin.get("data_dir"))
        return ImageRecognizer.load(sources.model), tokens.of_split("test"), images
    images = make_images(4 if sources.quick else 20, seed=sources.seed)
    embed(images, load_backbone("sift?image_size=64"), folder)
    tokens = open_tokens(folder)
    recipe = ImageRecipe(seed=sources.seed, n_steps=QUICK_EPOCHS if sources.quick else 150, **IMAGE_SETTINGS)
    recognizer = ImageRecognizer(recipe, tokens.dim)
    recognizer.fit(tokens.of_split("train"))
    return recognizer, tokens.of_split("test"), images


def draw_image_pair(sources: Sources) -> dict[str, Figure]:
    """Draw an image matched with one of its class and with one of another: couplings, σ, attention if it was stored
    with the tokens, and the patches of the strongest matches."""
    with tempfile.TemporaryDirectory() as folder:
        recognizer, tokens, images = _images(sources, folder)
        episode = EpisodeSampler(tokens.labels, 2, 1, 1, sources.seed).episode(0)
        chosen = [int(episode.support[0, 0]), int(episode.query[0, 0]), int(episode.support[1, 0])]
        matches = describe_matches(recognizer, tokens, images, *chosen)
        sigma: Any = show_uncertainty(recognizer, tokens, images, chosen)
    return {
        "image-pair": plot_match_pair(*matches),
        "image-pair-sigma": sigma,
        "image-pair-patches": _draw_patches([ImageMatch(**one) for one in matches]),
    }


def _draw_patches(matches: list[ImageMatch]) -> Figure:
    """Draw the patches of the strongest matches of each pair, with half a patch around them, and σ of the match."""
    drawn = [check_match(one, N_PATCHES) for one in matches]
    every = [one.strength for one in drawn]
    norm = std_norm(np.concatenate([one.std.ravel() for one in drawn if one.std is not None] or every))
    figure = new_figure((1.2 * N_PATCHES + 1, 6.0), {})
    rows = figure.subplots(4, N_PATCHES, squeeze=False)
    for panel in rows.ravel():
        panel.set_axis_off()
    for number, one in enumerate(drawn):
        for side, grid in enumerate((one.match.grid_x, one.match.grid_y)):
            pixels, centres = one.pixels[side], patch_centres(one.match.order, grid)
            size = np.array(pixels.shape[:2])
            for place, cell in enumerate(one.cells[:, side]):
                middle, reach = centres[cell][::-1] * size, size / np.array(grid)
                (top, left), (bottom, right) = (
                    (middle + sign * reach).round().astype(int).clip(0, size) for sign in (-1, 1)
                )
                panel = rows[2 * number + side, place]
                panel.imshow(pixels[top:bottom, left:right], interpolation="nearest")
                if not side:
                    panel.set_title(f"σ = {one.strength[place]:.2f}", fontsize=FONT)
                panel.set_axis_on()
                panel.set(xticks=[], yticks=[])
                panel.spines[:].set(color=STD_COLORS(norm(one.strength[place])), linewidth=2)
        rows[2 * number, 0].set_ylabel(("same class", "other class")[number], fontsize=FONT)
    bar = figure.colorbar(ScalarMappable(norm, STD_COLORS), ax=rows, label="σ of match", aspect=40)
    set_std_ticks(bar)
    return figure


def draw_components(sources: Sources) -> dict[str, Figure]:
    """Draw the principal components of the tokens of six images as colors, before and after the projection."""
    with tempfile.TemporaryDirectory() as folder:
        recognizer, tokens, images = _images(sources, folder)
        chosen = np.random.default_rng(sources.seed).permutation(len(tokens))[:6].tolist()
        figure: Any = show_components(recognizer, tokens, images, chosen)
    return {"components": figure}


FIGURES: dict[str, Callable[[Sources], dict[str, Figure]]] = {
    "paths": draw_paths,
    "interpolation": draw_interpolation,
    "barycenters": draw_barycenters,
    "forecasts": draw_forecasts,
    "image-pair": draw_image_pair,
    "components": draw_components,
}
"""Name to what is drawn: figures by the names of their files."""


def figures(
    name: Annotated[str, typer.Argument(metavar="|".join(FIGURES), help="Which figure, or `all`.")],
    data_dir: options.DataDir = None,
    out: Annotated[Path, typer.Option(help="Folder of the pictures.")] = Path("figures"),
    model: Annotated[Path | None, typer.Option(help="For images: a model of `udtw images train`.")] = None,
    tokens: Annotated[Path | None, typer.Option(help="For images: tokens of `udtw images embed`.")] = None,
    seed: options.Seed = 0,
    quick: Annotated[bool, typer.Option("--quick", help="Few steps of training, to see that all works.")] = False,
) -> None:
    """Draw a figure of the paper.

    Examples:

    - `python -m experiments figures paths`

    - `python -m experiments figures forecasts --data-dir ~/ucr`

    - `python -m experiments figures image-pair --model cars.safetensors --tokens tokens/cars`
    """
    if name not in (*FIGURES, "all"):
        raise OptionError(f"There is no figure {name!r}; there are {', '.join(FIGURES)}, and all.")
    sources = Sources(None if data_dir is None else str(data_dir), model, tokens, seed, quick)
    out.mkdir(parents=True, exist_ok=True)
    for one in FIGURES if name == "all" else (name,):
        for file, figure in FIGURES[one](sources).items():
            save_figure(figure, out / f"{file}.png", "--out")
            note(f"Open {out / f'{file}.png'}")
