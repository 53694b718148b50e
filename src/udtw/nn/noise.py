"""fit_noise: train a SigmaNet on unlabeled pairs of matching series."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from udtw._engine.pair_block import Batch
from udtw._engine.series_set import load_series
from udtw._io.progress import progress_bar
from udtw._io.training import Descent, minimize
from udtw.errors import OptionError
from udtw.nn.loss import UDTWLoss
from udtw.nn.sigma import SigmaNet
from udtw.nn.training import TrainingSettings, training_settings


def fit_noise(
    pairs: Sequence[tuple[Any, Any]],
    net: SigmaNet | None = None,
    *,
    gamma: float = 4.0,
    beta: float = 1.0,
    warp_penalty: float = 0.0,
    max_iter: int = 200,
    random_state: int = 0,
    training: TrainingSettings | Mapping[str, Any] | None = None,
) -> SigmaNet:
    """Train a SigmaNet to minimize ``E_π[D/Σ + β log Σ]`` over ``pairs``; needs no labels and no true alignments.

    π is the posterior over paths under the current variances and passes no gradient: expectation maximization. On known
    warps the variances are closer to the true ones than those of the free energy, which charges a common factor of all
    variances only once per step, not once per match (error of the expected match 1.28 against 1.43 steps,
    ``python -m benchmarks.objectives``).

    Parameters
    ----------
    pairs : sequence of (x, y)
        Matching series, arrays (T,) or (T, d) of any lengths.
    net : SigmaNet, optional
        Network to train in place. By default one that sees 9 steps, for series of unit variance.
    gamma, beta, warp_penalty : as in `udtw.align`
        γ = 4 and β = 1 gave calibrated matches on known warps (``udtw reproduce calibration``).
    max_iter : int
        Steps of Adam.
    random_state : int
    training : TrainingSettings or dict, optional
        Has ``batch_size`` (32 pairs), ``learning_rate`` (0.02), ``sigma_range`` of a new network (0.1 to 3.1) and
        ``progress``.

    Examples
    --------
    >>> import numpy as np
    >>> import torch
    >>> from udtw.nn import fit_noise
    >>> rng = np.random.default_rng(0)
    >>> wave = np.sin(np.arange(30) / 4)
    >>> pairs = [(wave + 0.1 * rng.standard_normal(30), wave + 0.1 * rng.standard_normal(30)) for _ in range(8)]
    >>> net = fit_noise(pairs, max_iter=20, training={"batch_size": 8, "learning_rate": 0.05})
    >>> bool(net(torch.tensor(wave[:, None]).float()).mean() < 1)  # less noise than assumed at the start
    True
    """
    if not len(pairs) or any(len(pair) != 2 for pair in pairs):
        raise OptionError("fit_noise needs at least one pair (x, y) of matching series.")
    x, y = (Batch.of(load_series("xy"[side], [pair[side] for pair in pairs])) for side in (0, 1))
    settings = training_settings(training, "fit_noise", batch_size=32, learning_rate=0.02, sigma_range=(0.1, 3.1))
    descent = Descent(max_iter, settings.batch_size, settings.learning_rate, random_state)
    if net is None:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(descent.seed)
            net = SigmaNet(x.values.shape[2], 32, context=9, sigma_range=settings.sigma_range, sigma_init=1.0)
    measure = UDTWLoss(
        net, gamma=gamma, beta=beta, warp_penalty=warp_penalty, weighting="likelihood", objective="faithful",
        normalize="length",
    )  # fmt: skip

    def loss(index: Tensor) -> Tensor:
        left, right = x[index], y[index]
        return measure(left.values, right.values, lengths_pred=left.lengths, lengths_target=right.lengths)

    cells = descent.batch_size * x.values.shape[1] * y.values.shape[1]
    with progress_bar("training the sigma network", max_iter, settings.progress) as advance:
        minimize(list(net.parameters()), loss, len(x), cells=cells, descent=descent, tick=lambda *_: advance(1))
    return net
