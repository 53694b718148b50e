"""The package as a whole: light to import, layered, and honest about its backends."""

import ast
import importlib
import re
import subprocess
import sys
import tomllib
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import jinja2
import pytest
import torch
import yaml

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
    found = udtw.available_backends()
    reason = found.pop("triton")
    assert found == {"numba": None, "portable": None, "enumeration": None}
    assert (reason is None) == torch.cuda.is_available(), reason


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
    "_io",
    "_engine.deprecation",
    "_engine.lazy",
    "_engine.likelihood",
    "_engine.checks",
    "_engine.inputs",
    "_engine.series_set",
    "_engine.prior",
    "_engine.ties",
    "_engine.even_grid",
    "_engine.problem",
    "_kernels",
    "_engine.path_sampling",
    "_engine.matches",
    "_engine.distribution",
    "_engine.alignment",
    "_engine.align",
    "_engine.gap_prices",
    "_engine.between",
    "_engine.gap_evidence",
    "_engine.rehearsal",
    "_engine.trust",
    "_engine.match",
    "_engine.match_many",
    "_engine.follower",
    "_engine.warped_copies",
    "_engine.calibration",
    "_engine.pair_block",
    "_engine.lower_bounds",
    "_engine.metrics",
    "_engine.pairwise",
    "data",
    "nn",
    "timeseries",
    "interop",
    "fewshot",
    "skeleton",
    "images",
    "plots",
    "demo",
    "explorer",
    "cli",
]


DRAWN_ON_DEMAND = {("_engine.match", "udtw.plots.plot_matches"), ("_engine.match_many", "udtw.plots.joint")}
"""Methods that draw their own result: they import plots when they are called."""
KERNEL_LAYERS = ["memory_estimate", "base", "differentiable", "vmap_rule", "reference", "cpu", "gpu", "backends"]


def imported(path: Path) -> list[str]:
    """Full names of the modules of udtw that a file imports when it runs, anywhere in it."""
    names = []
    tree = ast.parse(path.read_text())
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            node.body = []  # for annotations only; the tree is walked from the top, so these are not reached
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] in ("udtw", "experiments"):
            names += [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Import):
            names += [alias.name for alias in node.names if alias.name.startswith(("udtw.", "experiments"))]
    return [name for name in names if name.count(".") > 0]


@pytest.mark.parametrize("path", sorted(SOURCE.rglob("*.py")), ids=lambda p: str(p.relative_to(SOURCE)))
def test_lower_layers_never_import_higher_ones(path):
    """Local imports count too: one that is needed to break a cycle shows a module in the wrong layer."""
    own = layer_of(".".join(path.relative_to(SOURCE).with_suffix("").parts))
    inner = path.relative_to(SOURCE).with_suffix("").parts[1:]
    if own is None:
        assert path.name in ("__init__.py", "_moved.py"), f"{path} is in no layer"
        return
    for name in imported(path):
        if name.split(".")[0] == "experiments":
            assert path.parts[-2:] == ("cli", "app.py"), f"{path.name} imports {name}, which the wheel lacks"
            continue
        if (own, name) in DRAWN_ON_DEMAND:
            continue
        other, rest = layer_of(name.removeprefix("udtw.")), name.split(".")[2:]
        if other is None:
            assert name == "udtw.__version__", f"{path.name} imports {name}, which is in no layer"
            continue
        assert LAYERS.index(other) <= LAYERS.index(own), f"{own} imports {name}"
        if own == other == "_kernels" and rest and rest[0] in KERNEL_LAYERS and inner[0] in KERNEL_LAYERS:
            assert KERNEL_LAYERS.index(rest[0]) <= KERNEL_LAYERS.index(inner[0]), f"{path.name} imports {name}"


def layer_of(name: str) -> str | None:
    """Return the layer that a module below udtw, or a name in it, belongs to."""
    return next((one for one in LAYERS if name == one or name.startswith(f"{one}.")), None)


def test_no_modules_import_each_other():
    """Within a layer, too, imports form no cycle, whether at the top of a file or inside a function."""
    modules = {
        ".".join(("udtw", *path.relative_to(SOURCE).with_suffix("").parts)).removesuffix(".__init__"): path
        for path in SOURCE.rglob("*.py")
    }
    needs = {}
    for module, path in modules.items():
        found = set()
        for name in imported(path):
            target = name if name in modules else name.rpartition(".")[0]
            # A package that collects the names of its modules is imported by them only as the way to another one.
            if target in modules and target != module and not module.startswith(f"{target}."):
                found.add(target)
        needs[module] = found
    try:
        TopologicalSorter(needs).prepare()
    except CycleError as error:
        pytest.fail(f"Modules import each other: {' → '.join(error.args[1])}")


@pytest.mark.parametrize("module", ["udtw.metrics", "udtw.kernels", "udtw.timeseries.pretraining"])
def test_the_import_of_a_module_that_moved_names_its_replacement(module):
    with pytest.raises(ModuleNotFoundError, match=r"moved in version 0\.3; use "):
        importlib.import_module(module)


def test_the_import_of_a_name_that_moved_names_its_replacement():
    with pytest.raises(ModuleNotFoundError, match=r"use experiments\.deletion\.deletion_curves"):
        from udtw.images import deletion_curves  # noqa: F401


def test_the_changelog_begins_with_this_version():
    newest = re.search(r"^## (\S+) \((\d{4}-\d{2}-\d{2})\)$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert newest is not None
    assert newest[1] == udtw.__version__


def test_the_conda_recipe_agrees_with_the_package():
    text = (ROOT / "conda/recipe/meta.yaml").read_text()
    recipe = yaml.safe_load(jinja2.Template(text).render(PYTHON="python"))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert recipe["package"]["version"] == udtw.__version__
    needed = {one.replace(" ", "").replace("pytorch", "torch") for one in recipe["requirements"]["run"]}
    assert needed == {*project["dependencies"], f"python{project['requires-python']}"}
    [(command, function)] = project["scripts"].items()
    assert recipe["build"]["entry_points"] == [f"{command} = {function}"]


@pytest.mark.parametrize(("argument", "torch_is_imported"), [("--version", False), ("--help", True)])
def test_the_version_is_shown_without_importing_torch(argument, torch_is_imported):
    code = (
        f"import sys; sys.argv = ['udtw', {argument!r}]\nimport udtw_command\n"
        "try:\n    udtw_command.main()\nexcept SystemExit:\n    pass\nprint('torch' in sys.modules)"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert (f"udtw {udtw.__version__}" in shown) == (argument == "--version")
    assert shown.split()[-1] == str(torch_is_imported)
