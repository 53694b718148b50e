"""The settings of the UCR experiment among which validation chooses."""

from typing import Any

Grids = dict[str, dict[str, list[dict[str, Any]]]]
"""Kind of classifier -> metric -> settings."""

GAMMAS = (0.1, 0.01, 1.0)

# The same number of settings for all soft metrics.
_SOFT: dict[str, list[dict[str, Any]]] = {
    "euclidean": [{}],
    "soft_dtw": [{"gamma": gamma} for gamma in GAMMAS],
    "soft_dtw_divergence": [{"gamma": gamma} for gamma in GAMMAS],
}


def _udtw(*settings: tuple[float, str | None]) -> list[dict[str, Any]]:
    """From γ and kind of σ."""
    return [{"gamma": gamma, "beta": 0.1, "sigma": sigma} for gamma, sigma in settings]


GRIDS: Grids = {
    "knn": _SOFT
    | {
        "dtw": [{"band": band} for band in (None, 0.05, 0.1, 0.2)],
        "udtw": _udtw((0.1, None), (0.1, "series"), (1.0, None)),
    },
    "frechet": _SOFT
    | {
        "dtw": [{"band": band} for band in (None, 0.1)],
        "udtw": _udtw((0.1, None), (0.1, "free"), (0.01, "free")),
    },
    "discriminative": _SOFT
    | {
        "dtw": [{"band": band} for band in (None, 0.1)],
        "udtw": _udtw((1.0, "free"), (0.1, "free"), (0.1, "context")),
    },
}
