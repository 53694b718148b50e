"""The package as a whole: light to import, layered, and honest about its backends."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

import udtw

ROOT = Path(__file__).parents[1]
SOURCE = Path(udtw.__file__).parent


def test_importing_udtw_does_not_import_heavy_packages():
    code = (
        "import torch, sys; before = set(sys.modules); import udtw; "
        "new = {m.split('.')[0] for m in set(sys.modules) - before}; print(*sorted(new))"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert not {"numba", "llvmlite", "scipy", "sklearn", "matplotlib", "rich", "pandas"} & set(out)


def test_every_backend_is_available_here_or_says_why_not():
    assert udtw.available_backends() == {"numba": None, "portable": None, "enumeration": None}


def test_a_missing_numba_is_reported_and_not_fatal():
    code = (
        "import sys; sys.modules['numba'] = None; import torch, udtw\n"
        "assert 'numba' in udtw.available_backends()['numba']\n"
        "print(float(udtw.align(torch.zeros(3), torch.ones(3)).loss))\n"
        "try:\n    udtw.align(torch.zeros(3), torch.ones(3), backend='numba')\n"
        "except udtw.UdtwError as error:\n    print(type(error).__name__)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split()[-1] == "BackendError"


# Lower layers never import higher ones.
LAYERS = [
    "errors",
    "lazy",
    "progress",
    "memory",
    "joblib_tasks",
    "distributed",
    "optimizer_state",
    "inputs",
    "likelihood",
    "prior",
    "problem",
    "kernels",
    "path_sampling",
    "distribution",
    "align",
    "pair_block",
    "lower_bounds",
    "metrics",
    "pairwise",
    "data",
    "interop",
    "nn",
    "timeseries",
    "fewshot",
    "skeleton",
    "images",
    "plots",
    "experiments",
    "explorer",
    "cli",
]


@pytest.mark.parametrize("path", sorted(SOURCE.rglob("*.py")), ids=lambda p: str(p.relative_to(SOURCE)))
def test_lower_layers_never_import_higher_ones(path):
    layer = path.relative_to(SOURCE).parts[0].removesuffix(".py")
    if layer == "__init__":
        return
    for node in ast.walk(ast.parse(path.read_text())):
        names = []
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("udtw"):
            inner = node.module.split(".")[1:]
            names = [inner[0]] if inner else [alias.name for alias in node.names]
        elif isinstance(node, ast.Import):
            names = [alias.name.split(".")[1] for alias in node.names if alias.name.startswith("udtw.")]
        for name in names:
            assert LAYERS.index(name) <= LAYERS.index(layer), f"{layer} imports {name}"


def test_the_changelog_begins_with_this_version():
    newest = re.search(r"^## (\S+) \((\d{4}-\d{2}-\d{2})\)$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert newest is not None
    assert newest[1] == udtw.__version__
