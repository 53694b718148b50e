"""The notebooks run from top to bottom, and keep no output."""

import json

import pytest

from tests.docs.pages import ROOT

pytest.importorskip("nbclient")
pytest.importorskip("ipykernel")

import nbformat
from nbclient import NotebookClient

NOTEBOOKS = sorted((ROOT / "docs" / "notebooks").glob("*.ipynb"))


@pytest.fixture(autouse=True)
def this_package(monkeypatch):
    """The kernel is another process: it takes this tree, and one thread."""
    monkeypatch.setenv("PYTHONPATH", str(ROOT / "src"))
    for name in ("OMP_NUM_THREADS", "NUMBA_NUM_THREADS", "UDTW_NUM_THREADS"):
        monkeypatch.setenv(name, "1")


def test_there_are_three():
    assert [path.stem for path in NOTEBOOKS] == ["align", "classify-with-faults", "few-shot-on-own-tokens"]


@pytest.mark.filterwarnings("default")  # those of the client are not ours
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs(path, tmp_path):
    book = nbformat.read(path, as_version=4)
    NotebookClient(book, timeout=400, kernel_name="python3", resources={"metadata": {"path": str(tmp_path)}}).execute()
    outputs = [output for cell in book.cells if cell.cell_type == "code" for output in cell.outputs]
    assert not [one for one in outputs if one.get("name") == "stderr"]
    shown = [kind for one in outputs for kind in one.get("data", {})]
    if path.stem != "few-shot-on-own-tokens":
        assert "image/png" in shown
    (tmp_path / "run.ipynb").write_text(nbformat.writes(book))


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_outputs_are_not_kept(path):
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    assert all(not cell.get("outputs") and cell.get("execution_count") is None for cell in cells)
