"""Compile the kernels for GPUs that are not here, and read off what the code uses."""

import re
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

TARGETS = {
    "sm_80": GPUTarget("cuda", 80, 32),
    "sm_90": GPUTarget("cuda", 90, 32),
    "gfx942": GPUTarget("hip", "gfx942", 64),
}
INT64 = ("lengths", "relax")
INT32 = ("end_powers", "top_powers", "left_powers")
ONE_TILE: dict[str, Any] = {"R": 4, "LANES": 32, "T": 128, "TILED": False, "F64": False}
PLAIN: dict[str, Any] = {"DIM": 0, "UNCERTAIN": False, "LIKELY": False, "RELAXED": False, "MEANS": False}
FORWARD: dict[str, Any] = {"WARP": False, "FIELD": False, "KEEP": True, "REPLAY": False, "SHARES": False}
BACKWARD: dict[str, Any] = {"WARP": False, "GRAD": True, "COUPLING": False}
HARD: dict[str, Any] = {"WARP": False, "RELAXED": False, "CHOICE": False}


def signature(kernel, constants: dict[str, Any]) -> dict[str, str]:
    """Types of the kernel's arguments."""
    number = "fp64" if constants["F64"] else "fp32"
    found = {}
    for name in kernel.arg_names:
        if name in constants:
            found[name] = "constexpr"
        elif name in INT64:
            found[name] = "*i64"
        elif name in INT32:
            found[name] = "*i32"
        elif name == "choice":
            found[name] = "*u8"
        elif name in ("count", "N", "M", "first", "diagonal", "strips", "columns") or name.startswith("stride"):
            found[name] = "i32"
        else:
            found[name] = f"*{number}"
    return found


def compiled(kernel, target: str, **options):
    """The compiled kernel; ``options`` are constants other than those of one plain tile."""
    own = {"forward_tile": PLAIN | FORWARD, "backward_tile": PLAIN | BACKWARD, "hard_tile": HARD}[kernel.fn.__name__]
    constants = ONE_TILE | own | options
    source = ASTSource(
        kernel, signature(kernel, constants), {(kernel.arg_names.index(k),): v for k, v in constants.items()}
    )
    return triton.compile(source, target=TARGETS[target], options={"num_warps": 1})


def used(kernel) -> dict[str, int]:
    """Registers, stack, shared memory, barriers and shuffles of a compiled kernel."""
    if "cubin" in kernel.asm:
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "kernel.cubin"
            file.write_bytes(kernel.asm["cubin"])
            tool = Path(triton.__file__).parent / "backends/nvidia/bin/cuobjdump"
            text = subprocess.run([tool, "-res-usage", file], capture_output=True, text=True, check=True).stdout
        found = {name: int(value) for name, value in re.findall(r"(REG|STACK|LOCAL):(\d+)", text)}
        code = kernel.asm["ptx"]
        found["barriers"] = code.count("bar.sync") + code.count("barrier.sync")
        found["shuffles"] = code.count("shfl.sync")
    else:
        code = kernel.asm["amdgcn"]
        numbers = dict(
            re.findall(r"\.(vgpr_count|vgpr_spill_count|sgpr_spill_count|private_segment_fixed_size):\s+(\d+)", code)
        )
        found = {
            "REG": int(numbers["vgpr_count"]),
            "STACK": int(numbers["private_segment_fixed_size"]),
            "LOCAL": int(numbers["vgpr_spill_count"]),
            "barriers": code.count("s_barrier"),
            "shuffles": code.count("ds_bpermute") + code.count("dpp"),
        }
    return found | {"shared": kernel.metadata.shared}
