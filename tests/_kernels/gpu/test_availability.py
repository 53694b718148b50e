"""Where Triton cannot be used, everything else works and the reason is told."""

import subprocess
import sys

import pytest
import torch

import udtw
from udtw._kernels import backends
from udtw._kernels.gpu import availability

needs_no_gpu = pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here")


@needs_no_gpu
def test_without_a_gpu_the_reason_is_told():
    assert "Triton" in str(udtw.available_backends()["triton"]) or "device" in str(udtw.available_backends()["triton"])
    with pytest.raises(udtw.errors.BackendError, match=r"'triton' is not available: .*Use backend='auto'"):
        udtw.align([0.0], [1.0], backend="triton")


def test_windows_and_old_versions_are_told(monkeypatch):
    triton = pytest.importorskip("triton")
    monkeypatch.setattr(triton, "__version__", "3.2.0")
    assert "3.2.0" in str(availability.missing())
    monkeypatch.setattr(availability.sys, "platform", "win32")
    assert "win32" in str(availability.missing())


def test_a_missing_triton_is_told(monkeypatch):
    monkeypatch.setattr(availability.sys, "platform", "linux")
    monkeypatch.setitem(sys.modules, "triton", None)
    assert "pip install triton" in str(availability.missing())


def test_other_devices_use_plain_torch():
    """MPS and meta tensors have no kernels."""
    assert backends.choose("auto", torch.zeros(1, device="meta")).name == "portable"


def test_an_import_of_udtw_imports_no_triton():
    code = "import sys, torch; before = 'triton' in sys.modules; import udtw; print(before, 'triton' in sys.modules)"
    before, after = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.split()
    assert before == after


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU here")
@pytest.mark.parametrize("weighting", ["likelihood", "precision"])
@pytest.mark.parametrize("length", [20, 128, 300])
def test_on_the_gpu_as_on_the_cpu(weighting, length):
    generator = torch.Generator().manual_seed(0)
    given = [torch.randn(4, length, 1, generator=generator) for _ in range(2)]
    given += [torch.rand(4, length, generator=generator) + 0.5 for _ in range(2)]
    results = []
    for device in ("cpu", "cuda"):
        leaves = [t.to(device).requires_grad_() for t in given]
        loss = udtw.align(*leaves, gamma=0.1, weighting=weighting).loss
        results.append([loss, *torch.autograd.grad(loss.sum(), leaves)])
    for truth, found in zip(*results, strict=True):
        assert float((found.cpu() - truth).abs().max() / truth.abs().max()) < 2e-4
