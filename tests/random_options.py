"""One generator of alignment problems in which every option of `udtw.align` may occur beside every other.

`random_problem(seed)` is a function of the seed, so a failure is repeated by its number.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

import udtw
from udtw._engine.prior import admissible, parse

SERIES = ("x", "y", "var_x", "var_y")
ENERGIES = ("gamma", "stay_x", "stay_y", "gap_penalty", "gap_opening")
"""Leaves in units of the cost."""


@dataclass(frozen=True)
class Problem:
    """Tensors that may get gradients, and the other options; every problem is a batch."""

    seed: int
    tensors: dict[str, Tensor]
    options: dict[str, Any]
    lengths: np.ndarray
    """(2, B): true lengths."""

    def __str__(self) -> str:
        shapes = {name: tuple(one.shape) if one.ndim else round(one.item(), 3) for name, one in self.tensors.items()}
        return f"seed {self.seed}: {shapes}, {self.options}, lengths {self.lengths.tolist()}"

    @property
    def order(self) -> str:
        return self.options.get("order", "path")

    @property
    def gaps(self) -> bool:
        return "gap_penalty" in self.tensors

    @property
    def uncertain(self) -> bool:
        return "var_x" in self.tensors

    @property
    def padded(self) -> bool:
        rows, columns = self.tensors["x"].shape[1], self.tensors["y"].shape[1]
        return bool((self.lengths != [[rows], [columns]]).any())

    def with_tensors(self, **tensors: Tensor) -> "Problem":
        return replace(self, tensors=self.tensors | tensors)

    def with_options(self, **options: Any) -> "Problem":
        return replace(self, options=self.options | options)

    def leaves(self) -> dict[str, Tensor]:
        return {name: one.clone().requires_grad_() for name, one in self.tensors.items()}

    def align(self, leaves: dict[str, Tensor] | None = None) -> udtw.Alignment:
        arguments = dict(self.tensors if leaves is None else leaves)
        if "stay_x" in arguments:
            arguments["warp_penalty"] = arguments.pop("stay_x"), arguments.pop("stay_y")
        n, m = self.lengths
        return udtw.align(**arguments, **self.options, lengths_x=torch.tensor(n), lengths_y=torch.tensor(m))

    def pair(self, b: int) -> "Problem":
        """Return one pair of the batch, as padded as it is there."""
        tensors = {name: one[b : b + 1] if name in SERIES else one for name, one in self.tensors.items()}
        options = dict(self.options)
        if "anchors" in options:
            options["anchors"] = [options["anchors"][b]]
        return replace(self, tensors=tensors, options=options, lengths=self.lengths[:, b : b + 1])

    def exchanged(self) -> "Problem":
        """Return the problem with x and y in each other's place. Tie points belong to steps of x, so they must go."""
        names = {"x": "y", "var_x": "var_y", "stay_x": "stay_y"}
        names |= {new: old for old, new in names.items()}
        options = dict(self.options)
        options.pop("anchors", None)
        if isinstance(relax := options.get("relax"), tuple):
            options["relax"] = relax[2:] + relax[:2]
        elif relax in ("x", "y"):
            options["relax"] = "y" if relax == "x" else "x"
        tensors = {names.get(name, name): one for name, one in self.tensors.items()}
        return replace(self, tensors=tensors, options=options, lengths=self.lengths[::-1].copy())

    def reversed(self) -> "Problem":
        """Return the problem with both series read backwards."""
        tensors = dict(self.tensors)
        for name in SERIES:
            if name in tensors:
                tensors[name] = backwards(tensors[name], self.lengths[int(name in ("y", "var_y"))])
        options = dict(self.options)
        if isinstance(relax := options.get("relax"), tuple):
            options["relax"] = relax[1], relax[0], relax[3], relax[2]
        if "anchors" in options:
            options["anchors"] = [
                [(n - 1 - i, m - 1 - j, sd) for i, j, sd in reversed(ties)]
                for ties, n, m in zip(options["anchors"], *self.lengths.tolist(), strict=True)
            ]
        return replace(self, tensors=tensors, options=options)

    def with_padding(self, steps: int, filling: float) -> "Problem":
        """Return the problem with more steps behind every sequence, which hold ``filling``."""
        tensors = dict(self.tensors)
        for name in SERIES:
            if name in tensors:
                one = tensors[name]
                more = torch.full((one.shape[0], steps, *one.shape[2:]), filling, dtype=one.dtype)
                tensors[name] = torch.cat([one, more], 1)
        return replace(self, tensors=tensors)

    def in_other_units(self, factor: float) -> "Problem":
        """Return the problem with series times ``factor``: with variances nothing else knows of the units."""
        tensors = {name: factor * one if name in ("x", "y") else one for name, one in self.tensors.items()}
        for name, series in (("var_x", "x"), ("var_y", "y")):
            if self.uncertain:
                given = tensors.get(name, torch.ones(tensors[series].shape[:2], dtype=torch.float64))
                tensors[name] = factor**2 * given
        if not self.uncertain:
            tensors |= {name: factor**2 * tensors[name] for name in ENERGIES if name in tensors}
            tensors |= {name: tensors[name] / factor for name in ("reach",) if name in tensors}
        return replace(self, tensors=tensors)


