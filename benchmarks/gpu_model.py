"""``python -m benchmarks.gpu_model``: predicted time of a training step on an A100 and an H100, without either.

Triton compiles the kernels for the GPU; nvdisasm lists the instructions of the loop over steps. One warp works on one
tile and issues in order: an instruction waits until its operands are ready. That is simulated, with the published
latencies; "issue" is the bound of one instruction per cycle. Launches cost a fixed time each, and memory traffic is
what the sweeps read and write once. The three are added: nothing is assumed to overlap between launches.

The error: latencies of loads assume a hit in a cache, since they are issued a step ahead; if they miss, a step takes up
to three times as long. Launch overhead of a loaded machine can be twice as large. Python's own time per call (some
0.1 ms), which hides behind the device only if it is busy, is not in it. None of this was measured on a GPU.
"""

import re
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

LAUNCH = 3.0e-6
"""Seconds per launch on a stream that is kept busy."""
LATENCY = {"MUFU": 23, "SHFL": 23, "LDG": 40, "LD": 40, "ST": 4, "I2F": 14, "F2I": 14, "FRND": 14}
"""Cycles until the result of an instruction is ready, by the beginning of its name."""
OTHERWISE = 4
TWO_RESULTS = ("ISETP", "FSETP", "DSETP", "SHFL", "PLOP3", "LOP3")
"""Instructions whose first two operands may be results."""
SIZES = {"64 × 128²": (64, 128), "32 × 196²": (32, 196), "8 × 4096²": (8, 4096)}
PORTABLE_LAUNCHES = 50
"""Launches per anti-diagonal of the portable backend, forward and backward."""


@dataclass(frozen=True)
class Device:
    name: str
    target: str
    clock: float  # Hz
    processors: int
    bandwidth: float  # bytes per second


DEVICES = (Device("A100", "sm_80", 1.41e9, 108, 1.55e12), Device("H100", "sm_90", 1.75e9, 132, 3.35e12))
LIKELIHOOD: dict[str, Any] = {"DIM": 1, "UNCERTAIN": True, "LIKELY": True}
PAPER: dict[str, Any] = {"DIM": 1, "UNCERTAIN": True, "MEANS": True}


def loop_of(kernel: Any) -> list[tuple[str, set[str], set[str]]]:
    """Return the instructions of the longest loop of a compiled kernel: name, results and operands."""
    import triton

    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "kernel.cubin"
        file.write_bytes(kernel.asm["cubin"])
        tool = Path(triton.__file__).parent / "backends/nvidia/bin/nvdisasm"
        code = subprocess.run([tool, "-c", file], capture_output=True, text=True, check=True).stdout
    lines = code.splitlines()
    labels = {m[1]: i for i, line in enumerate(lines) if (m := re.match(r"\s*(\.L_x_\d+):", line))}
    longest: list[str] = []
    for i, line in enumerate(lines):
        jump = re.search(r"\bBRA\b.*?`\((\.L_x_\d+)\)", line)
        if jump and labels.get(jump[1], i) < i:
            longest = max(longest, lines[labels[jump[1]] : i + 1], key=len)
    found = []
    for text in longest:
        parts = re.search(r"\*/\s+(@!?U?P\w+\s+)?([A-Z0-9]+)[.\w]*\s*([^;]*);", text)
        if parts is None:
            continue
        guard, name, operands = parts.groups()
        listed = [set(re.findall(r"\bU?[RP]\d+\b", operand)) for operand in operands.split(",")]
        many = 0 if name.startswith(("ST", "BRA")) else 2 if name.startswith(TWO_RESULTS) else 1
        results = set().union(*listed[:many]) if many == 1 else set().union(*listed[:1], *listed[1:many])
        read = set().union(*listed[many:], re.findall(r"U?P\d+", guard or ""))
        found.append((name, results, read))
    return found


def cycles_per_step(kernel: Any) -> tuple[int, int]:
    """Count the instructions of the loop over steps, and its cycles if each waits for its operands."""
    loop = loop_of(kernel)
    ready: dict[str, int] = {}
    now, marks = 0, []
    for _ in range(3):
        for name, results, read in loop:
            now = max([now + 1, *(ready.get(register, 0) for register in read)])
            latency = next((cycles for start, cycles in LATENCY.items() if name.startswith(start)), OTHERWISE)
            ready |= dict.fromkeys(results, now + latency)
        marks.append(now)
    return len(loop), marks[2] - marks[1]


def predicted(device: Device, options: dict[str, Any], count: int, length: int) -> tuple[float, float, int]:
    """Predict seconds of a forward and a backward sweep, at least and simulated, and the number of launches."""
    from tests._kernels.gpu.compiling import compiled
    from udtw._kernels.gpu import tiles
    from udtw._kernels.gpu.backward import backward_tile
    from udtw._kernels.gpu.forward import forward_tile

    means = bool(options.get("MEANS"))
    cut = tiles.tiles_for(count, length, length, 4 if means else 8)
    constants = options | {"R": cut.rows_per_lane, "T": cut.width, "TILED": cut.several}
    sweep = cycles_per_step(compiled(forward_tile, device.target, **constants, KEEP=not cut.several))
    again = cycles_per_step(compiled(forward_tile, device.target, **constants, KEEP=True, REPLAY=True))
    back = cycles_per_step(compiled(backward_tile, device.target, **constants))
    steps = cut.width + cut.lanes - 1 if cut.several else length + (length - 1) // cut.rows_per_lane
    launches, totals = 0, [0.0, 0.0]
    for _, _, number in cut.launches():
        kernels = [sweep, back, *([again] if cut.several else [])]
        launches += len(kernels)
        # Four warps of a processor issue at a time; more programs than that take turns.
        waves = max(1.0, count * number / (4 * device.processors))
        for which in range(2):
            turns = waves if which == 0 else max(1.0, waves / 4)
            totals[which] += sum(kernel[which] for kernel in kernels) * steps * turns / device.clock
    traffic = 2 * (4 if means else 2) * 4 * count * length * (length + cut.lanes)
    overhead = launches * LAUNCH + traffic / device.bandwidth
    return totals[0] + overhead, totals[1] + overhead, launches


def main() -> None:
    try:
        import triton
    except ImportError:
        print("skipped: Triton is not installed")
        return
    print(
        f"Predicted by the compiled code of Triton {triton.__version__}; not measured. Forward and backward, float32."
    )
    print(f"{'':11}{'size':11}{'device':8}{'issue':>10}{'simulated':>10}{'launches':>10}{'portable launches':>19}")
    for loss, options in (("likelihood", LIKELIHOOD), ("paper", PAPER)):
        for size, (count, length) in SIZES.items():
            for device in DEVICES:
                low, high, launches = predicted(device, options, count, length)
                plain = PORTABLE_LAUNCHES * (2 * length - 1)
                print(
                    f"{loss:11}{size:11}{device.name:8}{low * 1e3:7.3f} ms{high * 1e3:7.3f} ms{launches:10}{plain:19,}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
