"""How much the demo computes."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Sizes:
    """Two of them: what is worth looking at, and what only shows that everything runs."""

    seeds: int = 3
    length: int = 64
    """Steps of a Cylinder-Bell-Funnel series."""
    train: int = 8
    """Training series a class."""
    test: int = 40
    """Test series a class."""
    averaged: int = 10
    """Series of a barycenter."""
    mean_iterations: int = 40
    prototype_iterations: int = 100
    sigma_iterations: int = 100
    epochs: int = 60
    forecast_train: int = 25
    """Training series a class for forecasting; test series as many as ``test``."""
    clips: int = 12
    """Clips an action."""
    action_steps: int = 60
    images: int = 8
    """Images a class."""
    image_steps: int = 60


FULL = Sizes()
QUICK = Sizes(
    seeds=1, length=24, train=3, test=4, averaged=4, mean_iterations=4, prototype_iterations=4, sigma_iterations=4,
    epochs=3, forecast_train=4,
    clips=5, action_steps=3, images=4, image_steps=3,
)  # fmt: skip
