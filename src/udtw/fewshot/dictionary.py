"""A dictionary of sequences, learned without labels: samples are compared by the atoms that they resemble."""

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from udtw._io.distributed import Processes
from udtw._io.training import Task, own_randomness
from udtw.errors import OptionError
from udtw.fewshot.model import FewShotModel
from udtw.fewshot.stages import Stages, together
from udtw.fewshot.tasks import Source, keep_near, moved
from udtw.fewshot.tokens import Tokens, as_tokens


class Dictionary(nn.Module):
    """K atoms ``M_k``, sequences of τ' tokens, (K, τ', d).

    The code of a sequence is its locality-constrained soft assignment (LCSA) ``α_k ∝ exp(−τ'd²(Ψ, M_k)/γ')`` over its
    K' nearest atoms, zero elsewhere. Comparators give d² per step, hence τ': γ' is on the scale of sums along a path.
    ``n_atoms``, ``steps`` and ``dim`` are K, τ' and d, ``n_nearest`` is K' and ``temperature`` γ'.
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
        """Return the atoms as `Tokens`."""
        count, steps, _ = self.atoms.shape
        return Tokens(self.atoms, torch.full((count,), steps, device=self.atoms.device))

    def codes(self, distance: Tensor) -> Tensor:
        """Return ``α`` (B, K), rows that add up to one, from the distances (B, K) to the atoms."""
        score = distance * (-self.atoms.shape[1] / self.temperature)
        nearest = score.topk(self.n_nearest, 1).indices
        return torch.full_like(score, -torch.inf).scatter(1, nearest, score.gather(1, nearest)).softmax(1)

    def reconstruct(self, codes: Tensor) -> Tokens:
        """Return ``Σ_k α_k M_k`` of every code, (B, τ', d)."""
        steps = self.atoms.shape[1]
        features = torch.einsum("bk,ktd->btd", codes, self.atoms)
        return Tokens(features, torch.full((len(codes),), steps, device=codes.device))


def histogram_intersection(x: Tensor, y: Tensor) -> Tensor:
    """Return ``Σ_k min(x_k, y_k)`` (Q, S) of codes (Q, K) and (S, K): 1 for equal codes, 0 for disjoint ones."""
    return torch.minimum(x[:, None], y[None]).sum(2)


class DictionaryTask(Task):
    """Training without labels: ``min over atoms and encoder of mean_b d²(Ψ_b, Σ_k α_bk M_k) + βΩ``.

    With ``weighting="likelihood"`` of the model, the free energy F in place of ``d² + βΩ``.

    A step draws ``batch_size`` samples, makes ``dict_iter`` gradient steps on the atoms (rate ``dictionary_rate``) with
    the encoder fixed, then one on encoder and SigmaNet (``encoder_rate``) with the atoms and codes fixed. All distances
    are those of the model's comparator.

    The objective is least where all samples have the same tokens. To prevent that, the encoder's step also minimizes
    ``spread · mean over features of max(0, 1 − √d·std)``, with the standard deviation of the batch's tokens.

    With a ``fabric`` (lightning-fabric) of several processes, each compares its share of the samples with the atoms,
    which is nearly all of the work, and the distances are exchanged; every process does the rest for itself.

    Parameters
    ----------
    model : FewShotModel
    dictionary : Dictionary
    source : object with ``labels`` (n,) and ``batch(indices, generator)``
        The samples; labels are only counted.
    batch_size, dict_iter, dictionary_rate, encoder_rate, beta, spread
        As above.
    stages : callable
        What learns in a step besides the atoms, see `Stages`.
    seed : int
    fabric : lightning-fabric object, optional
        Already launched.
    plain_steps : bool
        Plain gradient steps on the atoms, as in the paper, instead of Adam's.
    """

    def __init__(  # noqa: PLR0913 (keyword options of a public class)
        self, model: FewShotModel, dictionary: Dictionary, source: Source, *, batch_size: int = 32, dict_iter: int = 10,
        dictionary_rate: float = 1e-3, encoder_rate: float = 1e-3, beta: float = 1.0, spread: float = 1.0,
        stages: Stages = together, seed: int = 0, fabric: Any = None, plain_steps: bool = False,
    ) -> None:  # fmt: skip
        self.processes = Processes(fabric)
        for module in (model, dictionary):
            if fabric is not None:
                fabric.to_device(module)
        self.model, self.dictionary, self.source = model, dictionary, source
        self.batch_size, self.dict_iter, self.beta, self.seed = batch_size, dict_iter, beta, seed
        self.spread, self.stages = spread, stages
        self.modules = {"model": model, "dictionary": dictionary}
        keep_near(source, model)
        self.optimizers = {
            "dictionary": (torch.optim.SGD if plain_steps else torch.optim.Adam)(
                dictionary.parameters(), lr=dictionary_rate
            ),
            "model": torch.optim.Adam(model.parameters(), lr=encoder_rate),
        }

    def step(self, number: int) -> float:
        device = self.dictionary.atoms.device
        generator = np.random.default_rng((self.seed, number))
        count = min(self.batch_size, len(self.source.labels))
        chosen = generator.choice(len(self.source.labels), count, replace=False)
        batch = moved(self.source.batch(chosen, generator), device)
        with own_randomness(self.seed, number, device=device):
            with torch.no_grad():
                fixed = self.model.encode(batch)
            for _ in range(self.dict_iter):
                self._descend("dictionary", self._loss(fixed, self.dictionary.reconstruct(self._codes(fixed))))
            encoded, target = as_tokens(self.model.encoder(batch)), self.dictionary.reconstruct(self._codes(fixed))
            target = Tokens(target.features.detach(), target.lengths)
            stages = self.stages(number)
            losses = [self._loss(self.model.with_variance(encoded, stage), target, stage) for stage in stages]
            if stages != ("sigma",):  # the features learn
                losses.append(self.spread * narrowness(encoded))
            return self._descend("model", torch.stack(losses).sum())

    def _loss(self, tokens: Tokens, target: Tokens, stage: str = "both") -> Tensor:
        target = self.model.with_variance(target, stage)
        energy = self.model.comparator.free_energy(tokens, target)
        return (self.model.comparator.paired(tokens, target).loss(self.beta) if energy is None else energy).mean()

    def _descend(self, name: str, loss: Tensor) -> float:
        """Make one step on the parameters of ``name`` only; return the objective before it."""
        optimizer = self.optimizers[name]
        optimizer.zero_grad(set_to_none=True)
        loss.backward(inputs=[p for group in optimizer.param_groups for p in group["params"]])
        optimizer.step()
        return float(loss.detach())

    @torch.no_grad()
    def _codes(self, tokens: Tokens) -> Tensor:
        return codes_of(self.model, self.dictionary, tokens, self.processes)


def narrowness(tokens: Tokens) -> Tensor:
    """Return ``mean over features of max(0, 1 − √d·std)``.

    It is 0 if features vary as those of unit tokens may, and at most 1.
    """
    values = tokens.features[tokens.inside]
    std = (values.var(0, correction=0) + 1e-8).sqrt()
    return torch.relu(1 - values.shape[1] ** 0.5 * std).mean()


def codes_of(model: FewShotModel, dictionary: Dictionary, tokens: Tokens, processes: Processes | None = None) -> Tensor:
    """Return the codes of encoded samples, (B, K); several ``processes`` compute their distances together."""
    processes = processes or Processes()
    rows = processes.rows(len(tokens), tokens.features.device)
    atoms = model.with_variance(dictionary.tokens())
    distance = model.comparator(tokens[rows], atoms).distance
    return dictionary.codes(processes.gather(distance, len(tokens)))
