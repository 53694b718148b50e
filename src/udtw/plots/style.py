"""Share style among figures: colors, the coupling in shades of gray, ticks of color bars, and the scale of σ."""

from typing import Any

import numpy as np
from matplotlib import rcParams
from matplotlib.axes import Axes
from matplotlib.colorbar import Colorbar
from matplotlib.colors import Colormap, LinearSegmentedColormap, LogNorm, PowerNorm, to_hex, to_rgb
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from matplotlib.layout_engine import ConstrainedLayoutEngine
from numpy.typing import NDArray
from torch import Tensor

from udtw.errors import OptionError

X_COLOR, Y_COLOR, MODE_COLOR, SAMPLE_COLOR = "#0072B2", "#009E73", "#D55E00", "#56B4E9"
COLORS = (X_COLOR, MODE_COLOR, Y_COLOR, "#CC79A7", "#E69F00", SAMPLE_COLOR, "#000000")
"""The Okabe-Ito palette, distinguishable with all common types of color vision."""

WRONG_COLOR = "#C8283A"
"""Matches that are known to be wrong; doubtful ones have `MODE_COLOR`."""
MODE_WIDTH = 1.3

# From blue (certain) to red (uncertain), without the pale middle of common color maps that hides thin lines.
STD_HEX = ("#1F5FA8", "#7C5C9E", "#C8283A")
STD_COLORS = LinearSegmentedColormap.from_list("udtw.std", list(STD_HEX))
LEAST_SPREAD = 0.05
"""Least span of the color scale of σ as a share of the mean σ, so that tiny differences do not look large."""

PROBABILITY_POWER = 0.5
"""Lines between matched steps show ``probability ** PROBABILITY_POWER``, from 0 to 1 in every figure."""

FONT = 9
"""Of all small text: 12 px on a screen of 96 dpi."""
TITLE_WIDTH = 110
"""Characters per line of a title."""

Floats = NDArray[np.float64]


DARK_PAPER = "#1E2129"
"""Assumed color behind figures with light text and a transparent background."""


def paper() -> str:
    """Return the background color of matplotlib's style."""
    ground = rcParams["axes.facecolor"]
    if str(ground) != "none":
        return to_hex(ground)
    return DARK_PAPER if sum(to_rgb(rcParams["text.color"])) > 1.5 else "#ffffff"


def shade(share: float) -> str:
    """Mix the background color (0) with the text color (1), so that figures fit dark styles."""
    ground, ink = np.array(to_rgb(paper())), np.array(to_rgb(rcParams["text.color"]))
    return to_hex(ground + share * (ink - ground))


def probability_shade(probability: Any) -> Any:
    """Return the color of a match: from the background (0) to the text color (1), on one scale in all figures.

    The power makes the small probabilities visible that γ = 4 gives to single partners.
    """
    return shade(float(np.clip(probability, 0, 1)) ** PROBABILITY_POWER)


def greys() -> Colormap | str:
    """Return a color map from the background (0) to the text color (1)."""
    if paper() == "#ffffff":
        return "Greys"
    return LinearSegmentedColormap.from_list("udtw.greys", [shade(0), shade(1)])


def as_array(values: Any) -> NDArray[Any]:
    """Convert a tensor on any device, with or without gradient, or anything array-like to a NumPy array."""
    return np.asarray(values.detach().cpu() if isinstance(values, Tensor) else values)


def new_figure(size: tuple[float, float], options: dict[str, Any], **spacing: Any) -> Figure:
    """Create a figure of ``size`` inches, not registered with pyplot; ``options`` override the defaults.

    ``spacing`` sets the padding of matplotlib's constrained layout.
    """
    layout = ConstrainedLayoutEngine(**spacing) if spacing else "constrained"
    if options.get("figsize", size) is None:
        options = {name: value for name, value in options.items() if name != "figsize"}
    return Figure(**({"figsize": size, "layout": layout} | options))


def matrix_height(width: float, rows: int, columns: int) -> float:
    """Return the height of a matrix with square cells, limited to half to one and a half times its width."""
    return width * min(max(rows / columns, 0.5), 1.5)


def check_path_power(power: float) -> None:
    """Raise an error unless ``power`` lies in (0, 1]."""
    if not 0 < power <= 1:
        raise OptionError(f"path_power must lie in (0, 1]; got {power}.")


