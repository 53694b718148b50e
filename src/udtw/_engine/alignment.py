"""`Alignment`: what `udtw.align` found, computed when it is first asked for."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from udtw._engine.distribution import PathDistribution
from udtw._engine.lazy import lazy
from udtw._engine.matches import Matches, tail_of
from udtw._engine.problem import COST, DEVIATION, LOG_VARIANCE, ONE
from udtw._kernels import memory_estimate
from udtw.errors import OptionError


@dataclass(frozen=True)
class Reported:
    """What `align` was asked to report."""

    weighting: str
    beta: Any
    lam: float
    distance: str
    debias: bool
    normalize: str | None
    relax: Any


@dataclass(frozen=True, repr=False)
class Alignment:
    """What `align` found. Everything is differentiable; what is not asked for is not computed.

    >>> import udtw
    >>> a = udtw.align([0.0, 1.0, 2.0], [0.0, 2.0, 2.0])
    >>> a.coupling.shape, a.paths.mode().tolist()
    ((3, 3), [[0, 0], [1, 1], [2, 2]])
    """

    paths: PathDistribution
    """The distribution over alignment paths."""
    _options: Reported
    _labels: tuple[Any, Any] = (None, None)
    """The pandas indices of x and of y."""

    @lazy
    def loss(self) -> Any:
        """(B,): the free energy, or ``d² + βΩ + λΩ'`` for "precision", debiased and normalized by the options."""
        if self._options.weighting == "precision":
            return self.paths._form.restore(self._weighted_terms[2])
        return self.paths._form.restore(self._reported(None))

    @lazy
    def distance(self) -> Any:
        """``d² = E[C]``, (B,), or with ``distance="soft_min"`` the soft-min, debiased and normalized by the options."""
        if self._options.weighting == "precision":
            return self.paths._form.restore(self._weighted_terms[0])
        return self.paths._form.restore(self._reported(COST))

    @lazy
    def regularizer(self) -> Any:
        """``Ω = E[log Σ]``, (B,), normalized like the distance."""
        if self._options.weighting == "precision":
            return self.paths._form.restore(self._weighted_terms[1])
        return self.paths._form.restore(self._mean(self.paths, LOG_VARIANCE))

    @property
    def weighting(self) -> str:
        """The energy of a path, "likelihood" or "precision"."""
        return self._options.weighting

    @property
    def free_energy(self) -> Any:
        """``F = −γ log Z`` of the path energy, (B,): ``E[energy] − γ·entropy``. Never debiased nor normalized."""
        return self.paths.soft_min

    @property
    def warps(self) -> Any:
        """E[number of non-diagonal steps], (B,)."""
        return self.paths.warps

    def matches(self, level: float = 0.9, of: str = "x") -> Matches:
        """For every step of x (or ``of="y"``) its partner, with probability and credible interval.

        Sequences of few features need no (N, M) matrix for it, however long they are.

        Parameters
        ----------
        level : float
            Probability with which the partner lies in [low, high], both ends included; equal tails.
        of : "x" or "y"
        """
        if of not in ("x", "y"):
            raise OptionError(f"of must be 'x' or 'y'; got {of!r}.")
        tail, problem = tail_of(level), self.paths._for_kernels
        sums = self.paths._backend.match_sums(problem if of == "x" else problem.transposed(), tail)
        labels = self._labels if of == "x" else self._labels[::-1]
        return Matches.of(sums, problem.lengths[int(of == "y")], self.paths._form, labels)

    @lazy
    def variance(self) -> Any:
        """``Σ`` (B, N, M), or (B, N, M, d) if every feature has its own."""
        problem = self.paths._problem
        memory_estimate.refuse_cost_matrix(problem)
        variance = problem.pair_variance()
        if variance is None:
            variance = problem.main.new_ones(problem.shape)
        return self.paths._form.restore(variance)

    @property
    def uncertain(self) -> bool:
        """Whether variances were given; otherwise Σ is 1 throughout."""
        return self.paths._problem.uncertain

    @property
    def step_variances(self) -> tuple[Any, Any]:
        """``σ²`` of the steps of x (B, N) and of y (B, M) as they were given; None for both if they were not."""
        given = self.paths._problem.var_x, self.paths._problem.var_y
        x, y = (None if one is None else self.paths._form.restore(one) for one in given)
        return x, y

    @lazy
    def cost(self) -> Any:
        """``C = D / Σ`` (B, N, M)."""
        memory_estimate.refuse_cost_matrix(self.paths._problem)
        return self.paths._form.restore(self.paths._problem.weighted_cost())

    @property
    def coupling(self) -> Any:
        """``π*`` (B, N, M): the probability that m is matched with n. Zero outside the lengths."""
        return self.paths.coupling

    def __repr__(self) -> str:
        count, rows, columns = self.paths._problem.shape
        return f"Alignment({count} pair(s) of {rows} × {columns} steps, weighting={self._options.weighting!r})"

    @lazy
    def _selves(self) -> list[PathDistribution]:
        """Return the distributions of x with itself and of y with itself."""
        problem, form, backend = self.paths._problem, self.paths._form, self.paths._backend
        selves = (problem.self_pair(side, self._options.relax) for side in ("x", "y"))
        return [PathDistribution._of(one, form, backend) for one in selves]

    def _reported(self, which: int | None) -> Tensor:
        """Return a value of the pair, normalized, and less half those of x and of y with themselves."""
        found = self._mean(self.paths, which)
        if self._options.debias:
            found = found - 0.5 * sum(self._mean(one, which) for one in self._selves)
        return found

    def _mean(self, paths: PathDistribution, which: int | None) -> Tensor:
        """Return the expectation of a built-in field, or for None the free energy, normalized."""
        normalize = self._options.normalize
        if normalize == "path":  # both from one sweep
            wanted = [ONE] if which is None else [ONE, which]
            free_energy, size, *mean = paths._backend.sums(paths._for_kernels, wanted).unbind(1)
            return (mean[0] if mean else free_energy) / size
        value = paths._free_energy if which is None else paths._mean(which)
        return value if normalize is None else value / paths._problem.lengths.amax(0)

    @lazy
    def _weighted_terms(self) -> tuple[Tensor, Tensor, Tensor]:
        """Distance, regulariser and loss of the paper's weighting, (B,) each, with as few sweeps as possible."""
        options, problem = self._options, self.paths._problem
        beta, wanted = options.beta, [COST] if options.distance == "expected" else []
        if problem.uncertain:
            wanted.append(LOG_VARIANCE)
            if options.lam:
                wanted.append(DEVIATION)
        if options.normalize == "path":
            wanted.append(ONE)
        weight = float(beta.detach() if isinstance(beta, Tensor) else beta)

        def terms(paths: PathDistribution) -> tuple[dict[int, Tensor], Tensor | None]:
            """Return expectations by field, and their sum where the kernel has made it already."""
            usual = [COST, LOG_VARIANCE] if problem.uncertain else [COST]
            fused = paths._backend.loss_terms(paths._for_kernels, weight) if wanted == usual else None
            if fused is None:
                loss = None
                if wanted:
                    soft_min, *means = paths._backend.sums(paths._for_kernels, wanted).unbind(1)
                else:
                    soft_min, means = paths._free_energy, []
                found = dict(zip(wanted, means, strict=True))
                found.setdefault(COST, soft_min)
            else:
                loss, found = fused[0], dict(zip(usual, fused[1:], strict=False))
            if options.normalize is not None:
                size = found[ONE] if options.normalize == "path" else paths._problem.lengths.amax(0)
                found, loss = {which: value / size for which, value in found.items()}, None
            return found, loss

        found, loss = terms(self.paths)
        total = found[COST]
        if options.debias:
            total = total - 0.5 * sum(terms(one)[0][COST] for one in self._selves)
        omega = found[LOG_VARIANCE] if LOG_VARIANCE in found else torch.zeros_like(total)
        if loss is None or options.debias or isinstance(beta, Tensor):
            loss = torch.add(total, omega, alpha=beta) if isinstance(beta, float) else total + beta * omega
        if DEVIATION in found:
            loss = loss + options.lam * found[DEVIATION]
        return total, omega, loss
