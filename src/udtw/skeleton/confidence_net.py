"""Confidence of joints where the sensor gives none: a network finds faults of the tracker in the motion itself."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits

from udtw.skeleton.blocks import normalize
from udtw.skeleton.datasets import Clip, Faults
from udtw.skeleton.graphs import Graph
from udtw.training import Task, Training, cosine

KERNEL, DILATION = 9, 2
"""Two convolutions of 9 frames, the second over every other frame, see 25 frames."""
SIZES, RATES = (0.3, 2.0), (0.5, 2.0)
"""Ranges of the size of faults and of the factor of their number, in training."""
LEAST = 1e-5
"""Squared motion below which none is told apart, in units of the normalised body."""
CLIPS, FRAMES, RATE = 8, 48, 5e-3
"""Clips in each step of training, frames taken of a clip, and the largest learning rate."""
BATCHES = 10
"""Batches by which ``known_share`` is measured."""


class ConfidenceNet(nn.Module):
    """The log odds that a joint is wrong, for every frame and joint: two convolutions over time that all joints share.

    It reads where a joint is, relative to the body and to its neighbour towards the centre, how fast it moves, how much
    it trembles (second differences), how far it is from its usual place, and how long its bone is compared with the
    rest of the clip; between the convolutions also what it found at neighbouring joints.

    Examples
    --------
    >>> from udtw.skeleton import ConfidenceNet, graph
    >>> from udtw.skeleton.datasets import make_actions
    >>> actions = make_actions(n_classes=2, n_clips=1)
    >>> net = ConfidenceNet(graph(actions.graph))
    >>> net.confidence(actions[0].frames).shape == actions[0].confidence.shape
    True
    """

    neighbours: Tensor
    known_share: Tensor

    def __init__(self, graph: Graph, coordinates: int = 3, hidden: int = 24, embedding: int = 8) -> None:
        super().__init__()
        self.graph = graph
        self.towards = list(range(len(graph.joints)))
        for joint, parent in graph.outwards():
            self.towards[joint] = parent
        adjacency = torch.from_numpy(graph.adjacency()).float()
        self.register_buffer("neighbours", adjacency / adjacency.sum(1, keepdim=True), persistent=False)
        self.register_buffer("known_share", torch.ones(()))
        self.joints = nn.Parameter(0.5 * torch.randn(len(graph.joints), embedding))
        self.first = nn.Conv1d(2 * coordinates + 4 + embedding, hidden, KERNEL, padding=KERNEL // 2)
        self.second = nn.Conv1d(2 * hidden, hidden, KERNEL, padding=DILATION * (KERNEL // 2), dilation=DILATION)
        self.out = nn.Conv1d(hidden, 1, 1)

    def inputs(self, frames: Tensor) -> Tensor:
        """(…, T, J, F) of normalised positions (…, T, J, C)."""
        bones = frames - frames[..., self.towards, :]
        moved, trembled = (_differences(frames, order) for order in (1, 2))
        length = bones.norm(dim=-1) + 0.01
        usual = frames.median(-3, keepdim=True).values
        scalars = [
            (moved + LEAST).log() / 3 + 2,
            (trembled + LEAST).log() / 3 + 2,
            (length / length.median(-2, keepdim=True).values).log().clamp(-3, 3),
            ((frames - usual).square().sum(-1) + LEAST).log() / 3 + 1,
        ]
        return torch.cat([torch.stack(scalars, -1), frames, bones], -1)

    def forward(self, inputs: Tensor) -> Tensor:
        """Log odds (B, T, J) of `inputs` (B, T, J, F)."""
        count, steps, n_joints, _ = inputs.shape
        joints = self.joints.expand(count, steps, n_joints, -1)
        seen = torch.cat([inputs, joints], -1).permute(0, 2, 3, 1).flatten(0, 1)  # (B·J, F, T)
        found = self.first(seen).relu().unflatten(0, (count, n_joints))
        around = torch.einsum("ij,bjft->bift", self.neighbours, found)
        found = self.second(torch.cat([found, around], 2).flatten(0, 1)).relu()
        return self.out(found)[:, 0].unflatten(0, (count, n_joints)).mT

    @torch.no_grad()
    def confidence(self, frames: np.ndarray) -> np.ndarray:
        """(T, P, J) float32 of frames (T, P, J, C): ``min(1, 2(1 − p))`` with the probability p that a joint is wrong.

        So a joint counts as seen unless a fault is more likely than not. The network learned the probability that a
        fault was put in; p is this over its mean at faults that were put in (Elkan and Noto 2008), which is less than 1
        if the recordings had faults of their own.
        """
        body = torch.from_numpy(normalize(frames, self.graph.centre)).transpose(0, 1)  # (P, T, J, C)
        body = body.to(self.joints.device)
        wrong = torch.sigmoid(self(self.inputs(body))) / self.known_share
        return (2 - 2 * wrong).clamp(0, 1).transpose(0, 1).cpu().numpy()

    def fit(self, clips: Sequence[Clip], seed: int = 0, n_steps: int = 200) -> "ConfidenceNet":
        """Learn from clips into which faults are put. Nothing is asked of the clips; they may have faults already."""
        task = _Detection(self, clips, seed)
        Training(task, n_steps).run()
        self.eval()
        with torch.no_grad():
            batches = [task.batch(n_steps + number) for number in range(BATCHES)]
            found = torch.cat([torch.sigmoid(self(inputs))[wrong > 0] for inputs, wrong in batches])
            self.known_share.fill_(float(found.mean()) if len(found) else 1.0)
        return self


class _Detection(Task):
    """Cross-entropy on `CLIPS` random clips, each with random `Faults`."""

    schedule = staticmethod(cosine)

    def __init__(self, net: ConfidenceNet, clips: Sequence[Clip], seed: int) -> None:
        self.net, self.clips, self.seed = net, clips, seed
        self.modules: dict[str, Any] = {"net": net}
        self.optimizer = torch.optim.Adam(net.parameters(), lr=RATE)
        self.optimizers = {"net": self.optimizer}

    def step(self, number: int) -> float:
        inputs, wrong = self.batch(number)
        loss = binary_cross_entropy_with_logits(self.net(inputs), wrong)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()
        return float(loss.detach())

    def batch(self, number: int) -> tuple[Tensor, Tensor]:
        """Inputs (B, T, J, F), and 1 where a fault was put in, (B, T, J)."""
        rng = np.random.default_rng((self.seed, number))
        parts = [self._clip(self.clips[int(i)], rng) for i in rng.integers(0, len(self.clips), CLIPS)]
        inputs, wrong = (torch.stack(one).to(self.net.joints.device) for one in zip(*parts, strict=True))
        return inputs, wrong

    def _clip(self, clip: Clip, rng: np.random.Generator) -> tuple[Tensor, Tensor]:
        """Inputs and faults of `FRAMES` frames of one person; a shorter clip goes on with its last frame."""
        size, rate = (float(np.exp(rng.uniform(*np.log(limits)))) for limits in (SIZES, RATES))
        faults = Faults(1.5 * rate, rate, 0.7 * rate, duration=(0.1, 0.6), size=size)
        before = Clip(clip.frames, 0, clip.name)
        frames, stated = faults.apply(before, self.net.graph, rng)
        person = int(rng.integers(frames.shape[1]))
        body = torch.from_numpy(normalize(frames, self.net.graph.centre)[:, person])
        start = int(rng.integers(0, max(1, len(body) - FRAMES + 1)))
        chosen = (start + torch.arange(FRAMES)).clamp_max(len(body) - 1)
        wrong = torch.from_numpy((stated[:, person] < 1).astype(np.float32))
        return self.net.inputs(body)[chosen], wrong[chosen]


def _differences(frames: Tensor, order: int) -> Tensor:
    """(…, T, J): squared differences over time; beyond the ends the first and the last are repeated."""
    steps = frames.shape[-3]
    if steps <= order:
        return frames.new_zeros(frames.shape[:-1])
    found = frames.diff(n=order, dim=-3).square().sum(-1)
    at = (torch.arange(steps, device=frames.device) - 1).clamp(0, steps - order - 1)
    return found[..., at, :]
