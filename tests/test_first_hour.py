"""The way of a new user through the installed wheel: README, own CSV, matches, picture, classifier, prediction."""

import csv
import hashlib
import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tomllib
import venv
from pathlib import Path

import numpy as np
import pytest

import udtw
from tests.docs.pages import blocks

pytest.importorskip("build")
pytest.importorskip("hatchling")
pytest.importorskip("typer")
pytest.importorskip("pandas")

ROOT = Path(__file__).parents[1]
THREADS = {"OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1", "UDTW_NUM_THREADS": "1"}


@pytest.fixture(scope="module")
def environment(tmp_path_factory):
    """An environment with the wheel, and with the packages of this one but for udtw itself; nothing is fetched."""
    folder = tmp_path_factory.mktemp("installed")
    run([sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder), str(ROOT)], folder)
    [wheel] = folder.glob("*.whl")
    venv.create(folder / "env", with_pip=False)
    python = folder / "env" / "bin" / "python"
    site = next((folder / "env" / "lib").glob("python*/site-packages"))
    pip = [sys.executable, "-m", "pip", "--python", str(python), "install", "--no-deps", "--no-index", "--quiet"]
    run([*pip, "--disable-pip-version-check", str(wheel)], folder)
    # A path file, not --system-site-packages: it comes after the wheel, and runs no path file of the other environment,
    # such as the one by which an editable udtw would be found.
    (site / "others.pth").write_text(sysconfig.get_paths()["purelib"] + "\n")
    share_kernels(site / "udtw" / "_kernels" / "cpu")
    return python


def share_kernels(installed):
    """Let the wheel use the kernels that the tests have compiled, which takes minutes: the same source, equally old."""
    own = ROOT / "src" / "udtw" / "_kernels" / "cpu"
    for source in own.glob("*.py"):
        assert (installed / source.name).read_bytes() == source.read_bytes()
        shutil.copystat(source, installed / source.name)
    theirs, ours = (  # where Numba keeps them
        Path(os.environ["NUMBA_CACHE_DIR"]) / f"cpu_{hashlib.sha1(str(folder).encode()).hexdigest()}"
        for folder in (installed, own)
    )
    ours.mkdir(parents=True, exist_ok=True)
    theirs.unlink(missing_ok=True)
    theirs.symlink_to(ours, target_is_directory=True)


def run(command, folder):
    kept = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "UDTW_DATA")}
    done = subprocess.run(
        list(map(str, command)),
        cwd=folder,
        env=kept | THREADS,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture
def udtw_command(environment, tmp_path):
    return lambda *words: run([environment.with_name("udtw"), *words], tmp_path)


def rows(path):
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def test_it_is_the_wheel_that_runs(environment, tmp_path):
    where = run([environment, "-c", "import udtw; print(udtw.__file__)"], tmp_path).strip()
    assert Path(where).is_relative_to(environment.parents[1])


def test_the_version_imports_nothing_heavy(environment, tmp_path, udtw_command):
    assert udtw_command("--version") == f"udtw {udtw.__version__}\n"
    code = (
        "import sys; before = set(sys.modules); sys.argv = ['udtw', '--version'];"
        "import udtw_command; udtw_command.main();"
        "print(sorted({name.partition('.')[0] for name in set(sys.modules) - before} - set(sys.stdlib_module_names)))"
    )
    assert run([environment, "-c", code], tmp_path).splitlines()[-1] == "['udtw_command']"


def test_the_first_lines_of_the_readme_run(environment, tmp_path):
    [first] = [block for block in blocks(ROOT / "README.md") if block.language == "python"]
    (tmp_path / "first.py").write_text(first.code)
    assert run([environment, "first.py"], tmp_path).startswith("Good match: x is ")


@pytest.fixture
def readme_command(udtw_command):
    """Run the command of the README that begins with these words; further words are added to it."""
    code = [block.code for block in blocks(ROOT / "README.md") if block.language == "sh"][1]
    lines = [shlex.split(line) for line in code.splitlines()]
    return lambda name, *more: udtw_command(*next(words for words in lines if words[1] == name)[1:], *more)


def test_from_two_files_to_matches_a_picture_a_classifier_and_predictions(tmp_path, udtw_command, readme_command):
    rng = np.random.default_rng(0)
    time = np.linspace(0, 1, 60)
    a = np.sin(9 * time) + 0.1 * rng.normal(size=60)
    a[25:33] += rng.normal(size=8)  # the sensor fails
    b = np.sin(9 * time**1.3) + 0.1 * rng.normal(size=60)
    stamps = np.datetime64("2024-03-01T10:00") + np.arange(60)
    for name, values in (("a.csv", a), ("b.csv", b)):
        lines = [f"{when},{20 + 5 * value:.3f}\n" for when, value in zip(stamps, values, strict=True)]
        (tmp_path / name).write_text("timestamp,temp\n" + "".join(lines))
    said = readme_command("align")
    assert "doubtful stretches:" in said
    found = rows(tmp_path / "matches.csv")
    assert [int(row["i"]) for row in found] == list(range(60))
    assert found[0]["time_i"] == found[0]["time_j"] == "2024-03-01T10:00"
    truth = 59 * time ** (1 / 1.3)  # b at this step shows what a shows
    clean = np.r_[0:22, 36:60]
    expected = np.array([float(row["expected"]) for row in found])
    assert np.abs(expected - truth)[clean].mean() < 2
    inside = [float(row["low"]) - 0.5 <= at <= float(row["high"]) + 0.5 for row, at in zip(found, truth, strict=True)]
    assert np.mean(inside) > 0.8
    assert (tmp_path / "matches.png").read_bytes().startswith(b"\x89PNG")

    def series(count, seed):
        rng = np.random.default_rng(seed)
        labels = ["bump" if i % 2 else "dip" for i in range(count)]
        centres = rng.uniform(8, 16, size=count)
        signs = np.where(np.array(labels) == "bump", 1, -1)
        shapes = signs[:, None] * np.exp(-((np.arange(24) - centres[:, None]) ** 2) / 9)
        return labels, shapes + 0.1 * rng.normal(size=(count, 24))

    for name, (labels, values) in {"train.csv": series(12, 0), "new.csv": series(8, 1)}.items():
        lines = [",".join([label, *map(repr, row)]) for label, row in zip(labels, values.tolist(), strict=True)]
        (tmp_path / name).write_text("\n".join([",".join(["y", *(f"t{i}" for i in range(24))]), *lines]))
    readme_command("classify", "--metric", "dtw", "--model", "model.safetensors")
    udtw_command("predict", "model.safetensors", "new.csv", "--out", "again.csv")
    first, again = rows(tmp_path / "predictions.csv"), rows(tmp_path / "again.csv")
    column = next(name for name in first[0] if name.startswith("predict"))
    assert [row[column] for row in first] == [row[column] for row in again] == series(8, 1)[0]


def test_the_wheel_has_what_the_page_of_the_explorer_needs(environment, tmp_path):
    code = "import os, udtw; print(*os.listdir(os.path.join(os.path.dirname(udtw.__file__), 'explorer', 'assets')))"
    assert {"explorer.js", "style.css"} <= set(run([environment, "-c", code], tmp_path).split())
    assert tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"] == {"udtw": "udtw_command:main"}
