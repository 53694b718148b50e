"""Random alignment problems of every kind the library accepts, for comparing backends."""

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from hypothesis import strategies as st
from torch import Tensor

import udtw

BANDS = (None, 0, 1, 3, 0.0, 0.4, 1.0, "itakura", "mask", "masks")


class Engine(NamedTuple):
    """A backend on a device."""

    backend: str
    device: str = "cpu"


_on_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="torch finds no CUDA or ROCm device here")
ENGINES = [
    pytest.param(engine, marks=_on_gpu if engine.device == "cuda" else (), id=f"{engine.backend} on {engine.device}")
    for engine in (Engine("numba"), Engine("portable"), Engine("portable", "cuda"), Engine("triton", "cuda"))
]


@dataclass(frozen=True)
class Case:
    """Arguments of `udtw.align`: tensors that get gradients, and options."""

    tensors: dict[str, Tensor]
    options: dict[str, Any] = field(default_factory=dict)

    def align(
        self, engine: str | Engine, dtype: torch.dtype = torch.float64, *, fixed: tuple[str, ...] = (), **more
    ) -> tuple[udtw.Alignment, dict[str, Tensor]]:
        """The alignment, and the leaves to differentiate with respect to; those ``fixed`` become numbers.

        ``engine`` is a backend on a device, or the name of one on the CPU.
        """
        backend, device = Engine(engine) if isinstance(engine, str) else engine
        leaves = {name: t.to(device, dtype).clone().requires_grad_() for name, t in self.tensors.items()}
        for name in fixed:
            if name in leaves:
                more[name] = leaves.pop(name).item()
        arguments = {"x": None, "y": None, **leaves, **self.options, **more}
        return udtw.align(**arguments, backend=backend), leaves


def random_mask(rng: np.random.Generator, rows: int, columns: int, n: int, m: int) -> np.ndarray:
    """A mask that admits about half of the cells, and at least one random path to (n − 1, m − 1)."""
    mask = rng.random((rows, columns)) < 0.5
    i = j = 0
    mask[0, 0] = True
    while (i, j) != (n - 1, m - 1):
        steps = [(a, b) for a, b in ((1, 0), (0, 1), (1, 1)) if i + a < n and j + b < m]
        a, b = steps[rng.integers(len(steps))]
        i, j = i + a, j + b
        mask[i, j] = True
    return mask


def make_case(  # noqa: PLR0913 (every option of a random problem)
    *,
    seed: int,
    count: int,
    rows: int,
    columns: int,
    dim: int,
    gamma: float,
    uncertainty: str,
    band: Any,
    ragged: bool,
    given_cost: bool,
    scale: float = 1.0,
    weighting: str = "precision",
    warp_penalty: float = 0.0,
    relax: str | tuple[float, ...] | None = None,
) -> Case:
    """One problem; ``uncertainty`` is "none", "steps", "x", "features" or "joint".

    ``relax`` may be four fractions of what is possible.
    """
    rng = np.random.default_rng(seed)

    def tensor(*shape: int) -> Tensor:
        return torch.from_numpy(rng.standard_normal(shape))

    def positive(*shape: int) -> Tensor:
        return torch.from_numpy(rng.uniform(0.3, 3.0, shape))

    if given_cost:
        tensors = {"cost": scale * tensor(count, rows, columns)}
    else:
        tensors = {"x": scale * tensor(count, rows, dim), "y": scale * tensor(count, columns, dim)}
    features = (dim,) if uncertainty == "features" and not given_cost else ()
    if uncertainty in ("steps", "x", "features"):
        tensors["var_x"] = positive(count, rows, *features)
    if uncertainty in ("steps", "features"):
        tensors["var_y"] = positive(count, columns, *features)
    if uncertainty == "joint":
        tensors["variance"] = positive(count, rows, columns)
    tensors["gamma"] = torch.tensor(gamma, dtype=torch.float64)
    options: dict[str, Any] = {"weighting": weighting}
    if weighting == "precision":
        options |= {"beta": 0.7, "lam": 0.3}
    else:
        tensors["beta"] = torch.tensor(0.7, dtype=torch.float64)
    if warp_penalty != 0:
        tensors["warp_penalty"] = torch.tensor(warp_penalty, dtype=torch.float64)
    n, m = np.full(count, rows), np.full(count, columns)
    if ragged:
        n, m = rng.integers(1, rows + 1, count), rng.integers(1, columns + 1, count)
        options |= {"lengths_x": torch.from_numpy(n), "lengths_y": torch.from_numpy(m)}
    if isinstance(relax, tuple):
        most = n.min() - 1, n.min() - 1, m.min() - 1, m.min() - 1
        relax = tuple(round(share * count) for share, count in zip(relax, most, strict=True))
    options["relax"] = relax
    if band == "mask":
        # One mask for all pairs must lead to every pair's end: the union of one mask per pair does.
        masks = [random_mask(rng, rows, columns, *size) for size in zip(n, m, strict=True)]
        options["band"] = torch.from_numpy(np.logical_or.reduce(masks))
    elif band == "masks":
        masks = [random_mask(rng, rows, columns, *size) for size in zip(n, m, strict=True)]
        options["band"] = torch.from_numpy(np.stack(masks))
    else:
        options["band"] = band
    return Case(tensors, options)


RELAXED_SIDE = 4
"""Relaxed ends make many paths, and the list of them long."""


def cases(max_side: int = 6, weightings: tuple[str, ...] = ("precision", "likelihood"), relaxed: bool = True):
    """Hypothesis strategy over all kinds of problems up to ``max_side`` × ``max_side``, smaller with relaxed ends."""

    def build(relax, **options):
        if relax is not None:
            options |= {side: min(options[side], RELAXED_SIDE) for side in ("rows", "columns")}
        return make_case(relax=relax, **options)

    side, share = st.integers(1, max_side), st.floats(0, 1)
    ends = st.sampled_from(["x", "y", "both"]) | st.tuples(share, share, share, share)
    return st.builds(
        build,
        seed=st.integers(0, 2**31),
        count=st.integers(1, 3),
        rows=side,
        columns=side,
        dim=st.sampled_from([1, 2, 3, 20]),
        gamma=st.floats(-3, 2).map(lambda exponent: 10.0**exponent),
        uncertainty=st.sampled_from(["none", "steps", "x", "features", "joint"]),
        band=st.sampled_from(BANDS),
        ragged=st.booleans(),
        given_cost=st.booleans(),
        weighting=st.sampled_from(weightings),
        warp_penalty=st.sampled_from([0.0, 0.0, 0.6, -0.3]),
        relax=st.none() | ends if relaxed else st.none(),
    )
