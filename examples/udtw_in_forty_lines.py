"""Compute uncertainty-DTW of one pair of sequences in plain torch: the whole method, slow but easy to read.

A path runs from cell (0, 0) to cell (N − 1, M − 1) of the table of all matches, by steps down, right or diagonal. Its
energy is the sum over its cells; its probability is proportional to exp(−energy / γ). `udtw.align` computes the same.
"""

import torch
from torch import Tensor


def soft_min(values: list[Tensor], gamma: float) -> Tensor:
    """Return −γ log Σ exp(−value / γ), which tends to the minimum as γ → 0."""
    return -gamma * torch.logsumexp(-torch.stack(values) / gamma, 0)


def soft_min_over_paths(energy: Tensor, gamma: float) -> Tensor:
    """Return −γ log Z, where Z sums exp(−energy / γ) over all paths, from the energies of the cells (N, M)."""
    rows, columns = energy.shape
    until: dict[tuple[int, int], Tensor] = {}  # soft minimum over all paths that end in a cell
    for m in range(rows):
        for n in range(columns):
            predecessors = [until[cell] for cell in ((m - 1, n - 1), (m - 1, n), (m, n - 1)) if cell in until]
            until[m, n] = energy[m, n] + (soft_min(predecessors, gamma) if predecessors else 0.0)
    return until[rows - 1, columns - 1]


def align(
    x: Tensor, y: Tensor, var_x: Tensor, var_y: Tensor, gamma: float = 1.0, beta: float = 1.0
) -> tuple[Tensor, Tensor]:
    """Align sequences (N, d) and (M, d) with variances (N,) and (M,).

    Return the loss, which is the free energy, and the coupling (N, M): the probability that the path visits a cell.
    """
    squared_distance = (x[:, None] - y[None]).square().sum(2)
    variance = 0.5 * (var_x[:, None] + var_y[None])
    # Relative to the mean log variance, log Σ favors neither short nor long paths, whatever the unit of x and y.
    level = 0.5 * (var_x.log().mean() + var_y.log().mean())
    energy = (squared_distance / variance + beta * (variance.log() - level)).requires_grad_()
    free_energy = soft_min_over_paths(energy, gamma) + 0.5 * beta * (len(x) + len(y)) * level
    (coupling,) = torch.autograd.grad(free_energy, energy, retain_graph=True)
    return free_energy, coupling


if __name__ == "__main__":
    x = torch.tensor([[0.0], [1.0], [9.0], [1.0], [0.0]], requires_grad=True)
    y = torch.tensor([[0.0], [1.0], [2.0], [1.0], [0.0]])
    var_x = torch.tensor([1.0, 1.0, 50.0, 1.0, 1.0])  # the third value of x is an outlier, and known to be uncertain
    loss, coupling = align(x, y, var_x, torch.ones(5))
    loss.backward()  # gradients reach x, y and the variances
    print(f"loss {loss.item():.3f}", "coupling", coupling, "gradient in x", x.grad, sep="\n")
