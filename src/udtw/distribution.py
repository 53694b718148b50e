"""`PathDistribution`: the Gibbs distribution over monotone alignment paths of a cost matrix."""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from udtw import inputs, prior
from udtw.errors import LengthError, PathError, ShapeError
from udtw.inputs import ArrayLike, Form
from udtw.kernels import memory_estimate
from udtw.kernels.backends import choose
from udtw.kernels.base import Backend
from udtw.lazy import lazy
from udtw.path_sampling import walk_back, walk_choices
from udtw.problem import COST, LOG_VARIANCE, Problem, make_problem


class PathDistribution:
    """``π(Π) = exp(−⟨Π, C⟩/γ) / Z`` over the paths Π from the first to the last cell of ``cost``.

    A path moves by (1, 0), (0, 1) or (1, 1). Everything is exact and, except `mode` and `sample`, differentiable in
    ``cost``, in the fields and in ``gamma`` (if it is a tensor).

    Parameters
    ----------
    cost : (B, N, M) or (N, M)
        Torch tensor or NumPy array; results come back in the same form, without the batch axis for one matrix.
    gamma : float or tensor
        Temperature, one number or one per pair.
    lengths : None, tuple ``(lengths_x, lengths_y)`` of ints or (B,) arrays, or an array (B, 2)
        True sizes of padded matrices; what lies outside is never read.
    band : None, int, float, "itakura" or boolean mask
        Which cells a path may use, see `udtw.prior`.
    backend : "auto", "numba", "portable" or "enumeration"
    warp_penalty : float or tensor
        ω, added to the cost of a path for each non-diagonal step: one number or one per pair. A tensor gets its
        gradient, ``∂ soft_min/∂ω = E[warps]``.

    Examples
    --------
    >>> import torch
    >>> from udtw import PathDistribution
    >>> paths = PathDistribution(torch.zeros(3, 3))  # all 13 paths are equally likely
    >>> round(paths.entropy.exp().item(), 3), round(paths.coupling[1, 1].item(), 3)
    (13.0, 0.692)
    >>> paths.mode()[0].tolist()
    [[0, 0], [1, 1], [2, 2]]
    """

    def __init__(
        self,
        cost: ArrayLike,
        gamma: float | Tensor = 1.0,
        lengths: Any = None,
        band: Any = None,
        backend: str = "auto",
        *,
        warp_penalty: Any = 0.0,
    ):
        tensor, single = inputs.matrix("cost", cost)
        self._form = Form(numpy=not isinstance(cost, Tensor), single=single)
        self._backend = choose(backend, tensor)
        self._problem = make_problem({"cost": tensor}, gamma, _both_lengths(lengths, tensor.shape[0]), band)
        self._beta: Tensor | None = None
        self._warp_penalty: Tensor | None = penalty_of(warp_penalty, self._problem)

    @classmethod
    def _of(
        cls, problem: Problem, form: Form, backend: Backend, beta: Tensor | None = None, warp: Tensor | None = None
    ) -> "PathDistribution":
        """From parts that are already validated; the matrix of the cells is made only if a question needs it."""
        self = cls.__new__(cls)
        self._form, self._backend, self._problem = form, backend, problem
        self._beta, self._warp_penalty = beta, warp
        return self

    @lazy
    def _matrix(self) -> Problem:
        """The problem described by what each cell costs a path."""
        if self._problem.cost is not None and not self._problem.uncertain and self._warp_penalty is None:
            return self._problem
        memory_estimate.refuse_cost_matrix(self._problem)
        return self._problem.as_matrix(self._beta, self._warp_penalty)

    @property
    def _cost(self) -> Tensor:
        return self._matrix.main

    @property
    def _steps(self) -> Tensor:
        """N + M of each pair, (B,)."""
        return self._problem.lengths.sum(0).to(self._problem.main.dtype)

    def _soft_min_and_means(self, wanted: list[int]) -> tuple[Tensor, dict[int, Tensor]]:
        """soft_min (B,), and E[F] (B,) of built-in fields F by number, without a matrix if the backend can."""
        if self._beta is None and self._warp_penalty is None:
            soft_min, *means = self._backend.sums(self._for_kernels, wanted).unbind(1)
        else:
            fields = [self._problem.field(which) for which in wanted]
            soft_min = self._free_energy
            means = list(self._backend.expectations(self._matrix, fields).unbind(1)) if fields else []
        return soft_min, dict(zip(wanted, means, strict=True))

    def _loss_terms(self, wanted: list[int], beta: float) -> tuple[Tensor, dict[int, Tensor]] | None:
        """``E[C] + β E[log Σ]`` and both terms, with their gradient already computed; None if that saves no time."""
        usual = [COST, LOG_VARIANCE] if self._problem.uncertain else [COST]
        if wanted != usual or self._warp_penalty is not None:
            return None
        found = self._backend.loss_terms(self._for_kernels, beta)
        return None if found is None else (found[0], dict(zip(usual, found[1:], strict=False)))

    @lazy
    def _for_kernels(self) -> Problem:
        if self._problem.x is not None and not self._problem.few_features:
            memory_estimate.refuse_cost_matrix(self._problem)
        return self._problem.with_cost_of_many_features()

    @lazy
    def soft_min(self) -> Any:
        """``−γ log Z``, (B,): the soft-DTW value of the cost, with the warp penalty."""
        return self._form.restore(self._free_energy)

    @lazy
    def _soft_min(self) -> Tensor:
        """That of the matrix, which is larger than `soft_min` by the constant ω(N + M)."""
        return self._backend.sums(self._matrix, [])[:, 0]

    @property
    def _free_energy(self) -> Tensor:
        return self._soft_min if self._warp_penalty is None else self._soft_min - self._warp_penalty * self._steps

    @lazy
    def warps(self) -> Any:
        """E[number of non-diagonal steps], (B,)."""
        return self._form.restore(self._warps)

    @lazy
    def _warps(self) -> Tensor:
        cells = self._backend.expectations(self._matrix, [torch.ones_like(self._cost)])[:, 0]
        return 2 * cells - self._steps

    @lazy
    def coupling(self) -> Any:
        """``π* = E[Π]``, (B, N, M): the probability that the path visits each cell."""
        return self._form.restore(self._coupling)

    @lazy
    def _coupling(self) -> Tensor:
        return self._backend.coupling(self._matrix)

    @lazy
    def entropy(self) -> Any:
        """``H = (E[C] − soft_min)/γ`` in nats, (B,): 0 for one certain path.

        The difference is taken in float64, where it does not cancel.
        """
        cost, gamma = self._cost.double(), self._problem.gamma.double()
        values = self._backend.sums(self._matrix.replace(cost=cost, gamma=gamma), [COST])
        return self._form.restore(((values[:, 1] - values[:, 0]) / gamma).to(self._cost.dtype))

    def expect(self, *fields: ArrayLike) -> Any:
        """``E[F] = Σ_mn π*_mn F_mn``, (B,), for each field F (B, N, M); a tuple if there are several.

        One forward sweep computes all of them; the coupling is never formed.
        """
        if not fields:
            raise ShapeError("expect() needs at least one field of the cost's shape.")
        tensors = []
        for number, field in enumerate(fields):
            tensor, _ = inputs.matrix(f"field {number}", field)
            if tensor.shape[1:] != self._cost.shape[1:] or tensor.shape[0] not in (1, self._cost.shape[0]):
                raise ShapeError(
                    f"field {number} must have the cost's shape {tuple(self._cost.shape)}; got {tuple(tensor.shape)}."
                )
            tensors.append(tensor.to(self._cost).expand_as(self._cost))
        means = self._backend.expectations(self._matrix, tensors).unbind(1)
        results = tuple(self._form.restore(mean) for mean in means)
        return results[0] if len(results) == 1 else results

    def mode(self) -> list:
        """The most probable (least-cost) path of each pair: a list of B integer arrays (L, 2).

        Ties go to the diagonal step, then to the step along x.
        """
        _, choice = self._backend.least_cost(self._matrix, with_choice=True)
        return [self._form_path(path) for path in walk_choices(choice, self._problem.lengths)]

    def sample(self, k: int = 1, generator: torch.Generator | int | None = None) -> list:
        """``k`` independent paths per pair, exactly from π.

        A list of k integer arrays (L, 2) for one pair, a list of B such lists for a batch. ``generator`` is a
        `torch.Generator` or an int seed.
        """
        if k < 1:
            raise LengthError(f"sample() draws at least one path; got k={k}.")
        if isinstance(generator, int):
            generator = torch.Generator().manual_seed(generator)
        transitions = self._backend.transitions(self._matrix)
        drawn = [
            [self._form_path(path) for path in paths]
            for paths in walk_back(transitions, self._problem.lengths, k, generator)
        ]
        return drawn[0] if self._form.single else drawn

    def log_prob(self, path: Any) -> Any:
        """``log π(Π)``: of one path (L, 2), or of (nested) lists of paths as `mode` and `sample` return them.

        A path that leaves the band has probability zero, so −inf.
        """
        if self._form.single:
            return self._form.restore(self._log_prob(0, path)[None])
        if len(path) != self._problem.shape[0]:
            raise PathError(
                f"log_prob() needs one path, or one list of paths, for each of {self._problem.shape[0]} pairs."
            )
        return self._form.restore(torch.stack([self._log_prob(b, item) for b, item in enumerate(path)]))

    def _log_prob(self, b: int, path: Any) -> Tensor:
        if isinstance(path, list | tuple) and len(path) and np.ndim(path[0]) == 2:
            return torch.stack([self._log_prob(b, item) for item in path])
        i, j = self._checked_path(b, path).unbind(1)
        allowed = self._admissible[b, i, j].all()
        gamma = self._problem.gamma[b]
        value = (self._soft_min[b] - self._cost[b, i, j].sum()) / gamma
        return torch.where(allowed, value, -torch.inf)

    @lazy
    def _admissible(self) -> Tensor:
        return prior.admissible(self._problem.band, self._problem.lengths, *self._problem.shape[1:])

    def _checked_path(self, b: int, path: Any) -> Tensor:
        cells = path if isinstance(path, Tensor) else torch.from_numpy(np.array(path))
        n, m = self._problem.lengths[:, b].tolist()
        if cells.ndim != 2 or cells.shape[1] != 2 or cells.shape[0] == 0 or cells.is_floating_point():
            raise PathError(
                f"A path is an integer array (L, 2) of cells; got shape {tuple(cells.shape)}, {cells.dtype}."
            )
        if cells[0].tolist() != [0, 0] or cells[-1].tolist() != [n - 1, m - 1]:
            raise PathError(
                f"A path of pair {b} goes from [0, 0] to [{n - 1}, {m - 1}]; got {cells[0].tolist()} to "
                f"{cells[-1].tolist()}."
            )
        steps = cells[1:] - cells[:-1]
        wrong = ((steps < 0) | (steps > 1)).any(1) | (steps.sum(1) == 0)
        if bool(wrong.any()):
            at = int(torch.argmax(wrong.int()))
            raise PathError(
                f"A path moves by [1, 0], [0, 1] or [1, 1]; step {at} goes from {cells[at].tolist()} to "
                f"{cells[at + 1].tolist()}."
            )
        return cells.to(self._cost.device)

    def _form_path(self, path: Tensor) -> Any:
        return path.numpy() if self._form.numpy else path


def penalty_of(value: Any, problem: Problem) -> Tensor | None:
    """ω of each pair, (B,); None if it is the number zero."""
    if isinstance(value, int | float) and value == 0:
        return None
    return inputs.per_pair("warp_penalty", value, problem.shape[0], problem.main)


def _both_lengths(lengths: Any, count: int) -> tuple[Any, Any]:
    """(lengths_x, lengths_y) from a tuple of two, or from an array (B, 2)."""
    if lengths is None:
        return None, None
    if isinstance(lengths, tuple):
        if len(lengths) != 2:
            raise LengthError(f"lengths must be a tuple (lengths_x, lengths_y); got {len(lengths)} items.")
        return lengths
    table = lengths if isinstance(lengths, Tensor) else np.asarray(lengths)
    if table.ndim == 1 and count == 1:
        table = table[None]
    if table.ndim != 2 or tuple(table.shape) != (count, 2):
        raise LengthError(
            f"lengths must be a tuple (lengths_x, lengths_y) or an array of shape ({count}, 2); got shape "
            f"{tuple(table.shape)}."
        )
    return table[:, 0], table[:, 1]
