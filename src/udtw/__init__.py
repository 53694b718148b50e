"""uncertainty-DTW: alignment of sequences as a probability distribution over paths."""

from udtw.align import align, dtw, euclidean, soft_dtw, soft_dtw_divergence
from udtw.alignment import Alignment
from udtw.calibration import Calibration, calibrate
from udtw.distribution import PathDistribution
from udtw.errors import UdtwError
from udtw.kernels.backends import available_backends
from udtw.metrics import Metric, register_metric
from udtw.pairwise import pairwise

__version__ = "0.2.0"

__all__ = [
    "Alignment",
    "Calibration",
    "Metric",
    "PathDistribution",
    "UdtwError",
    "align",
    "available_backends",
    "calibrate",
    "dtw",
    "euclidean",
    "pairwise",
    "register_metric",
    "soft_dtw",
    "soft_dtw_divergence",
]
