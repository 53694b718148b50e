"""Every index of the kernels inside its array: all operations once more, compiled with Numba's bounds checks.

Vector stores go by pointers that Numba cannot check; `test_memory` surrounds their buffers with canaries instead.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]

EVERY_OPERATION = """
import torch, udtw

generator = torch.Generator().manual_seed(0)

def noise(*shape):
    return torch.rand(*shape, generator=generator)

count, n, m = 18, 9, 7  # more pairs than one pack holds
x, y = noise(count, n, 2).requires_grad_(), noise(count, m, 2).requires_grad_()
var_x, var_y = (noise(count, n) + 0.5).requires_grad_(), (noise(count, m) + 0.5).requires_grad_()
cost, joint = noise(count, n, m).requires_grad_(), (noise(count, n, m) + 0.5).requires_grad_()
lengths = torch.arange(count) % 5 + 3
mask = torch.ones(n, m, dtype=torch.bool)
mask[4, 2] = False
for band in (None, 2, mask):
    for options in (
        {},
        {"var_x": var_x, "var_y": var_y, "lam": 0.1, "normalize": "path", "weighting": "precision"},
        {"var_x": var_x, "var_y": var_y, "weighting": "precision"},
        {"var_x": var_x, "var_y": var_y, "warp_penalty": 0.3, "relax": (2, 1, 0, 2)},
        {"var_x": var_x, "var_y": var_y},
        {"variance": joint},
        {"distance": "soft_min", "weighting": "precision", "gamma": torch.tensor(0.5, requires_grad=True)},
        {"lengths_x": lengths, "lengths_y": lengths.flip(0).clamp(max=m)} if band is None else {},
    ):
        for given in ({"x": x, "y": y}, {"x": None, "y": None, "cost": cost}):
            a = udtw.align(**given, **options, band=band)
            a.loss.sum().backward(retain_graph=True)
            a.coupling.square().sum().backward()
            a.paths.sample(1, generator=0), a.paths.mode(), a.paths.entropy
            kept = ("var_x", "var_y", "variance", "lengths_x", "lengths_y", "relax")
            fixed = {k: v for k, v in options.items() if k in kept}
            udtw.dtw(given["x"], given["y"], cost=given.get("cost"), band=band, **fixed).sum().backward()
for metric in ("dtw", "soft_dtw", "soft_dtw_divergence", "udtw"):
    udtw.pairwise(x, y, metric=metric)

from udtw._kernels.cpu.stream import StreamSweep

query, stream, variances = (noise(*shape).numpy() for shape in ((9, 2), (60, 2), (60,)))
for sweep, given in ((StreamSweep(query), None), (StreamSweep(query, 0.1, variances[:9]), variances)):
    sweep.update(stream, given)
    sweep.rest()
StreamSweep(query[:, :1].copy()).update(stream[:, :1])
"""


BEYOND = """
import numpy as np
from numba import njit
from udtw._kernels.cpu.simd import get

njit(lambda array, index: get(array, index))(np.zeros((2, 3)), {index})
"""


def run(script: str, cache: Path) -> subprocess.CompletedProcess:
    # Compiling takes most of the time, and without optimisation less than half.
    environment = os.environ | {"NUMBA_BOUNDSCHECK": "1", "NUMBA_OPT": "0", "NUMBA_CACHE_DIR": str(cache)}
    command = [sys.executable, "-c", script]
    return subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True, check=False)


@pytest.mark.slow
def test_no_index_leaves_its_array(tmp_path):
    done = run(EVERY_OPERATION, tmp_path)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(("index", "fails"), [(5, False), (6, True), (-1, True)])
def test_single_numbers_are_checked_too(tmp_path, index, fails):
    done = run(BEYOND.format(index=index), tmp_path)
    assert ("IndexError: a number outside of its array" in done.stderr) is fails
    assert bool(done.returncode) is fails
