"""What the controls of the first tab say, checked."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from udtw.explorer.checks import alignment_settings, choice, interval, number, whole

LOG_GAMMA = (-3.0, 2.0)
MAX_NOISE, MAX_PATHS, MAX_SEED = 3.0, 50, 999
VARIANCES = {
    "none": "None: σ = 1 everywhere",
    "known": "Known: 1 + noise² in the noisy stretch",
    "rough": "Estimated from local roughness",
}
SIDES = {"x": "x", "y": "y", "both": "both"}


@dataclass(frozen=True)
class SeriesSettings:
    """``band``: a fraction of the shorter length, or None. ``stretch``: share of the series, from and to, in %."""

    gamma: float = 0.1
    beta: float = 1.0
    band: float | None = None
    noise: float = 0.0
    stretch: tuple[float, float] = (40.0, 60.0)
    side: str = "x"
    variance: str = "known"
    znormalize: bool = True
    paths: int = 20
    seed: int = 0

    @classmethod
    def of(cls, said: Mapping[str, Any]) -> "SeriesSettings":
        return cls(
            **alignment_settings(said, LOG_GAMMA),
            noise=number("The noise", said["noise"], 0, MAX_NOISE),
            stretch=interval("The noisy stretch", said["stretch"], 0, 100),
            side=choice("The noisy series", said["side"], SIDES),
            variance=choice("The variance", said["variance"], VARIANCES),
            znormalize=said["scale"] == ["znormalize"],
            paths=whole("The number of sampled paths", said["paths"], 0, MAX_PATHS),
            seed=whole("The seed", said["seed"], 0, MAX_SEED),
        )
