"""Dictionary learning without labels: dictionary steps and encoder steps take turns."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from udtw.distributed import Processes
from udtw.fewshot.dictionary import Dictionary
from udtw.fewshot.loop import own_randomness
from udtw.fewshot.model import FewShotModel
from udtw.fewshot.source import Source, moved
from udtw.fewshot.tokens import Tokens


class DictionaryTask:
    """``min over atoms and encoder of mean_b d²(Ψ_b, Σ_k α_bk M_k) + βΩ``; see `udtw.fewshot.loop.run`.

    A step draws ``batch_size`` samples, makes ``dict_iter`` gradient steps on the atoms (rate ``dictionary_rate``) with
    the encoder fixed, then one on encoder and SigmaNet (``encoder_rate``) with the atoms and codes fixed. All distances
    are those of the model's comparator.

    The objective is least where all samples have the same tokens. Against that, the encoder's step also minimises
    ``spread · mean over features of max(0, 1 − √d·std)``, the standard deviation being that of the batch's tokens.

    With a ``fabric`` (lightning-fabric) of several processes, each compares its share of the samples with the atoms,
    which is nearly all of the work, and the distances are exchanged; the rest every process does for itself.
    """

    def __init__(
        self, model: FewShotModel, dictionary: Dictionary, source: Source, *, batch_size: int = 32, dict_iter: int = 10,
        dictionary_rate: float = 1e-3, encoder_rate: float = 1e-3, beta: float = 1.0, spread: float = 1.0,
        seed: int = 0, fabric: Any = None,
    ) -> None:  # fmt: skip
        self.processes = Processes(fabric)
        for module in (model, dictionary):
            if fabric is not None:
                fabric.to_device(module)
        self.model, self.dictionary, self.source = model, dictionary, source
        self.batch_size, self.dict_iter, self.beta, self.seed = batch_size, dict_iter, beta, seed
        self.spread = spread
        self.modules: Mapping[str, nn.Module] = {"model": model, "dictionary": dictionary}
        self.optimizers: Mapping[str, Optimizer] = {
            "dictionary": torch.optim.Adam(dictionary.parameters(), lr=dictionary_rate),
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
                self._descend("dictionary", fixed, self._codes(fixed))
            return self._descend("model", self.model.encode(batch), self._codes(fixed))

    def _descend(self, name: str, tokens: Tokens, codes: Tensor) -> float:
        """One step on the parameters of ``name`` only; returns the objective before it."""
        optimizer = self.optimizers[name]
        target = self.dictionary.reconstruct(codes)
        if name == "model":
            target = Tokens(target.features.detach(), target.lengths)
        loss = self.model.comparator.paired(tokens, self.model.with_variance(target)).loss(self.beta).mean()
        if name == "model":
            loss = loss + self.spread * narrowness(tokens)
        optimizer.zero_grad(set_to_none=True)
        loss.backward(inputs=[p for group in optimizer.param_groups for p in group["params"]])
        optimizer.step()
        return float(loss.detach())

    @torch.no_grad()
    def _codes(self, tokens: Tokens) -> Tensor:
        return codes_of(self.model, self.dictionary, tokens, self.processes)


def narrowness(tokens: Tokens) -> Tensor:
    """``mean over features of max(0, 1 − √d·std)``: 0 where features vary as those of unit tokens may, 1 at worst."""
    values = tokens.features[tokens.inside]
    std = (values.var(0, correction=0) + 1e-8).sqrt()
    return torch.relu(1 - values.shape[1] ** 0.5 * std).mean()


def codes_of(model: FewShotModel, dictionary: Dictionary, tokens: Tokens, processes: Processes | None = None) -> Tensor:
    """(B, K): the codes of encoded samples, whose distances several ``processes`` may find together."""
    processes = processes or Processes()
    rows = processes.rows(len(tokens)).to(tokens.features.device)
    atoms = model.with_variance(dictionary.tokens())
    distance = model.comparator(tokens[rows], atoms).distance
    return dictionary.codes(processes.gather(distance, len(tokens)))
