"""Machines that are set up badly: a C locale, no HOME, no folder for compiled kernels, two first calls at once."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]
DTW = "import numpy as np, udtw; print(udtw.dtw(np.array([0.0, 1.0, 2.0]), np.array([0.0, 2.0])))"
"""The smallest kernel: it compiles in a second."""
ASCII = {"LC_ALL": "C", "LANG": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="sets the locale and HOME of Linux")


def start(code, *words, without=(), source=ROOT / "src", **changed):
    kept = {name: value for name, value in os.environ.items() if name not in (*without, "PYTHONIOENCODING")}
    environment = {**kept, "PYTHONPATH": str(source), **{name: str(value) for name, value in changed.items()}}
    command = [sys.executable, "-c", code, *map(str, words)]
    return subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, encoding="utf-8"
    )


def finish(process):
    stdout, stderr = process.communicate()
    assert process.returncode == 0, stdout + stderr
    return stdout, stderr


@pytest.fixture
def pair(tmp_path):
    """Two files with a column name that is not ASCII."""
    y = np.sin(np.linspace(0, 9, 80)) + np.linspace(0, 2, 80)
    for name, values in (("a.csv", 1.3 * y[5:70] - 0.5), ("b.csv", y)):
        lines = ["température", *(f"{value:.4f}" for value in values)]
        (tmp_path / name).write_text("\n".join(lines), encoding="utf-8")
    return tmp_path / "a.csv", tmp_path / "b.csv"


@pytest.mark.parametrize("words", [["--help"], ["align", "--help"], ["align"]], ids=" ".join)
def test_the_command_works_in_a_c_locale(pair, tmp_path, words):
    pytest.importorskip("typer")
    out = tmp_path / "température.csv"
    words = [*words, *pair, "--out", out] if words == ["align"] else words
    stdout, stderr = finish(start("from udtw_command import main; main()", *words, **ASCII))
    assert "Error" not in stderr
    assert ("match: " in stdout and out.exists()) if out in words else "Usage" in stdout


def test_a_match_is_printed_in_a_c_locale():
    code = (
        "import sys, numpy as np, udtw; assert sys.stdout.encoding == 'ascii', sys.stdout.encoding\n"
        "y = np.sin(np.linspace(0, 9, 80)) + np.random.default_rng(0).normal(0, 0.02, 80).cumsum()\n"
        "print(udtw.match(1.3 * y - 0.5, y))"
    )
    stdout, _ = finish(start(code, **{**ASCII, "PYTHONIOENCODING": "ascii"}))
    assert "gain 1.3" in stdout


def test_no_home(tmp_path):
    code = DTW + "; from udtw.data.folder import cache_root; print(cache_root().name)"
    stdout, _ = finish(start(code, without=("HOME", "XDG_CACHE_HOME", "UDTW_CACHE"), NUMBA_CACHE_DIR=tmp_path))
    assert stdout.split() == ["1.0", "udtw"]


def test_without_a_folder_for_kernels_the_portable_backend_answers_and_says_so(tmp_path):
    shutil.copytree(ROOT / "src" / "udtw", tmp_path / "udtw", ignore=shutil.ignore_patterns("__pycache__"))
    file = tmp_path / "udtw" / "_kernels" / "cpu" / "__pycache__"
    file.write_text("no folder, so that not even root can write into it")
    nowhere = {"NUMBA_CACHE_DIR": file / "x", "HOME": file}
    code = f"{DTW}; print(float(udtw.align([0.0, 1.0], [0.0, 1.0]).loss))"
    stdout, stderr = finish(start(code, without=("XDG_CACHE_HOME",), source=tmp_path, **nowhere))
    assert float(stdout.split()[0]) == 1.0
    assert np.isfinite(float(stdout.split()[1]))
    assert stderr.count("Set NUMBA_CACHE_DIR") == 1


def test_two_processes_compile_at_once_into_one_empty_cache(tmp_path):
    both = [start(DTW, NUMBA_CACHE_DIR=tmp_path) for _ in range(2)]
    assert [finish(one)[0] for one in both] == ["1.0\n", "1.0\n"]
    code = "; from udtw._kernels.cpu.short import dtw_of_pair; print(*dtw_of_pair.stats.cache_hits.values())"
    assert finish(start(DTW + code, NUMBA_CACHE_DIR=tmp_path))[0] == "1.0\n1\n"
