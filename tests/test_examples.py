"""Every example runs as a user would run it, and the method in forty lines agrees with the engine."""

import os
import runpy
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import udtw

EXAMPLES = sorted((Path(__file__).parent.parent / "examples").glob("*.py"))
SHORT = next(path for path in EXAMPLES if path.stem == "udtw_in_forty_lines")


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_runs_without_warnings(path):
    environment = {**os.environ, "PYTHONIOENCODING": "utf-8"}
    command = [sys.executable, "-W", "error", str(path)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, encoding="utf-8", check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout


def test_the_method_in_forty_lines_needs_torch_only_and_is_short():
    lines = SHORT.read_text().split('if __name__ == "__main__":')[0].splitlines()
    assert len([line for line in lines if line.strip()]) <= 40
    imports = {line for line in lines if line.startswith(("import", "from"))}
    assert imports == {"import torch", "from torch import Tensor"}


@pytest.mark.parametrize("gamma", [0.1, 1.0, 4.0])
@pytest.mark.parametrize("shape", [(1, 1, 1), (1, 4, 2), (7, 5, 3), (12, 12, 1)])
def test_the_method_in_forty_lines_agrees_with_the_engine(shape, gamma):
    rows, columns, dim = shape
    generator = torch.Generator().manual_seed(rows)
    normal = {"generator": generator, "dtype": torch.float64}
    series = [torch.randn(steps, dim, **normal) for steps in (rows, columns)]
    variances = [torch.randn(steps, **normal).exp() for steps in (rows, columns)]
    own, engine = ([one.clone().requires_grad_() for one in [*series, *variances]] for _ in range(2))

    loss, coupling = runpy.run_path(str(SHORT))["align"](*own, gamma=gamma)
    result = udtw.align(*engine, gamma=gamma)

    exact = {"rtol": 1e-9, "atol": 1e-9}
    torch.testing.assert_close(loss, result.loss.squeeze(), **exact)
    torch.testing.assert_close(loss, result.free_energy.squeeze(), **exact)
    torch.testing.assert_close(coupling, result.coupling.reshape(rows, columns).detach(), **exact)
    loss.backward()
    result.loss.sum().backward()
    for one, other in zip(own, engine, strict=True):
        torch.testing.assert_close(one.grad, other.grad, **exact)
