"""Public pages and examples use public names only."""

import json
import re

import pytest

from tests.docs.pages import PAGES, ROOT

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
