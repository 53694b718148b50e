"""The settings of the UCR experiment among which validation chooses."""

from typing import Any

GAMMAS = (0.1, 0.01, 1.0)

# The same number of settings for all soft metrics; the first wins ties. uDTW begins with Σ = 1, so that uncertainty is
# used only where validation says that it helps.
_SOFT: dict[str, list[dict[str, Any]]] = {
    "euclidean": [{}],
    "soft_dtw": [{"gamma": gamma} for gamma in GAMMAS],
    "soft_dtw_divergence": [{"gamma": gamma} for gamma in GAMMAS],
}
Grids = dict[str, dict[str, list[dict[str, Any]]]]
"""Kind of classifier -> metric -> settings."""

GRIDS: Grids = {
    "knn": _SOFT
    | {
        "dtw": [{"band": band} for band in (None, 0.05, 0.1, 0.2)],
        "udtw": [{"gamma": 0.1, "beta": 0.1, "sigma": sigma} for sigma in (None, "context", "series")],
    },
    "frechet": _SOFT
    | {
        "dtw": [{"band": band} for band in (None, 0.1)],
        "udtw": [
            {"gamma": 0.1, "beta": 0.1, "sigma": None},
            {"gamma": 0.1, "beta": 0.1, "sigma": "free"},
            {"gamma": 0.01, "beta": 0.1, "sigma": "free"},
        ],
    },
    "discriminative": _SOFT
    | {
        "dtw": [{"band": band} for band in (None, 0.1)],
        "udtw": [{"gamma": 0.1, "beta": 0.1, "sigma": sigma} for sigma in (None, "free", "context")],
    },
}
