"""Draw alignments, barycenters, forecasts, skeletons and image tokens with matplotlib (extra ``plots``)."""

try:
    import matplotlib
except ModuleNotFoundError as error:
    if error.name != "matplotlib":
        raise
    raise ImportError("udtw.plots draws with matplotlib; install it with: pip install 'udtw[plots]'") from error

from udtw.plots.alignment import plot_alignment
from udtw.plots.barycenter import plot_barycenter
from udtw.plots.evaluation import plot_calibration, plot_critical_difference, plot_reliability
from udtw.plots.forecast import plot_forecast
from udtw.plots.gamma_sweep import plot_gamma_sweep
from udtw.plots.image_maps import plot_components, plot_uncertainty
from udtw.plots.image_match import plot_image_match, plot_match_pair
from udtw.plots.matches import plot_matches
from udtw.plots.skeleton import plot_clip
from udtw.plots.skeleton_match import plot_match

__all__ = [
    "plot_alignment",
    "plot_barycenter",
    "plot_calibration",
    "plot_clip",
    "plot_components",
    "plot_critical_difference",
    "plot_forecast",
    "plot_gamma_sweep",
    "plot_image_match",
    "plot_match",
    "plot_match_pair",
    "plot_matches",
    "plot_reliability",
    "plot_uncertainty",
]