def backwards(series: Tensor, lengths: np.ndarray) -> Tensor:
    """(B, T, …) with the steps of each sequence in reverse, and padding where it was."""
    turned = series.clone()
    for b, length in enumerate(lengths.tolist()):
        turned[b, :length] = series[b, :length].flip(0)
    return turned


def random_problem(seed: int) -> Problem:
    """Draw a problem: any order, prices, gaps, tie points, ends, bands, variances, weightings and lengths."""
    rng = np.random.default_rng(seed)
    count, dim = int(rng.integers(1, 4)), int(rng.choice([1, 2, 3, 17]))
    order = str(rng.choice(["path"] * 8 + ["set", "grid"]))
    rows, columns = rng.integers(1, 8, 2).tolist()
    options: dict[str, Any] = {"order": order}
    if order == "grid":
        options["shape"] = tuple(rng.integers(1, 4, 2).tolist())
        rows = columns = int(np.prod(options["shape"]))

    def number(low: float, high: float) -> Tensor:
        return torch.tensor(rng.uniform(low, high), dtype=torch.float64)

    def tensor(draw: Any, *shape: int) -> Tensor:
        return torch.from_numpy(draw(size=shape))

    lengths = np.array([[rows] * count, [columns] * count])
    if rng.random() < 0.5:
        lengths = np.stack([rng.integers(1, side + 1, count) for side in (rows, columns)])
    tensors = {
        "x": tensor(rng.standard_normal, count, rows, dim),
        "y": tensor(rng.standard_normal, count, columns, dim),
    }
    tensors["gamma"] = 10 ** number(-1, 1)
    variances = str(rng.choice(["none", "x", "steps", "features"]))
    of_features = (dim,) if variances == "features" else ()
    if variances != "none":
        tensors["var_x"] = tensor(lambda size: rng.uniform(0.3, 3, size), count, rows, *of_features)
    if variances in ("steps", "features"):
        tensors["var_y"] = tensor(lambda size: rng.uniform(0.3, 3, size), count, columns, *of_features)
    if order == "grid":
        tensors["reach"] = number(0.5, 3)
    gaps = order == "path" and rng.random() < 0.35
    if order == "path":
        options |= _random_prior(rng, lengths)
        if rng.random() < 0.5:
            tensors |= {"stay_x": number(-0.3, 1), "stay_y": number(-0.3, 1)}
        if gaps:
            tensors["gap_penalty"] = number(0.05, 2)
            tensors |= {"gap_opening": number(0, 1)} if rng.random() < 0.5 else {}
    if order == "path" and not gaps and rng.random() < 0.25:
        options |= {"weighting": "precision", "beta": 0.7, "lam": float(rng.choice([0.0, 0.3]))}
    else:
        tensors["beta"] = number(0, 1.5)
    return Problem(seed, tensors, options, lengths)


def _random_prior(rng: np.random.Generator, lengths: np.ndarray) -> dict[str, Any]:
    options: dict[str, Any] = {}
    least = (lengths.min(1) - 1).tolist()
    ends = rng.random()
    if ends < 0.15:
        options["relax"] = str(rng.choice(["x", "y", "both"]))
    elif ends < 0.35:
        options["relax"] = tuple(int(rng.integers(0, least[side] + 1)) for side in (0, 0, 1, 1))
    if rng.random() < 0.4:
        options["band"] = [0, 1, 2, 0.3, 0.6, "itakura"][rng.integers(6)]
    if rng.random() < 0.3:
        inside = [_inside(options.get("band"), n, m) for n, m in lengths.T.tolist()]
        options["anchors"] = [_random_ties(rng, one) for one in inside]
    return options


def _inside(band: Any, n: int, m: int) -> np.ndarray:
    """(n, m) bool: the cells that a band admits."""
    return admissible(parse(band, 1, n, m, torch.device("cpu")), torch.tensor([[n], [m]]), n, m)[0].numpy()


def _random_ties(rng: np.random.Generator, inside: np.ndarray) -> list[tuple[int, int, float | None]]:
    """Ties that do not cross; an exact one between inner steps without a band, so that there is always a path."""
    n, m = inside.shape
    if inside.all() and min(n, m) > 2 and rng.random() < 0.4:
        return [(int(rng.integers(1, n - 1)), int(rng.integers(1, m - 1)), None)]
    cells = np.argwhere(inside)
    ties = cells[rng.integers(0, len(cells), 2)].tolist()
    crossing = (ties[0][0] - ties[1][0]) * (ties[0][1] - ties[1][1]) < 0
    return [(i, j, float(rng.uniform(0.5, 3))) for i, j in sorted(ties[:1] if crossing else ties)]
