"""uncertainty-DTW: alignment of sequences as a probability distribution over paths."""

from udtw import _moved
from udtw._engine.align import align, dtw, euclidean, soft_dtw, soft_dtw_divergence
from udtw._engine.alignment import Alignment
from udtw._engine.calibration import Calibration, calibrate
from udtw._engine.distribution import PathDistribution
from udtw._engine.follower import Follower
from udtw._engine.match import Match, NoiseBetween, fit_noise_between, match
from udtw._engine.match_many import match_many
from udtw._engine.matches import Matches
from udtw._engine.metrics import Metric, get_metric, register_metric
from udtw._engine.pairwise import pairwise
from udtw._engine.trust import Trust
from udtw._kernels.backends import available_backends
from udtw.errors import UdtwError

__version__ = "0.3.0"

_moved.install()

__all__ = [
    "Alignment",
    "Calibration",
    "Follower",
    "Match",
    "Matches",
    "Metric",
    "NoiseBetween",
    "PathDistribution",
    "Trust",
    "UdtwError",
    "align",
    "available_backends",
    "calibrate",
    "dtw",
    "euclidean",
    "fit_noise_between",
    "match",
    "match_many",
    "pairwise",
    "register_metric",
    "soft_dtw",
    "soft_dtw_divergence",
]
