"""torch.export: a program with an alignment in it is saved, loaded, and gives the same numbers."""

import io
import subprocess
import sys

import pytest
import torch

import udtw
from udtw.nn import SigmaNet, UDTWLoss

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),  # torch's own exporter uses what it deprecates
    pytest.mark.filterwarnings("ignore::FutureWarning"),
]
X, Y = torch.randn(2, 4, 12, 2, generator=torch.Generator().manual_seed(0))[:, :, :10].unbind(0)


class Aligned(torch.nn.Module):
    """Distances and couplings of padded batches, as a part of a model that is deployed."""

    def __init__(self):
        super().__init__()
        self.sigma = SigmaNet(2, context=3)

    def forward(self, x, y, lengths):
        found = udtw.align(x, y, self.sigma(x, lengths), self.sigma(y), gamma=0.5, lengths_x=lengths, band=4)
        return found.loss, found.distance, found.coupling


def reloaded(program):
    file = io.BytesIO()
    torch.export.save(program, file)
    file.seek(0)
    return torch.export.load(file).module()


def test_an_exported_model_is_saved_and_loaded_with_its_numbers():
    model = Aligned().eval()
    program = torch.export.export(model, (X, Y, torch.tensor([10, 7, 5, 10])))
    other = torch.tensor([3, 10, 10, 8])  # lengths are an input, not a constant
    for found, expected in zip(reloaded(program)(X, Y, other), model(X, Y, other), strict=True):
        torch.testing.assert_close(found, expected)


@pytest.mark.parametrize(
    "loss",
    [
        UDTWLoss(gamma=torch.nn.Parameter(torch.tensor(0.5))),
        UDTWLoss(SigmaNet(2), weighting="precision", debias=True),
        UDTWLoss(SigmaNet(2), objective="faithful", normalize="length"),
    ],
    ids=["free energy", "precision", "faithful"],
)
def test_losses_are_exported(loss):
    program = torch.export.export(loss, (X, Y))
    torch.testing.assert_close(program.module()(X, Y), loss(X, Y))
    assert {name for name, _ in program.named_parameters()} == {name for name, _ in loss.named_parameters()}


def test_exporting_may_be_the_first_thing_that_a_process_does():
    """The exporter replaces builtins while it traces, and Numba is imported in the middle of that."""
    code = (
        "import torch, udtw\nfrom udtw.nn import UDTWLoss\nx = torch.ones(2, 5, 1)\n"
        "program = torch.export.export(UDTWLoss(), (x, x))\n"
        "assert udtw.available_backends()['numba'] is None\n"
        "print(bool(torch.allclose(program.module()(x, x), UDTWLoss()(x, x))))"
    )
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["True"]
