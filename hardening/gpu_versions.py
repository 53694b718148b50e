"""``python -m hardening.gpu_versions``: compile the GPU kernels with the Triton of several releases of torch.

Each version is downloaded into build/ and used in a process of its own, beside the torch that is installed.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

VERSIONS = ("3.4.0", "3.5.1", "3.6.0", "3.7.1", "3.8.0", "3.9.0")
"""One of each minor version from torch 2.8 (3.4) on."""


def compile_with(version: str) -> tuple[bool, list[str]]:
    """Return whether the kernels compile with that Triton, and the reasons of failures and skips."""
    folder = Path("build") / f"triton-{version}"
    if not folder.exists():
        part = folder.with_name(f"{folder.name}.part")  # a download that was stopped is not taken for a version
        shutil.rmtree(part, ignore_errors=True)
        install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(part)]
        done = subprocess.run([*install, f"triton=={version}"], check=False, capture_output=True, text=True)
        if done.returncode != 0:
            return False, ["it cannot be installed:", *done.stderr.strip().splitlines()[-3:]]
        part.rename(folder)
    path = os.pathsep.join([str(folder.resolve()), os.environ.get("PYTHONPATH", "")])
    checks = [sys.executable, "-m", "pytest", "-q", "--tb=short", "-rfs", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [*checks, "tests/_kernels/gpu/test_compiled.py"],
        env=os.environ | {"PYTHONPATH": path},
        check=False,
        capture_output=True,
        text=True,
    )
    told = [line for line in done.stdout.splitlines() if line.startswith(("E   ", "FAILED", "SKIPPED"))]
    return done.returncode == 0, told if told or done.returncode == 0 else done.stderr.strip().splitlines()[-3:]


def main() -> int:
    """Compile with every version; report failures with their reasons, and return their number."""
    failed = 0
    for version in VERSIONS:
        compiles, told = compile_with(version)
        failed += not compiles
        print("\n    ".join([f"Triton {version}: {'compiles' if compiles else 'FAILED'}", *told]), flush=True)
    return failed


if __name__ == "__main__":
    sys.exit(main())
