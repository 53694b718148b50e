"""Sensor faults, put into series that have none."""

import numpy as np

from udtw.errors import OptionError, ShapeError

FAULTS: dict[str, tuple[float, float, float]] = {
    "bursts": (1.0, 2.0, 3.0),
    "spikes": (2.0, 4.0, 6.0),
    "dropouts": (0.1, 0.2, 0.3),
    "drift": (0.5, 1.0, 1.5),
}
"""Kind of fault to its weak, medium and strong form: the standard deviation of noise over a fifth of the steps, the
height of spikes at one step in twenty, the share of steps that are stuck at zero, and the logarithm of the gain at the
last step relative to the first. Heights are in standard deviations of the series."""
STRENGTHS = ("weak", "medium", "strong")
BURST_SHARE, SPIKE_SHARE = 0.2, 0.05


def add_faults(
    X: np.ndarray, kind: str = "mixed", strength: str = "medium", random_state: int | np.random.Generator | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Copies of series ``X`` (n, T), each with one fault, and which of their steps it touched, (n, T) booleans.

    Parameters
    ----------
    X : (n, T)
        Without missing values.
    kind : str
        "bursts" of noise, "spikes", "dropouts" (stuck at zero) or "drift" of the gain; "mixed" draws one for each
        series.
    strength : "weak", "medium" or "strong"
        See `FAULTS`.
    random_state : int, Generator or None

    Examples
    --------
    >>> import numpy as np
    >>> from udtw.data import add_faults
    >>> faulty, where = add_faults(np.sin(np.ones((3, 1)) * np.arange(40) / 4), "bursts", random_state=0)
    >>> faulty.shape, where.sum(1).tolist()
    ((3, 40), [8, 8, 8])
    """
    if kind not in (*FAULTS, "mixed"):
        raise OptionError(f"kind must be one of {(*FAULTS, 'mixed')}; got {kind!r}.")
    if strength not in STRENGTHS:
        raise OptionError(f"strength must be one of {STRENGTHS}; got {strength!r}.")
    if np.ndim(X) != 2:
        raise ShapeError(f"X must have shape (n, T); got {np.shape(X)}.")
    rng = np.random.default_rng(random_state)
    faulty = np.array(X)
    where = np.zeros(faulty.shape, bool)
    for row, hit in zip(faulty, where, strict=True):
        chosen = kind if kind != "mixed" else list(FAULTS)[rng.integers(len(FAULTS))]
        _add(row, hit, chosen, FAULTS[chosen][STRENGTHS.index(strength)], rng)
    return faulty, where


def _add(row: np.ndarray, hit: np.ndarray, kind: str, size: float, rng: np.random.Generator) -> None:
    steps, height = len(row), row.std()
    if kind == "drift":
        hit[:] = True
        row *= np.exp(size * rng.choice([-1, 1]) * np.linspace(-0.5, 0.5, steps))
        return
    if kind == "spikes":
        hit[rng.choice(steps, max(1, round(SPIKE_SHARE * steps)), replace=False)] = True
        row[hit] += size * height * rng.choice([-1, 1], int(hit.sum()))
        return
    width = min(steps, max(3, round((BURST_SHARE if kind == "bursts" else size) * steps)))
    begin = int(rng.integers(0, steps - width + 1))
    hit[begin : begin + width] = True
    row[hit] = row[hit] + size * height * rng.standard_normal(width) if kind == "bursts" else 0.0
