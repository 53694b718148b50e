"""What a few-shot model is trained for: episodes with labels; a dictionary or a contrast of views without."""

from contextlib import AbstractContextManager, nullcontext
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from udtw.distributed import Processes
from udtw.errors import OptionError
from udtw.fewshot.dictionary import Dictionary
from udtw.fewshot.episodes import EpisodeSampler
from udtw.fewshot.model import FewShotModel
from udtw.fewshot.stages import Stages, together
from udtw.fewshot.tokens import Tokens, as_tokens
from udtw.training import Task, cosine, own_randomness


class Source(Protocol):
    """Labelled samples that are made into batches for an encoder."""

    labels: np.ndarray
    """(n,) integer class of every sample."""

    def batch(self, indices: np.ndarray, generator: np.random.Generator | None = None) -> Any:
        """The samples as the encoder takes them, augmented by random numbers of ``generator`` if there is one.

        They are moved to the device of the model, unless the source has a method ``to(device)`` and makes them there.
        """


class ViewSource(Protocol):
    """Samples that can be augmented. Labels are not read."""

    def __len__(self) -> int: ...

    def two_views(self, indices: np.ndarray, generator: np.random.Generator) -> tuple[Any, Any]:
        """Two different augmented versions of each sample, as batches for the encoder."""


class EpisodicTask(Task):
    """Training with labels: AdamW on the mean loss ``model(episode)`` of a few episodes per step.

    Step n takes episodes ``n·episodes_per_step …`` of the sampler; the learning rate falls to zero as a cosine. Each
    episode has random numbers of its own (augmentation, dropout), so the result does not depend on which process
    computes it. With a ``fabric`` (lightning-fabric) of w processes, each computes every w-th episode of the step and
    gradients are averaged: the same step, up to rounding.

    Parameters
    ----------
    model : FewShotModel
    source : object with ``labels`` (n,) and ``batch(indices, generator)``
        The samples.
    sampler : EpisodeSampler
    learning_rate, weight_decay : float
    episodes_per_step : int
        A multiple of the number of processes.
    stages : callable
        What learns in a step, see `Stages`.
    fabric : lightning-fabric object, optional
        Already launched.

    Examples
    --------
    >>> import numpy as np, torch
    >>> from udtw.fewshot import EpisodeSampler, EpisodicTask, FewShotModel, Tokens
    >>> from udtw.training import Training
    >>> class Waves:  # two classes: slow and fast waves
    ...     labels = np.repeat([0, 1], 10)
    ...     def batch(self, indices, generator=None):
    ...         phase = torch.rand(20, 1, 1, generator=torch.Generator().manual_seed(0))
    ...         time = torch.linspace(0, 6, 8)[:, None] + phase  # (20, 8, 1)
    ...         return torch.sin((1 + torch.from_numpy(self.labels))[:, None, None] * time)[indices]
    >>> class Encoder(torch.nn.Linear):
    ...     dim = 4
    ...     def forward(self, batch):
    ...         return Tokens(super().forward(batch), torch.full((len(batch),), batch.shape[1]))
    >>> _ = torch.manual_seed(0)
    >>> model = FewShotModel(Encoder(1, 4), "udtw", "cross_entropy", beta=0.1)
    >>> sampler = EpisodeSampler(Waves.labels, n_way=2, n_shot=1, n_query=3)
    >>> losses = Training(EpisodicTask(model, Waves(), sampler, learning_rate=0.02), n_steps=20).run().train
    >>> len(losses), sum(losses[-5:]) < sum(losses[:5])
    (20, True)
    """

    schedule = staticmethod(cosine)

    def __init__(
        self, model: FewShotModel, source: Source, sampler: EpisodeSampler, *, learning_rate: float = 1e-3,
        weight_decay: float = 1e-6, episodes_per_step: int = 1, stages: Stages = together, fabric: Any = None,
    ) -> None:  # fmt: skip
        self.source, self.sampler, self.fabric, self.stages = source, sampler, fabric, stages
        self.episodes_per_step = episodes_per_step
        self.optimizer: Any = _adamw(model, learning_rate, weight_decay)
        self.model: Any = model
        self.rank, self.world = 0, 1
        if fabric is not None:
            self.rank, self.world = fabric.global_rank, fabric.world_size
            if episodes_per_step % self.world:
                raise OptionError(
                    f"episodes_per_step must be a multiple of the {self.world} processes, so that all have the same "
                    f"work; got {episodes_per_step}."
                )
            self.model, self.optimizer = fabric.setup(model, self.optimizer)
        self.modules = {"model": model}
        self.optimizers = {"model": self.optimizer}
        device = keep_near(source, model)
        episode = sampler.episode(0)  # the labels of all episodes are the same
        self._labels = [torch.from_numpy(own).to(device) for own in (episode.support_labels, episode.query_labels)]

    def step(self, number: int) -> float:
        first = number * self.episodes_per_step
        mine = range(first + self.rank, first + self.episodes_per_step, self.world)
        stages = self.stages(number)
        if self.world > 1 and stages in (("features",), ("sigma",)):
            raise OptionError(
                "Steps in which features or variances learn alone are not possible in several processes; use one, or "
                "sigma_training 'joint', 'faithful' or 'beta_nll'."
            )
        self.optimizer.zero_grad(set_to_none=True)
        total = torch.zeros(())
        for which in mine:
            with self._sync(which == mine[-1]):
                loss = self._loss(which, stages) / len(mine)
                if self.fabric is None:
                    loss.backward()
                else:
                    self.fabric.backward(loss)
            total = total + loss.detach().cpu()
        if self.fabric is not None:
            total = self.fabric.all_reduce(total, reduce_op="mean").cpu()
        self.optimizer.step()
        return float(total)

    def _loss(self, which: int, stages: tuple[str, ...]) -> Tensor:
        episode = self.sampler.episode(which)
        device = next(self.model.parameters()).device
        generator = np.random.default_rng((self.sampler.seed, which, 1))
        batch = self.source.batch(np.concatenate([episode.support.ravel(), episode.query.ravel()]), generator)
        with own_randomness(self.sampler.seed, which, device=device):
            return self.model(moved(batch, device), *self._labels, stages)

    def _sync(self, last: bool) -> AbstractContextManager:
        """Exchange gradients between processes once per step, with its last episode."""
        if self.fabric is None or self.world == 1:
            return nullcontext()
        return self.fabric.no_backward_sync(self.model, enabled=not last)


