"""How few-shot classification is tested on each data set: classes and examples of an episode, as in the paper."""

from collections.abc import Mapping
from dataclasses import dataclass

from udtw.errors import OptionError
from udtw.images.datasets.loading import check_name

MODES = ("supervised", "unsupervised", "cross-domain")


@dataclass(frozen=True)
class Setting:
    """An episode: ``n_way`` classes with ``n_shot`` known examples each, and ``n_query`` images of each to classify."""

    n_way: int
    n_shot: int
    n_query: int = 15

    def __post_init__(self) -> None:
        if self.n_way < 2 or self.n_shot < 1 or self.n_query < 1:
            raise OptionError(f"An episode needs 2 classes, 1 shot and 1 query or more of each; got {self}.")


USUAL = (Setting(5, 1), Setting(5, 5))
# Six images a class: one shot leaves more than two, but the benchmark asks for two, and for one after two shots.
ULTRA_FINE = (Setting(5, 1, 2), Setting(5, 2, 1))
DOMAIN = (Setting(5, 5), Setting(5, 20))
# The paper does not say how many queries; 100 an episode are enough for 20 classes.
OMNIGLOT = (Setting(5, 1), Setting(5, 5), Setting(20, 1, 5), Setting(20, 5, 5))
MANY_SHOTS = (Setting(5, 1), Setting(5, 5), Setting(5, 20), Setting(5, 50))

# Of each data set and mode what differs from 5-way with 1 and 5 shots and 15 queries a class.
SETTINGS: Mapping[tuple[str, str], tuple[Setting, ...]] = {
    ("miniimagenet", "unsupervised"): MANY_SHOTS,
    ("cub", "cross-domain"): DOMAIN,
    ("cars", "cross-domain"): DOMAIN,
    **{("omniglot", mode): OMNIGLOT for mode in MODES},
    **{(name, mode): ULTRA_FINE for name in ("cotton80", "soylocal") for mode in MODES},
}


def settings_of(name: str, mode: str) -> tuple[Setting, ...]:
    """The episodes on a data set: trained with labels ("supervised"), without ("unsupervised"), or on another set.

    For "cross-domain" ``name`` is the set that is tested on.
    """
    check_name(name)
    if mode not in MODES:
        raise OptionError(f"mode must be one of {', '.join(MODES)}; got {mode!r}.")
    return SETTINGS.get((name, mode), USUAL)
