"""The γ figure: how the coupling of one pair goes from one path to a cloud of paths."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.colors import PowerNorm
from matplotlib.figure import Figure

from udtw import inputs
from udtw.align import align
from udtw.errors import LengthError, OptionError, ShapeError
from udtw.inputs import ArrayLike

X_COLOR, Y_COLOR = "#0072B2", "#009E73"
MATRIX_INCHES, MARGIN_INCHES = 1.9, 0.55


def plot_gamma_sweep(
    x: ArrayLike,
    y: ArrayLike,
    gammas: Sequence[float] = (0.01, 0.1, 1.0, 10.0),
    *,
    var_x: ArrayLike | None = None,
    var_y: ArrayLike | None = None,
    band: Any = None,
    path_power: float = 0.1,
    figsize: tuple[float, float] | None = None,
) -> Figure:
    """Draw the couplings of one pair at several temperatures side by side, with d² and the entropy of the paths.

    Steps of x run down, steps of y run right. Axes are labelled "x", and by the number of their γ "y0", "y1", ... and
    "coupling0", "coupling1", ...

    Parameters
    ----------
    x, y : (N,), (N, d) and the same with M
    gammas : sequence of float
        Temperatures, one panel each.
    var_x, var_y, band : as in `udtw.align`
    path_power : float in (0, 1]
        Colours show ``coupling ** path_power``, so that faint probabilities can be seen.
    figsize : (width, height) in inches
    """
    if not 0 < path_power <= 1:
        raise OptionError(f"path_power must lie in (0, 1]; got {path_power}.")
    if len(gammas) == 0:
        raise LengthError("gammas is empty; at least one temperature is needed.")
    first, second = (_one(name, value) for name, value in (("x", x), ("y", y)))
    n, m = len(first), len(second)
    height = MATRIX_INCHES * min(max(n / m, 0.5), 1.5)
    numbers = range(len(gammas))
    figure = Figure(
        figsize=figsize or (MARGIN_INCHES + len(gammas) * MATRIX_INCHES + 1.2, MARGIN_INCHES + height + 1.1),
        layout="constrained",
    )
    axes = figure.subplot_mosaic(
        [[".", *(f"y{i}" for i in numbers)], ["x", *(f"coupling{i}" for i in numbers)]],
        width_ratios=[MARGIN_INCHES, *[MATRIX_INCHES] * len(gammas)],
        height_ratios=[MARGIN_INCHES, height],
    )
    norm = PowerNorm(path_power, vmin=0, vmax=1)
    for i, gamma in enumerate(gammas):
        found = align(first, second, var_x, var_y, gamma=gamma, band=band)
        matrix, top = axes[f"coupling{i}"], axes[f"y{i}"]
        image = matrix.imshow(np.clip(found.coupling, 0, 1), cmap="Greys", norm=norm, aspect="auto")
        matrix.tick_params(left=False, labelleft=False, labelsize=8)
        matrix.locator_params(axis="x", integer=True, nbins=4)
        entropy = max(float(found.paths.entropy), 0.0)
        matrix.set_xlabel(f"step of y\n$d^2$ = {float(found.distance):.3g},  $H$ = {entropy:.3g}", fontsize=9)
        top.plot(np.arange(m), second, color=Y_COLOR, linewidth=1)
        top.sharex(matrix)
        top.set_axis_off()
        top.set_title(f"γ = {gamma:g}", fontsize=10)
    left = axes["x"]
    left.plot(first, np.arange(n), color=X_COLOR, linewidth=1)
    left.invert_xaxis()  # large values point away from the matrix, as those of y do
    left.set_ylim(n - 0.5, -0.5)
    left.tick_params(labelsize=8, bottom=False, labelbottom=False)
    left.spines[["top", "right", "bottom"]].set_visible(False)
    left.locator_params(axis="y", integer=True, nbins=5)
    left.set_ylabel("step of x", fontsize=9)
    bar = figure.colorbar(image, ax=[axes[f"coupling{i}"] for i in numbers], location="right", aspect=25, pad=0.01)
    bar.set_label("coupling π*", fontsize=9)
    shares = sorted({float(f"{share ** (1 / path_power):.0e}") for share in (0, 0.5, 1)})
    bar.set_ticks(shares, labels=[f"{share:g}" for share in shares])
    bar.minorticks_off()
    bar.ax.tick_params(labelsize=8)
    return figure


def _one(name: str, value: ArrayLike) -> np.ndarray:
    """(N, d) of one series."""
    tensor, single = inputs.sequence(name, value)
    if not single:
        raise ShapeError(f"{name} must be one series, (N,) or (N, d); got shape {tuple(tensor.shape)}.")
    return tensor[0].detach().cpu().double().numpy()
