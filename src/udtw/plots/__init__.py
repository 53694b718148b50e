"""Pictures of alignments, means, forecasts, skeletons and image tokens, as matplotlib figures.

The only part of udtw that imports matplotlib (extra ``plots``).
"""

try:
    import matplotlib  # noqa: F401
except ModuleNotFoundError as error:
    if error.name != "matplotlib":
        raise
    raise ImportError("udtw.plots draws with matplotlib; install it with: pip install 'udtw[plots]'") from error

from udtw.plots.alignment import plot_alignment
from udtw.plots.barycenter import plot_barycenter
from udtw.plots.forecast import plot_forecast
from udtw.plots.gamma_sweep import plot_gamma_sweep
from udtw.plots.image_match import ImageMatch, plot_image_match, plot_match_pair
from udtw.plots.skeleton import plot_clip
from udtw.plots.skeleton_match import plot_match
from udtw.plots.token_components import plot_components
from udtw.plots.uncertainty_map import plot_uncertainty

__all__ = [
    "ImageMatch",
    "plot_alignment",
    "plot_barycenter",
    "plot_clip",
    "plot_components",
    "plot_forecast",
    "plot_gamma_sweep",
    "plot_image_match",
    "plot_match",
    "plot_match_pair",
    "plot_uncertainty",
]
