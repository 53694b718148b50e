"""``python -m hardening.gpu_versions``: compile the GPU kernels with the Triton of several releases of torch.

Each version is downloaded into build/ and used in a process of its own, beside the torch that is installed.
"""

import os
import subprocess
import sys
from pathlib import Path

VERSIONS = ("3.4.0", "3.5.1", "3.6.0", "3.7.1", "3.8.0", "3.9.0")
"""One of each minor version from torch 2.8 (3.4) on."""


def main() -> int:
    failed = []
    for version in VERSIONS:
        folder = Path("build") / f"triton-{version}"
        if not folder.exists():
            install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(folder)]
            subprocess.run([*install, f"triton=={version}"], check=True)
        path = os.pathsep.join([str(folder.resolve()), os.environ.get("PYTHONPATH", "")])
        checks = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/kernels/gpu/test_compiled.py"]
        done = subprocess.run(checks, env=os.environ | {"PYTHONPATH": path}, check=False)
        print(f"Triton {version}: {'compiles' if done.returncode == 0 else 'FAILED'}", flush=True)
        failed += [version] * (done.returncode != 0)
    return len(failed)


if __name__ == "__main__":
    sys.exit(main())
