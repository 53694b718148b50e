"""What the documentation shows is true: its code runs, prints what the page says, and its commands exist."""

import ast
import contextlib
import io

import pytest
import torch

from tests.docs import commands
from tests.docs.pages import PAGES, ROOT, agrees, blocks

pytest.importorskip("aeon")
pytest.importorskip("tslearn.clustering")

LANGUAGES = {"python", "sh", "text", "toml", "json", "csv", "html"}
LONG_OR_FOREIGN = {
    "docs/forecasting.md": "needs the archive",
}
"""Pages that may hold a Python block which is not run, and why."""


def run_python(block, names):
    printed = io.StringIO()
    code = compile(block.code, block.where, "exec")
    with contextlib.redirect_stdout(printed):
        exec(code, names)
    return printed.getvalue()


def check_python(block):
    """A block that is not run: it is Python, and what it imports exists."""
    assert str(block.page.relative_to(ROOT)) in LONG_OR_FOREIGN, f"{block.where} must run"
    tree = ast.parse(block.code)
    tree.body = [node for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom)]
    exec(compile(tree, block.where, "exec"), {})


def run_commands(block):
    printed = ""
    for words in commands.commands(block.code):
        if block.not_run is None and commands.runs_here(words):
            printed += commands.run(words)
        else:
            commands.check(words)
    return printed


def run_page(page, folder, monkeypatch):
    """Every block of a page in order, in one namespace and in an empty folder; the namespace."""
    monkeypatch.chdir(folder)
    monkeypatch.syspath_prepend(str(ROOT))  # `python -m benchmarks` is run from the root
    torch.manual_seed(0)
    names: dict = {"__name__": "page"}
    for block in blocks(page):
        if block.language == "sh":
            printed = run_commands(block)
        elif block.language != "python":
            continue
        elif block.not_run is not None:
            check_python(block)
            continue
        else:
            printed = run_python(block, names)
        if block.output is not None and block.not_run is None:
            assert agrees(block.output, printed), f"{block.where} shows\n{block.output}\nbut prints\n{printed}"
    return names


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_block_of_a_page_runs_and_prints_what_is_shown(page, tmp_path, monkeypatch, one_thread):
    names = run_page(page, tmp_path, monkeypatch)
    if page.name == "overview.md":
        assert names["a"].coupling.shape == (8, 120, 97)
        assert names["x"].grad is not None
        assert names["D"].shape == (2, 1)
        assert names["forecast"].shape == names["std"].shape == (60, 51)


@pytest.mark.parametrize(("page", "most"), [("README.md", 600), ("docs/index.md", 600)])
def test_the_first_pages_are_short(page, most):
    assert len((ROOT / page).read_text(encoding="utf-8").split()) <= most


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_block_is_marked_and_none_escapes_the_tests(page):
    found = blocks(page)
    fences = [line for line in page.read_text(encoding="utf-8").splitlines() if line.lstrip().startswith("```")]
    shown = sum(2 if block.output is None else 4 for block in found)
    assert len(fences) == shown, f"{page}: a fence inside a list or a note is not seen by the tests"
    for block in found:
        commanding = block.code.lstrip().startswith("udtw ")
        assert block.language in LANGUAGES or (page.name == "README.md" and not commanding), block.where
        assert block.language == "sh" or not commanding, f"{block.where}: mark commands as sh"


def write(folder, text):
    page = folder / "page.md"
    page.write_text(text)
    return page


def test_wrong_output_is_noticed(tmp_path, monkeypatch):
    monkeypatch.setattr("tests.docs.pages.ROOT", tmp_path)
    right = write(tmp_path, "```python\nprint(1 / 3)\n```\n\n```text\n0.333\n```\n")
    block = blocks(right)[0]
    assert not agrees("0.335", "0.3333")
    assert not agrees("3 of 4", "2 of 4")
    assert not agrees("accuracy 0.3", "precision 0.3")
    assert agrees(block.output, run_python(block, {}))


def test_wrong_flags_and_commands_are_noticed(tmp_path):
    usage = commands.typer.BadParameter.__base__
    commands.check(["udtw", "classify", "GunPoint", "--data-dir", "DATA", "--k", "3"])
    with pytest.raises(usage, match="No such option"):
        commands.check(["udtw", "classify", "GunPoint", "--neighbours", "3"])
    with pytest.raises(usage, match="Missing parameter: b"):
        commands.check(["udtw", "align", "a.csv"])
    with pytest.raises(AssertionError, match="there is no command"):
        commands.check(["udtw", "images", "paint"])
    with pytest.raises(AssertionError):
        commands.check(["make", "coffee"])
    with pytest.raises(AssertionError, match="there is no"):
        commands.check(["no-such-program", "--help"])


def test_a_skipped_block_is_known_by_its_comment(tmp_path):
    page = write(tmp_path, "<!-- not run: takes an hour -->\n```sh\nudtw demo\n```\n\n```sh\nudtw demo\n```\n")
    assert [block.not_run for block in blocks(page)] == ["takes an hour", None]
