"""A dictionary of sequences, learned without labels: samples are compared by the atoms that they resemble."""

import torch
from torch import Tensor, nn

from udtw.errors import OptionError
from udtw.fewshot.tokens import Tokens


class Dictionary(nn.Module):
    """K atoms ``M_k``, sequences of τ' tokens, (K, τ', d).

    The code of a sequence is its locality-constrained soft assignment (LCSA) ``α_k ∝ exp(−τ'd²(Ψ, M_k)/γ')`` over its
    K' nearest atoms, zero elsewhere. Comparators give d² per step, hence τ': γ' is on the scale of sums along a path.

    Parameters
    ----------
    n_atoms, steps, dim : int
        K, τ' and d.
    n_nearest : int
        K'.
    temperature : float
        γ'.

    Examples
    --------
    >>> import torch
    >>> from udtw.fewshot import Dictionary
    >>> dictionary = Dictionary(n_atoms=4, steps=5, dim=3, n_nearest=2)
    >>> codes = dictionary.codes(torch.tensor([[0.1, 0.1, 0.9, 2.0]]))  # distances to the atoms
    >>> codes
    tensor([[0.5000, 0.5000, 0.0000, 0.0000]])
    >>> dictionary.reconstruct(codes).features.shape
    torch.Size([1, 5, 3])
    """

    def __init__(self, n_atoms: int, steps: int, dim: int, n_nearest: int = 8, temperature: float = 0.7) -> None:
        super().__init__()
        if not 1 <= n_nearest <= n_atoms:
            raise OptionError(f"n_nearest must lie between 1 and n_atoms={n_atoms}; got {n_nearest}.")
        if temperature <= 0:
            raise OptionError(f"temperature must be positive; got {temperature}.")
        self.n_nearest, self.temperature = n_nearest, temperature
        self.atoms = nn.Parameter(torch.zeros(n_atoms, steps, dim))

    def start_from(self, tokens: Tokens) -> None:
        """Set the atoms to the first K of the given sequences, resampled to τ' steps."""
        count, steps, _ = self.atoms.shape
        if len(tokens) < count:
            raise OptionError(
                f"A dictionary of {count} atoms needs as many sequences to start from; got {len(tokens)}."
            )
        with torch.no_grad():
            self.atoms.copy_(tokens[:count].resampled(steps))

    def tokens(self) -> Tokens:
        """The atoms as `Tokens`."""
        count, steps, _ = self.atoms.shape
        return Tokens(self.atoms, torch.full((count,), steps, device=self.atoms.device))

    def codes(self, distance: Tensor) -> Tensor:
        """``α`` (B, K), rows that add up to one, from the distances (B, K) to the atoms."""
        score = distance * (-self.atoms.shape[1] / self.temperature)
        nearest = score.topk(self.n_nearest, 1).indices
        return torch.full_like(score, -torch.inf).scatter(1, nearest, score.gather(1, nearest)).softmax(1)

    def reconstruct(self, codes: Tensor) -> Tokens:
        """``Σ_k α_k M_k`` of every code, (B, τ', d)."""
        steps = self.atoms.shape[1]
        features = torch.einsum("bk,ktd->btd", codes, self.atoms)
        return Tokens(features, torch.full((len(codes),), steps, device=codes.device))


def histogram_intersection(x: Tensor, y: Tensor) -> Tensor:
    """``Σ_k min(x_k, y_k)`` (Q, S) of codes (Q, K) and (S, K): 1 for equal codes, 0 for disjoint ones."""
    return torch.minimum(x[:, None], y[None]).sum(2)
