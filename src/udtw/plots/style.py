"""What several figures share: colours, the coupling in shades of grey, ticks of colour bars, and the scale of σ."""

from typing import Any

import numpy as np
from matplotlib import rcParams
from matplotlib.axes import Axes
from matplotlib.colorbar import Colorbar
from matplotlib.colors import Colormap, LinearSegmentedColormap, Normalize, PowerNorm, to_hex, to_rgb
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from matplotlib.layout_engine import ConstrainedLayoutEngine
from numpy.typing import NDArray
from torch import Tensor

from udtw.errors import OptionError

# The Okabe-Ito palette, which people with any common kind of colour vision can tell apart.
X_COLOR, Y_COLOR, MODE_COLOR, SAMPLE_COLOR = "#0072B2", "#009E73", "#D55E00", "#56B4E9"
MODE_WIDTH = 1.3

# From blue (certain) to red (uncertain) without the pale middle of the usual maps, so that thin lines stay visible.
STD_HEX = ("#1F5FA8", "#7C5C9E", "#C8283A")
STD_COLORS = LinearSegmentedColormap.from_list("udtw.std", list(STD_HEX))
LEAST_SPREAD = 0.05
"""The colour scale of σ spans at least this share of the mean σ, so that tiny differences do not look large."""

FONT, SMALL_FONT = 9, 8

Floats = NDArray[np.float64]


DARK_PAPER = "#1E2129"
"""Assumed behind figures with light text and a transparent background."""


def paper() -> str:
    """The colour behind what is drawn, by matplotlib's style."""
    ground = rcParams["axes.facecolor"]
    if str(ground) != "none":
        return to_hex(ground)
    return DARK_PAPER if sum(to_rgb(rcParams["text.color"])) > 1.5 else "#ffffff"


def shade(share: float) -> str:
    """From the colour of the paper (0) to that of text (1), so that figures fit dark styles too."""
    ground, ink = np.array(to_rgb(paper())), np.array(to_rgb(rcParams["text.color"]))
    return to_hex(ground + share * (ink - ground))


def greys() -> Colormap | str:
    """Shades of grey, 0 as the paper and 1 as text."""
    if paper() == "#ffffff":
        return "Greys"
    return LinearSegmentedColormap.from_list("udtw.greys", [shade(0), shade(1)])


def as_array(values: Any) -> NDArray[Any]:
    """A NumPy array of a tensor on any device, with or without gradient, or of anything array-like."""
    return np.asarray(values.detach().cpu() if isinstance(values, Tensor) else values)


def new_figure(size: tuple[float, float], options: dict[str, Any], **spacing: Any) -> Figure:
    """A figure of ``size`` inches that is not registered with pyplot; ``options`` override what is chosen here.

    ``spacing`` are the paddings of matplotlib's constrained layout.
    """
    layout = ConstrainedLayoutEngine(**spacing) if spacing else "constrained"
    if options.get("figsize", size) is None:
        options = {name: value for name, value in options.items() if name != "figsize"}
    return Figure(**({"figsize": size, "layout": layout} | options))


def matrix_height(width: float, rows: int, columns: int) -> float:
    """Height of a matrix of that width with square cells, but never too flat or too tall for a page."""
    return width * min(max(rows / columns, 0.5), 1.5)


def check_path_power(power: float) -> None:
    if not 0 < power <= 1:
        raise OptionError(f"path_power must lie in (0, 1]; got {power}.")


def draw_coupling(axes: Axes, coupling: Any, power: float, **options: Any) -> AxesImage:
    """π* (N, M) in shades of grey of ``π* ** power``; ``options`` are those of `Axes.imshow`."""
    norm = PowerNorm(power, vmin=0, vmax=1)
    return axes.imshow(np.clip(coupling, 0, 1), cmap=greys(), norm=norm, aspect="auto", **options)


def draw_mode(axes: Axes, path: NDArray[np.int64]) -> None:
    """The most probable path (L, 2); a rim keeps it visible on dark cells and among sampled paths."""
    rows, columns = path.T
    axes.plot(columns, rows, color=paper(), linewidth=MODE_WIDTH + 1)
    axes.plot(columns, rows, color=MODE_COLOR, linewidth=MODE_WIDTH)


def set_power_ticks(bar: Colorbar, power: float, shares: tuple[float, ...] = (0, 0.25, 0.5, 0.75, 1)) -> None:
    """Label a colour bar of ``π* ** power`` with probabilities of one digit, at about these shares of its length."""
    ticks = sorted({float(f"{share ** (1 / power):.1g}") for share in shares})
    bar.set_ticks(ticks, labels=[tick_label(tick) for tick in ticks])
    bar.minorticks_off()


def tick_label(value: float) -> str:
    """0.001 as it is, 1e-06 as a power of ten."""
    if value == 0 or 1e-3 <= value < 1e4:
        return f"{value:g}"
    digit, exponent = f"{value:.0e}".split("e")
    factor = "" if digit == "1" else digit + r"\cdot "
    return rf"${factor}10^{{{int(exponent)}}}$"


def std_limits(values: Any, limits: tuple[float, float] | None = None) -> tuple[float, float]:
    """Smallest and largest σ of a colour scale: ``limits`` if given, else the range of ``values``, never empty."""
    if limits is None:
        middle, spread = (values.min() + values.max()) / 2, max(np.ptp(values), LEAST_SPREAD * values.mean())
        return float(middle - spread / 2), float(middle + spread / 2)
    low, high = limits
    if not 0 <= low < high:
        raise OptionError(f"std_range must be (low, high) with 0 ≤ low < high; got {limits}.")
    return low, high


SIGMA_RANGE = (0.5, 2.0)
"""Bounds of a SigmaNet's σ by default."""


def shared_limits(values: Any, bounds: tuple[float, float] = SIGMA_RANGE) -> tuple[float, float]:
    """``bounds``, wider if ``values`` go beyond: one scale for all figures, on which small differences look small."""
    return min(bounds[0], float(values.min())), max(bounds[1], float(values.max()))


def std_norm(values: Any, limits: tuple[float, float] | None = None) -> Normalize:
    """The scale of `std_limits`; values beyond it have the colour of its ends."""
    return Normalize(*std_limits(values, limits), clip=True)