class DictionaryTask(Task):
    """Training without labels: ``min over atoms and encoder of mean_b d²(Ψ_b, Σ_k α_bk M_k) + βΩ``.

    With ``weighting="likelihood"`` of the model, the free energy F in place of ``d² + βΩ``.

    A step draws ``batch_size`` samples, makes ``dict_iter`` gradient steps on the atoms (rate ``dictionary_rate``) with
    the encoder fixed, then one on encoder and SigmaNet (``encoder_rate``) with the atoms and codes fixed. All distances
    are those of the model's comparator.

    The objective is least where all samples have the same tokens. To prevent that, the encoder's step also minimises
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

    Examples
    --------
    >>> import numpy as np, torch
    >>> from udtw.fewshot import Dictionary, DictionaryTask, FewShotModel, Tokens
    >>> from udtw.training import Training
    >>> class Walks:
    ...     labels = np.zeros(20, dtype=int)
    ...     def batch(self, indices, generator=None):
    ...         steps = torch.randn(20, 6, 2, generator=torch.Generator().manual_seed(0))
    ...         return steps.cumsum(1)[torch.from_numpy(indices)]
    >>> class Encoder(torch.nn.Linear):
    ...     dim = 4
    ...     def forward(self, batch):
    ...         return Tokens(super().forward(batch), torch.full((len(batch),), batch.shape[1]))
    >>> _ = torch.manual_seed(0)
    >>> model, dictionary = FewShotModel(Encoder(2, 4), "soft_dtw"), Dictionary(n_atoms=5, steps=6, dim=4, n_nearest=3)
    >>> dictionary.start_from(model.encode(Walks().batch(np.arange(5))))
    >>> task = DictionaryTask(model, dictionary, Walks(), batch_size=10, dict_iter=2)
    >>> len(Training(task, n_steps=3).run().train)
    3
    """

    def __init__(  # noqa: PLR0913 (keyword options of a public class)
        self, model: FewShotModel, dictionary: Dictionary, source: Source, *, batch_size: int = 32, dict_iter: int = 10,
        dictionary_rate: float = 1e-3, encoder_rate: float = 1e-3, beta: float = 1.0, spread: float = 1.0,
        stages: Stages = together, seed: int = 0, fabric: Any = None,
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


class ContrastiveTask(Task):
    """Training without labels by telling samples apart: ``InfoNCE(−score/τ) + β·mean Ω of the positives``.

    A step draws ``batch_size`` samples and two views of each. The first view of sample i must be closer to its second
    view than to the second views of all others, and the other way round. The score is that by which the model
    classifies: d², d² + βΩ with the objective "cross_entropy", or with ``weighting="likelihood"`` of the model the
    divergence of the free energy, in which Ω is contained. AdamW; the learning rate falls to zero as a cosine.

    With a ``fabric`` (lightning-fabric) of several processes, each compares its share of the first views with all
    second views, and the scores are exchanged: the same step, up to rounding.

    Parameters
    ----------
    model : FewShotModel
    source : object with ``len`` and ``two_views(indices, generator)``
        The samples.
    batch_size : int
        At least 2.
    temperature : float
        τ.
    learning_rate, weight_decay : float
    stages : callable
        What learns in a step, see `Stages`.
    seed : int
    fabric : lightning-fabric object, optional
        Already launched.

    Examples
    --------
    >>> import torch
    >>> from udtw.fewshot import ContrastiveTask, FewShotModel, Tokens
    >>> from udtw.training import Training
    >>> class NoisyWalks:
    ...     def __len__(self):
    ...         return 20
    ...     def two_views(self, indices, generator):
    ...         walks = torch.randn(20, 6, 2, generator=torch.Generator().manual_seed(0)).cumsum(1)[indices]
    ...         noise = torch.from_numpy(generator.normal(scale=0.1, size=(2, *walks.shape))).float()
    ...         return walks + noise[0], walks + noise[1]
    >>> class Encoder(torch.nn.Linear):
    ...     dim = 4
    ...     def forward(self, batch):
    ...         return Tokens(super().forward(batch), torch.full((len(batch),), batch.shape[1]))
    >>> _ = torch.manual_seed(0)
    >>> task = ContrastiveTask(FewShotModel(Encoder(2, 4), "udtw", beta=0.1), NoisyWalks(), batch_size=8)
    >>> len(Training(task, n_steps=3).run().train)
    3
    """

    schedule = staticmethod(cosine)

    def __init__(  # noqa: PLR0913 (keyword options of a public class)
        self, model: FewShotModel, source: ViewSource, *, batch_size: int = 32, temperature: float = 0.1,
        learning_rate: float = 1e-3, weight_decay: float = 1e-6, stages: Stages = together, seed: int = 0,
        fabric: Any = None,
    ) -> None:  # fmt: skip
        if not temperature > 0:
            raise OptionError(f"temperature must be positive; got {temperature}.")
        if batch_size < 2 or len(source) < 2:
            raise OptionError(
                f"Telling samples apart takes two in a batch; got batch_size={batch_size} of {len(source)} samples."
            )
        self.processes = Processes(fabric)
        self.model = model if fabric is None else fabric.to_device(model)
        self.source, self.seed, self.temperature, self.stages = source, seed, temperature, stages
        self.batch_size = min(batch_size, len(source))
        self.optimizer = _adamw(model, learning_rate, weight_decay)
        self.modules = {"model": model}
        self.optimizers = {"model": self.optimizer}
        keep_near(source, model)

    def step(self, number: int) -> float:
        device = next(self.model.parameters()).device
        generator = np.random.default_rng((self.seed, number))
        chosen = generator.choice(len(self.source), self.batch_size, replace=False)
        views = self.source.two_views(chosen, generator)
        self.optimizer.zero_grad(set_to_none=True)
        with own_randomness(self.seed, number, device=device):
            encoded = [as_tokens(self.model.encoder(moved(view, device))) for view in views]
            losses = [
                self._backward(*(self.model.with_variance(one, stage) for one in encoded))
                for stage in self.stages(number)
            ]
        self.processes.sum_gradients(self.model.parameters())
        self.optimizer.step()
        return sum(losses)

    def _backward(self, first: Tokens, second: Tokens) -> float:
        """Add the gradients of one stage; return its loss."""
        rows = self.processes.rows(len(first), first.features.device)
        comparison = self.model.comparator(first[rows], second)
        # (rows, B + 1): the scores, and Ω of the positive pair
        omega = comparison.regularizer.gather(1, rows[:, None])
        mine = torch.cat([self.model.objective.scores(comparison), omega], dim=1)
        every = self.processes.gather(mine, len(first)).requires_grad_()
        loss = info_nce(every[:, :-1], self.temperature) + self.model.objective.beta * every[:, -1].mean()
        [gradient] = torch.autograd.grad(loss, every)
        mine.backward(self.processes.own(gradient))
        return float(loss.detach())


def keep_near(source: Any, model: nn.Module) -> torch.device:
    """Let a source that can, by a method ``to``, keep its samples on the device of the model, which is returned."""
    device = next(model.parameters()).device
    if hasattr(source, "to"):
        source.to(device)
    return device


def moved(batch: Any, device: torch.device) -> Any:
    """A batch (a tensor, or tuples of tensors) on another device."""
    if isinstance(batch, Tensor):
        return batch.to(device)
    return tuple(moved(part, device) for part in batch)


def narrowness(tokens: Tokens) -> Tensor:
    """``mean over features of max(0, 1 − √d·std)``: 0 if features vary as those of unit tokens may, at most 1."""
    values = tokens.features[tokens.inside]
    std = (values.var(0, correction=0) + 1e-8).sqrt()
    return torch.relu(1 - values.shape[1] ** 0.5 * std).mean()


def codes_of(model: FewShotModel, dictionary: Dictionary, tokens: Tokens, processes: Processes | None = None) -> Tensor:
    """(B, K): the codes of encoded samples; several ``processes`` compute their distances together."""
    processes = processes or Processes()
    rows = processes.rows(len(tokens), tokens.features.device)
    atoms = model.with_variance(dictionary.tokens())
    distance = model.comparator(tokens[rows], atoms).distance
    return dictionary.codes(processes.gather(distance, len(tokens)))


def info_nce(scores: Tensor, temperature: float) -> Tensor:
    """``−mean log softmax(−scores/τ)_ii``, over rows and over columns, of ``scores`` (B, B); lower is closer."""
    logits = -scores / temperature
    own = torch.arange(len(logits), device=logits.device)
    return 0.5 * (cross_entropy(logits, own) + cross_entropy(logits.T, own))


def _adamw(model: nn.Module, learning_rate: float, weight_decay: float) -> torch.optim.AdamW:
    return torch.optim.AdamW(model.parameters(), lr=learning_rate, weight_decay=weight_decay, fused=True)
