"""The kernels compiled for GPUs that are not here: registers, stack, shared memory and barriers."""

from pathlib import Path

import pytest

pytest.importorskip("triton", reason="Triton is not installed")
import triton

from tests._kernels.gpu.compiling import TARGETS, compiled, used
from udtw._kernels.gpu.backward import backward_tile
from udtw._kernels.gpu.forward import forward_tile
from udtw._kernels.gpu.hard import hard_tile

PINNED = f"triton=={triton.__version__}" in (Path(__file__).parents[3] / "constraints.txt").read_text().splitlines()
MOST_REGISTERS = 128 if PINNED else 144
"""Other versions allocate a few more."""
LIKELIHOOD = {"DIM": 1, "UNCERTAIN": True, "LIKELY": True}
PAPER = {"DIM": 1, "UNCERTAIN": True, "MEANS": True}
VARIANTS = {
    "free energy of a matrix": (forward_tile, {}),
    "its gradient": (backward_tile, {}),
    "free energy of sequences": (forward_tile, LIKELIHOOD),
    "gradients in sequences": (backward_tile, LIKELIHOOD),
    "paper's loss": (forward_tile, PAPER),
    "its gradients in sequences": (backward_tile, PAPER),
    "means, warp penalty": (forward_tile, {"MEANS": True, "FIELD": True, "WARP": True}),
    "gradients of means": (backward_tile, {"MEANS": True, "WARP": True}),
    "paper's loss, three features": (forward_tile, PAPER | {"DIM": 3}),
    "its gradients in three features": (backward_tile, PAPER | {"DIM": 3}),
    "coupling": (backward_tile, {"GRAD": False, "COUPLING": True}),
    "transitions": (forward_tile, {"KEEP": False, "SHARES": True}),
    "relaxed free energy": (forward_tile, LIKELIHOOD | {"RELAXED": True, "WARP": True}),
    "its relaxed gradients": (backward_tile, LIKELIHOOD | {"RELAXED": True, "WARP": True}),
    "classical DTW": (hard_tile, {"CHOICE": True, "WARP": True, "RELAXED": True}),
}


@pytest.fixture(autouse=True)
def _cache(tmp_path_factory, monkeypatch):
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path_factory.getbasetemp() / "triton"))
    monkeypatch.setenv("TRITON_DEFAULT_FP_FUSION", "1")  # Triton 3.9 warns if it is not set


PRINCIPAL = list(VARIANTS)[2:8]
CASES = [
    *(("sm_80", False, name) for name in VARIANTS),
    *(("sm_80", True, name) for name in PRINCIPAL),
    *((target, False, name) for target in TARGETS if target != "sm_80" for name in PRINCIPAL),
]


@pytest.mark.parametrize(("target", "tiled", "name"), CASES)
def test_four_rows_per_lane_fit_the_registers(target, tiled, name):
    kernel, options = VARIANTS[name]
    try:
        found = used(compiled(kernel, target, TILED=tiled, **options))
    except Exception as error:
        if "ROCm linker" in str(error) and not PINNED:
            pytest.skip(f"before version 3.5, Triton links code for AMD with ROCm, which is not here: {error}")
        raise
    assert found["REG"] <= MOST_REGISTERS, found
    assert found["STACK"] == found["LOCAL"] == found["shared"] == found["barriers"] == 0, found
    assert found["shuffles"] > 0


@pytest.mark.parametrize(
    ("kernel", "options"),
    [
        (backward_tile, PAPER | {"F64": True, "R": 2}),
        (forward_tile, {"MEANS": True, "FIELD": True, "F64": True, "R": 2, "RELAXED": True, "WARP": True}),
        (forward_tile, LIKELIHOOD | {"R": 8}),
        (backward_tile, LIKELIHOOD | {"R": 8}),
    ],
)
def test_the_other_sizes_of_tiles_spill_nothing(kernel, options):
    found = used(compiled(kernel, "sm_80", **options))
    assert found["STACK"] == found["LOCAL"] == found["shared"] == found["barriers"] == 0, found
