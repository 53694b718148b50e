"""The downloaded script computes the numbers of the page and draws a picture of them."""

import re

import numpy as np
import pytest

pytest.importorskip("PIL")
pytest.importorskip("matplotlib")

from PIL import Image

from tests.explorer.helpers import IMAGES, SERIES, SKELETONS, data_url
from udtw.explorer.image_tab import ImageTab
from udtw.explorer.scripts import preview
from udtw.explorer.series_tab import SeriesTab
from udtw.explorer.skeleton_tab import SkeletonTab
from udtw.explorer.uploads import UPLOAD


@pytest.fixture(autouse=True)
def small_pictures(monkeypatch):
    """Drawing takes most of the time."""
    monkeypatch.setattr("udtw.explorer.scripts.DPI", 40)


def run(tab, values, folder, monkeypatch, capsys):
    """Run the script: its alignment, what it prints, and its picture."""
    script = tab.script(values)
    monkeypatch.chdir(folder)
    names = {}
    exec(compile(script["content"], script["filename"], "exec"), names)
    printed = capsys.readouterr().out
    return names["a"], printed, np.asarray(Image.open(folder / f"{tab.file}.png"))


def check(tab, values, folder, monkeypatch, capsys):
    a, printed, drawn = run(tab, values, folder, monkeypatch, capsys)
    *_, result = tab.aligned(values)
    assert float(a.distance) == float(result.alignment.distance)
    assert float(a.regularizer) == float(result.alignment.regularizer)
    assert float(a.loss) == float(result.alignment.loss)
    assert re.search(r"distance (\S+),", printed)[1] == repr(float(result.alignment.distance))
    assert drawn[..., :3].std() > 5, "the picture is not empty"


@pytest.mark.parametrize(
    "change",
    [
        {},
        {"side": "both", "band": 20, "scale": [], "view": "lines"},
        {"x-set": "warps", "x-item": 1, "y-set": "warps", "y-item": 0, "side": "both", "view": "lines"},
        {"variance": "none", "noise": 0, "gamma": 0.3, "y-set": "charts-60", "y-item": 1},
        {"variance": "match"},
        {"variance": "match", "y-set": "charts-60", "y-item": 5},
        {"variance": "match", "x-set": "warps", "x-item": 1, "y-set": "warps", "y-item": 0, "view": "lines"},
    ],
    ids=str,
)
def test_series(change, tmp_path, monkeypatch, capsys):
    check(SeriesTab(), SERIES | change, tmp_path, monkeypatch, capsys)


def test_an_uploaded_series_is_in_the_script_to_the_last_digit(tmp_path, monkeypatch, capsys):
    tab = SeriesTab()
    rows = "\n".join(repr(float(v)) for v in np.random.default_rng(0).standard_normal(40))
    key, _, _ = tab.take(data_url(rows.encode()), 'evil"""\nraise SystemExit  # .csv')
    check(tab, SERIES | {"x-set": UPLOAD, "x-key": key, "variance": "none"}, tmp_path, monkeypatch, capsys)


def test_times_of_an_uploaded_series_are_in_the_script(tmp_path, monkeypatch, capsys):
    tab = SeriesTab()
    rows = "".join(f"2024-03-01T10:{minute:02d},{minute % 7 + 0.1 * (minute % 3)}\n" for minute in range(40))
    key, _, _ = tab.take(data_url(f"when,value\n{rows}".encode()), "a.csv")
    own = {"x-set": UPLOAD, "x-key": key, "variance": "match", "view": "lines"}
    check(tab, SERIES | own, tmp_path, monkeypatch, capsys)


def test_a_series_of_the_archive_is_found_by_the_environment(tmp_path, monkeypatch, capsys):
    rng = np.random.default_rng(0)
    for split in ("TRAIN", "TEST"):
        rows = ["\t".join(["1", *map(repr, rng.standard_normal(30).tolist())]) for _ in range(3)]
        (tmp_path / f"Waves_{split}.tsv").write_text("\n".join(rows))
    monkeypatch.setenv("UDTW_DATA", str(tmp_path))
    values = SERIES | {"x-set": "ucr-Waves", "y-set": "ucr-Waves", "y-item": 2}
    check(SeriesTab(tmp_path), values, tmp_path, monkeypatch, capsys)


@pytest.mark.parametrize("change", [{}, {"variance": "none", "order": "hilbert", "y-set": "star dotted"}], ids=str)
def test_images(change, tmp_path, monkeypatch, capsys):
    check(ImageTab(), IMAGES | change, tmp_path, monkeypatch, capsys)


def test_an_uploaded_image_is_opened_by_its_name(tmp_path, monkeypatch, capsys):
    tab = ImageTab()
    pixels = np.random.default_rng(0).integers(0, 255, (50, 70, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(tmp_path / "mine.png")
    key, described, _ = tab.take(data_url((tmp_path / "mine.png").read_bytes(), "image/png"), "mine.png")
    assert described == "mine.png: 70 × 50 pixels"
    check(tab, IMAGES | {"x-set": "upload", "x-key": key}, tmp_path, monkeypatch, capsys)


@pytest.mark.parametrize("variance", ["rough", "known"])
def test_skeletons(variance, tmp_path, monkeypatch, capsys):
    check(SkeletonTab(), SKELETONS | {"variance": variance, "y-item": 2}, tmp_path, monkeypatch, capsys)


def test_the_page_shows_long_lists_shortened():
    code = f"x = np.array({list(range(1000))})\ny = 2\n"
    assert len(preview(code)) < 200
    assert preview(code).endswith("y = 2")
