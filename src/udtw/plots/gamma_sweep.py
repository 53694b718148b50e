"""Draw how the coupling of one pair changes from a single path to many as the temperature γ rises."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from udtw._engine import inputs
from udtw._engine.align import align
from udtw._engine.inputs import ArrayLike
from udtw.errors import LengthError, ShapeError
from udtw.plots.style import (
    FONT,
    X_COLOR,
    Y_COLOR,
    check_path_power,
    draw_coupling,
    matrix_height,
    new_figure,
    set_power_ticks,
)

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
    **figure_options: Any,
) -> Figure:
    """Plot the couplings of one pair at several temperatures, with d² and the entropy H of the paths.

    Steps of x run down, steps of y run right. Axes are labeled "x" and, by the number of their γ, "y0", "coupling0",
    "y1", "coupling1", and so on. The figure is not registered with pyplot: save it with ``savefig``.

    Parameters
    ----------
    x, y : (N,), (N, d) and the same with M
    gammas : sequence of float
        Temperatures, one panel each.
    var_x, var_y, band : as in `udtw.align`
    path_power : float in (0, 1]
        Colors show ``coupling ** path_power`` to make small probabilities visible.
    **figure_options
        Passed to `matplotlib.figure.Figure`, such as ``figsize``.

    Examples
    --------
    >>> import numpy as np
    >>> from udtw.plots import plot_gamma_sweep
    >>> x, y = np.sin(np.arange(20) / 3), np.sin(np.arange(24) / 4)
    >>> figure = plot_gamma_sweep(x, y, gammas=(0.01, 1.0))
    >>> [axes.get_title() for axes in figure.axes if axes.get_title()]
    ['γ = 0.01', 'γ = 1']
    """
    check_path_power(path_power)
    if len(gammas) == 0:
        raise LengthError("gammas is empty; at least one temperature is needed.")
    first, second = (_one(name, value) for name, value in (("x", x), ("y", y)))
    n, m = len(first), len(second)
    height = matrix_height(MATRIX_INCHES, n, m)
    numbers = range(len(gammas))
    size = (MARGIN_INCHES + len(gammas) * MATRIX_INCHES + 1.2, MARGIN_INCHES + height + 1.1)
    figure = new_figure(size, figure_options)
    axes = figure.subplot_mosaic(
        [[".", *(f"y{i}" for i in numbers)], ["x", *(f"coupling{i}" for i in numbers)]],
        width_ratios=[MARGIN_INCHES, *[MATRIX_INCHES] * len(gammas)],
        height_ratios=[MARGIN_INCHES, height],
    )
    for i, gamma in enumerate(gammas):
        alignment = align(first, second, var_x, var_y, gamma=gamma, band=band)
        matrix, top = axes[f"coupling{i}"], axes[f"y{i}"]
        image = draw_coupling(matrix, alignment.coupling, path_power)
        matrix.tick_params(left=False, labelleft=False, labelsize=FONT)
        matrix.locator_params(axis="x", integer=True, nbins=4)
        entropy = max(float(alignment.paths.entropy), 0.0)
        matrix.set_xlabel(f"step of y\n$d^2$ = {float(alignment.distance):.3g},  $H$ = {entropy:.3g}", fontsize=FONT)
        top.plot(np.arange(m), second, color=Y_COLOR, linewidth=1)
        top.sharex(matrix)
        top.set_axis_off()
        top.set_title(f"γ = {gamma:g}", fontsize=10)
    left = axes["x"]
    left.plot(first, np.arange(n), color=X_COLOR, linewidth=1)
    left.invert_xaxis()  # large values point away from the matrix, as those of y do
    left.set_ylim(n - 0.5, -0.5)
    left.tick_params(labelsize=FONT, bottom=False, labelbottom=False)
    left.spines[["top", "right", "bottom"]].set_visible(False)
    left.locator_params(axis="y", integer=True, nbins=5)
    left.set_ylabel("step of x", fontsize=FONT)
    bar = figure.colorbar(image, ax=[axes[f"coupling{i}"] for i in numbers], location="right", aspect=25, pad=0.01)
    bar.set_label("coupling π*", fontsize=FONT)
    set_power_ticks(bar, path_power, (0, 0.5, 1))
    bar.ax.tick_params(labelsize=FONT)
    return figure


def _one(name: str, value: ArrayLike) -> np.ndarray:
    """Convert one series to (N, d)."""
    tensor, single = inputs.read_sequence(name, value)
    if not single:
        raise ShapeError(f"{name} must be one series, (N,) or (N, d); got shape {tuple(tensor.shape)}.")
    return tensor[0].detach().cpu().double().numpy()
