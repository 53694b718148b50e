"""Public pages and examples use public names only."""

import ast
import importlib
import json
import re
from types import ModuleType

import pytest

from tests.docs.pages import PAGES, ROOT, blocks

PRIVATE = re.compile(
    r"\budtw(?:\.\w+)*\._[a-z]\w*"  # udtw._engine.align, udtw.images._x
    r"|\bfrom udtw[\w.]* import _[a-z]\w*"
    r"|\budtw/(?:\w+/)*_[a-z]\w*/[\w/]*\.py\b"  # src/udtw/_kernels/cpu/rows.py; a README there may be linked
)
FOR_DEVELOPERS = {"docs/architecture.md", "docs/contributing.md", "docs/reliability.md"}
"""Pages about the inside of the library. They may name a private module, and their code may not import one."""
NOTEBOOKS = sorted((ROOT / "docs" / "notebooks").glob("*.ipynb"))
EXAMPLES = sorted((ROOT / "examples").rglob("*.py"))


def read_text(path):
    """Return the text of a page or script, or of all cells of a notebook."""
    text = path.read_text(encoding="utf-8")
    if path.suffix != ".ipynb":
        return text
    return "\n".join("".join(cell["source"]) for cell in json.loads(text)["cells"])


def private_names(text, prose=True):
    """Return the private names in a text; without ``prose``, only those in lines of code that import."""
    lines = text.splitlines() if prose else re.findall(r"^\s*(?:from|import) udtw\b.*$", text, re.MULTILINE)
    return [name for line in lines for name in PRIVATE.findall(line)]


@pytest.mark.parametrize("path", [*PAGES, *NOTEBOOKS, *EXAMPLES], ids=lambda path: str(path.relative_to(ROOT)))
def test_no_private_module_is_named(path):
    developers = str(path.relative_to(ROOT)) in FOR_DEVELOPERS
    names = private_names(read_text(path), prose=not developers)
    assert not names, f"{path.relative_to(ROOT)} names {sorted(set(names))}; use what udtw and its packages list"


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("from udtw._engine.align import align", ["udtw._engine"]),
        ("::: udtw.images._cache.Store", ["udtw.images._cache"]),
        ("see `src/udtw/_kernels/cpu/rows.py`", ["udtw/_kernels/cpu/rows.py"]),
        ("from udtw import _engine", ["from udtw import _engine"]),
        ("`udtw.__version__`, udtw.align, src/udtw/_kernels/README.md, tests/_kernels/test_float32.py", []),
    ],
)
def test_private_names_are_recognised(text, names):
    found = private_names(text)
    assert len(found) == len(names)
    assert all(one.startswith(expected) for one, expected in zip(found, names, strict=True))


def resolve(name):
    """Return what a full name stands for; a function may hide the module that defines it, as barycenter does."""
    module, _, attribute = name.rpartition(".")
    return getattr(importlib.import_module(module), attribute)


def listed_things():
    """Return everything that an API page lists."""
    pages = (ROOT / "docs" / "api").glob("*.md")
    return [resolve(name) for page in pages for name in re.findall(r"^::: ([\w.]+)", page.read_text("utf-8"), re.M)]


@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_imported_names_are_on_an_api_page(page):
    imported = {
        f"{node.module}.{alias.name}"
        for block in blocks(page)
        if block.language == "python"
        for node in ast.walk(ast.parse(block.code))
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("udtw")
        for alias in node.names
    }
    listed = listed_things() if imported else []
    missing = [name for name in imported if not any(resolve(name) is one for one in listed)]
    assert all(isinstance(resolve(name), ModuleType) for name in missing), missing