def draw_coupling(axes: Axes, coupling: Any, power: float, **options: Any) -> AxesImage:
    """Draw π* (N, M) in shades of gray of ``π* ** power``; ``options`` are those of `Axes.imshow`."""
    norm = PowerNorm(power, vmin=0, vmax=1)
    return axes.imshow(np.clip(coupling, 0, 1), cmap=greys(), norm=norm, aspect="auto", **options)


def hide_box(axes: Axes) -> None:
    """Keep only the left and bottom lines of the frame."""
    axes.spines[["top", "right"]].set_visible(False)


def draw_mode(axes: Axes, path: NDArray[np.int64]) -> None:
    """Draw the most probable path (L, 2) with a rim that keeps it visible on dark cells and among sampled paths."""
    rows, columns = path.T
    axes.plot(columns, rows, color=paper(), linewidth=MODE_WIDTH + 1)
    axes.plot(columns, rows, color=MODE_COLOR, linewidth=MODE_WIDTH)


def set_power_ticks(bar: Colorbar, power: float, shares: tuple[float, ...] = (0, 0.25, 0.5, 0.75, 1)) -> None:
    """Label a color bar of ``π* ** power`` with probabilities of one digit, at about these shares of its length."""
    ticks = sorted({float(f"{share ** (1 / power):.1g}") for share in shares})
    bar.set_ticks(ticks, labels=[tick_label(tick) for tick in ticks])
    bar.minorticks_off()


def tick_label(value: float) -> str:
    """Format 0.001 as it is, and 1e-06 as a power of ten."""
    if value == 0 or 1e-3 <= value < 1e4:
        return f"{value:g}"
    digit, exponent = f"{value:.0e}".split("e")
    factor = "" if digit == "1" else digit + r"\cdot "
    return rf"${factor}10^{{{int(exponent)}}}$"


def std_limits(values: Any, limits: tuple[float, float] | None = None) -> tuple[float, float]:
    """Return the limits of a color scale of σ: ``limits`` if given, else the range of ``values``, never empty."""
    if limits is None:
        middle, spread = (values.min() + values.max()) / 2, max(np.ptp(values), LEAST_SPREAD * values.mean())
        return float(middle - spread / 2), float(middle + spread / 2)
    low, high = limits
    if not 0 < low < high:
        raise OptionError(f"std_range must be (low, high) with 0 < low < high; got {limits}.")
    return low, high


SIGMA_RANGE = (0.5, 2.0)
"""Least range of the color scale of σ."""


def shared_limits(values: Any, bounds: tuple[float, float] = SIGMA_RANGE) -> tuple[float, float]:
    """Return (1/r, r) with the least r that holds ``bounds`` and all ``values``, so that 1 is in the middle."""
    ratio = max(bounds[1], 1 / bounds[0], float(np.max(values)), 1 / float(np.min(values)))
    return 1 / ratio, ratio


def std_norm(values: Any, limits: tuple[float, float] | None = None) -> LogNorm:
    """Return the color scale of σ, logarithmic about 1: ``limits`` if given, else `shared_limits`.

    The same ratio has the same difference in color everywhere, and the scale does not shrink to the values of one
    figure. Values beyond it get the color of its ends.
    """
    return LogNorm(*(shared_limits(values) if limits is None else std_limits(values, limits)), clip=True)


STD_TICKS = (0.1, 0.2, 0.3, 0.5, 0.7, 1.0, 1.4, 2.0, 3.0, 5.0, 10.0), (0.01, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 100.0)


def std_ticks(low: float, high: float) -> list[float]:
    """Return three to seven numbers for the color bar of a `std_norm` with these limits."""
    every = [[tick for tick in ticks if 0.999 * low <= tick <= 1.001 * high] for ticks in STD_TICKS]
    return next((found for found in every if 3 <= len(found) <= 7), [low, high])


def set_std_ticks(bar: Colorbar) -> None:
    """Label a color bar of `std_norm`."""
    ticks = std_ticks(bar.norm.vmin or 0.0, bar.norm.vmax or 1.0)
    bar.set_ticks(ticks, labels=[f"{tick:.2g}" for tick in ticks])
    bar.minorticks_off()
