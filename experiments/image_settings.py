"""Episodes by which few-shot classification is tested on the data sets of images, as in the paper."""

from collections.abc import Mapping
from dataclasses import dataclass

from udtw.errors import OptionError
from udtw.images.datasets import data_set

MODES = ("supervised", "unsupervised", "cross-domain")


@dataclass(frozen=True)
class Setting:
    """An episode: ``n_way`` classes with ``n_shot`` known examples each, and ``n_query`` images of each to classify.

    >>> from experiments.image_settings import Setting
    >>> Setting(n_way=5, n_shot=1)
    Setting(n_way=5, n_shot=1, n_query=15)
    """

    n_way: int
    n_shot: int
    n_query: int = 15

    def __post_init__(self) -> None:
        if self.n_way < 2 or self.n_shot < 1 or self.n_query < 1:
            raise OptionError(f"An episode needs 2 classes, 1 shot and 1 query or more of each; got {self}.")


USUAL = (Setting(5, 1), Setting(5, 5))
# There are six images per class. The benchmark asks for two queries after one shot, and for one after two.
ULTRA_FINE = dict.fromkeys(MODES, (Setting(5, 1, 2), Setting(5, 2, 1)))
# The paper does not say how many queries; 100 per episode are enough for 20 classes.
OMNIGLOT = dict.fromkeys(MODES, (Setting(5, 1), Setting(5, 5), Setting(20, 1, 5), Setting(20, 5, 5)))
MANY_SHOTS = {"unsupervised": (Setting(5, 1), Setting(5, 5), Setting(5, 20), Setting(5, 50))}
DOMAIN = {"cross-domain": (Setting(5, 5), Setting(5, 20))}
EPISODES: dict[str, Mapping[str, tuple[Setting, ...]]] = {
    "miniimagenet": MANY_SHOTS,
    "cub": DOMAIN,
    "cars": DOMAIN,
    "cotton80": ULTRA_FINE,
    "soylocal": ULTRA_FINE,
    "omniglot": OMNIGLOT,
}
"""Data set, then mode, to settings, where they differ from `USUAL`."""


def settings_of(name: str, mode: str) -> tuple[Setting, ...]:
    """Return the episodes by which few-shot classification is tested on a data set, as in the paper.

    ``mode``: trained with labels ("supervised"), without ("unsupervised"), or on another data set ("cross-domain").

    >>> from experiments.image_settings import settings_of
    >>> [(setting.n_way, setting.n_shot) for setting in settings_of("cub", "supervised")]
    [(5, 1), (5, 5)]
    """
    data_set(name)  # raises unless there is one
    if mode not in MODES:
        raise OptionError(f"mode must be one of {', '.join(MODES)}; got {mode!r}.")
    return EPISODES.get(name, {}).get(mode, USUAL)
