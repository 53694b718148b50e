"""The image experiments: their units, one quick run from images to report, and tables that add up."""

import io
import zipfile
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("kornia")

from PIL import Image

from experiments import Document, Store, run
from experiments.image_report import report_accuracies, short
from experiments.image_runs import METHODS, recipe_of, tokens_of
from experiments.image_tables import PHOTOGRAPHS
from experiments.registry import EXPERIMENTS, experiment, units_of, work_of
from experiments.units import Unit
from tests.cli.helpers import fails, run_ok
from udtw.errors import OptionError

pytestmark = pytest.mark.usefixtures("one_thread")
EVERY = {"datasets": None, "seeds": [0, 1], "quick": False, "data_dir": None, "backbones": None, "per_class": None}


@pytest.mark.parametrize("name", [*PHOTOGRAPHS, "omniglot", "cifar-fs", "cross-domain"])
def test_every_method_has_its_units_which_share_all_but_the_comparison(name):
    module = experiment(name)
    units = units_of(module, **EVERY)
    assert len(units) == len(set(units))
    assert module.title
    usual = [unit for unit in units if "changes" not in unit.options]
    kinds = {(u.dataset, u.options["mode"]) for u in usual}
    assert len(usual) == len(kinds) * len(METHODS) * 2
    for dataset, mode in kinds:
        chosen = [u for u in usual if (u.dataset, u.options["mode"]) == (dataset, mode)]
        recipes = [(u.method, recipe_of(u).as_dict()) for u in chosen]
        assert {recipe.pop("n_steps") for method, recipe in recipes if method == "untrained"} == {0}
        (n_steps,) = {recipe.pop("n_steps") for method, recipe in recipes if method != "untrained"}
        assert n_steps > 0
        assert {method for method, recipe in recipes if recipe["order"] == "raster"} == {"raster"}
        own = ("metric", "seed", "order")
        same = [{k: v for k, v in recipe.items() if k not in own} for _, recipe in recipes]
        assert all(recipe == same[0] for recipe in same)


def test_a_quick_run_from_pictures_to_report(tmp_path):
    cub = experiment("cub")
    options = EVERY | {"datasets": ["synthetic"], "seeds": [0], "quick": True, "backbones": ["sift?image_size=48"]}
    units = units_of(cub, **options | {"per_class": 10})
    chosen = [unit for unit in units if unit.method in ("udtw", "protonet")]
    cub.prepare(chosen, None, str(tmp_path))
    counts = {part: np.bincount(tokens_of(chosen[0], part, tmp_path).labels) for part in ("train", "novel")}
    assert max(counts["train"]) == 10
    assert max(counts["novel"]) == 20  # a limit of 10 would leave too few for five supports and 15 queries
    store = Store(tmp_path / "units")
    assert run(chosen, work_of(cub, None, tmp_path), store).computed == 4
    assert not list((tmp_path / "checkpoints").glob("*"))
    for unit, result in store.results():
        assert 0.15 < result["5-1"]["mean"] < result["5-5"]["mean"] < 1
        assert ("correlations" in result) == (unit.method == "udtw")
    document = Document("test")
    cub.report(store.results(), document)
    text = (document.write(tmp_path).parent / "report.md").read_text()
    assert "synthetic, unsupervised, sift" in text
    assert "rank correlation" in text


def test_novel_images_keep_the_attention_of_a_backbone_that_has_one(tmp_path):
    pytest.importorskip("onnxruntime")
    pytest.importorskip("onnx")
    from tests.images.backbones.onnx_files import write_model

    path = write_model(tmp_path / "tiny.onnx")
    cub = experiment("cub")
    options = EVERY | {"datasets": ["synthetic"], "seeds": [0], "quick": True, "per_class": 4}
    with_attention, without = (
        units_of(cub, **options | {"backbones": [f"onnx:{path}#tokens?image_size=32{rest}"]})[0]
        for rest in ("&attention=attention", "")
    )
    cub.prepare([with_attention, without], None, str(tmp_path))
    kept = {
        (name, part): tokens_of(unit, part, tmp_path).has_attention
        for name, unit in (("with", with_attention), ("without", without))
        for part in ("train", "novel")
    }
    assert [which for which, has in kept.items() if has] == [("with", "novel")]


def drawing(seed: int) -> bytes:
    pixels = np.random.default_rng(seed).integers(0, 2, (6, 6)).repeat(6, 0).repeat(6, 1).astype(np.uint8) * 255
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, "PNG")
    return buffer.getvalue()


def test_omniglot_from_its_archives_to_the_official_runs(tmp_path):
    """Eight alphabets of ten random signs, which their twenty drawers draw alike: all should be recognised."""
    data, out = tmp_path / "omniglot", tmp_path / "runs"
    data.mkdir()
    with zipfile.ZipFile(data / "images_background_small1.zip", "w") as archive:
        for alphabet in range(8):
            for sign in range(10):
                for drawer in range(20):
                    name = f"images_background_small1/A{alphabet}/character{sign + 1:02d}/{sign:04d}_{drawer + 1:02d}"
                    archive.writestr(f"{name}.png", drawing(100 * alphabet + sign))
    with zipfile.ZipFile(data / "all_runs.zip", "w") as archive:
        for run_number in range(1, 21):
            name = f"run{run_number:02d}"
            lines = []
            for item in range(20):
                answer = (item + run_number) % 20
                archive.writestr(f"{name}/training/class{item + 1:02d}.png", drawing(item))
                archive.writestr(f"{name}/test/item{item + 1:02d}.png", drawing(answer))
                lines.append(f"{name}/test/item{item + 1:02d}.png {name}/training/class{answer + 1:02d}.png")
            archive.writestr(f"{name}/class_labels.txt", "\n".join(lines))
    run_ok("reproduce", "omniglot", "--data-dir", tmp_path, "--out", out, "--quick", "--backbones",
           "patches-grey?pool=3")  # fmt: skip
    results = Store(out / "omniglot-quick" / "units").results()
    assert len(results) == len(METHODS)
    for _, result in results:
        assert len(result["run_errors"]) == 20
        assert max(result["run_errors"]) == 0
        assert result["20-5"]["mean"] == 1
    assert "20 official runs" in (out / "omniglot-quick" / "report.md").read_text()


def result(method: str, seed: int, accuracy: float, **params) -> tuple[Unit, dict]:
    params = {"mode": "supervised", "backbone": "dinov3", "per_class": None, "n_episodes": 1000} | params
    one = {"mean": accuracy, "half_width": 0.01, "n": 1000}
    return Unit("cub", "cub", method, seed, params), {"5-1": one, "5-5": one | {"mean": accuracy + 0.1}}


PAPER = {"supervised": {"udtw": (87.77, 95.08)}}


def reported(results: list[tuple[Unit, dict]], folder: Path, paper: dict) -> str:
    document = Document("test")
    report_accuracies(results, document, paper)
    return (document.write(folder).parent / "report.md").read_text()


def test_tables_have_ours_and_the_papers_numbers_and_paired_differences(tmp_path):
    results = [result("udtw", 0, 0.6), result("udtw", 1, 0.7), result("soft_dtw", 0, 0.5), result("soft_dtw", 1, 0.6)]
    results += [result("udtw", 0, 0.65, order="snake", changes="snake order")]
    text = reported(results, tmp_path, PAPER)
    assert "(87.77)" in text
    row = next(line for line in text.splitlines() if line.startswith("| sDTW | 10.0"))
    assert row == "| sDTW | 10.0 ± 0.0 | 10.0 ± 0.0 |"
    assert "| uDTW | snake order | 65.0 ± 1.0 | 75.0 ± 1.0 |" in text


def test_results_of_other_settings_are_not_averaged_but_told_apart(tmp_path):
    results = [result("udtw", 0, 0.4), result("udtw", 0, 0.6, beta=1.0), result("udtw", 1, 0.7, beta=1.0)]
    results += [result("soft_dtw", 0, 0.5), result("soft_dtw", 1, 0.5)]
    text = reported(results, tmp_path, PAPER)
    assert "| uDTW (settings left as they were) | 40.0 ± 1.0 (87.77) |" in text
    assert "| uDTW (beta=1.0) | 65.0 ± 63.5 (87.77) |" in text
    assert "| sDTW, from uDTW (beta=1.0) | 15.0 ± 63.5 |" in text
    assert "| sDTW, from uDTW (settings left as they were) | -10.0 |" in text


def test_a_setting_that_could_not_be_judged_is_a_gap_in_the_table(tmp_path):
    results = [result("udtw", 0, 0.6), result("soft_dtw", 0, 0.5)]
    for _, found in results:
        del found["5-1"]
    text = reported(results, tmp_path, {})
    assert "| sDTW | – | 60.0 ± 1.0 |" in text
    assert "| sDTW | – | 10.0 |" in text


def test_other_images_and_sources_are_not_averaged_and_only_the_papers_data_has_its_numbers(tmp_path):
    results = [result("udtw", 0, 0.6), result("udtw", 1, 0.2, per_class=20)]
    results += [(Unit("cub", "synthetic", u.method, 0, u.options), r) for u, r in results[:1]]
    text = reported(results, tmp_path, PAPER)
    assert "| uDTW | 60.0 ± 1.0 (87.77) | 70.0 ± 1.0 (95.08) |" in text
    assert "| uDTW | 20.0 ± 1.0 (87.77) | 30.0 ± 1.0 (95.08) |" in text
    assert "| uDTW | 60.0 ± 1.0 | 70.0 ± 1.0 |" in text


def test_a_path_in_a_backbones_spec_stays_out_of_reports():
    assert short("onnx:/home/me/model.onnx#block") == "onnx:model.onnx#block"
    assert short("hf:/data/dinov3?pool=7") == "hf:dinov3?pool=7"
    assert short("dinov3?pool=7") == "dinov3?pool=7"


def test_what_is_refused():
    assert set(PHOTOGRAPHS) < set(EXPERIMENTS)
    with pytest.raises(OptionError, match="synthetic"):
        units_of(experiment("cub"), **EVERY | {"datasets": ["cars"]})
    with pytest.raises(OptionError, match="images"):
        units_of(experiment("ucr"), **EVERY | {"backbones": ["patches"]})
    with pytest.raises(OptionError, match="SOURCE>TARGET"):
        units_of(experiment("cross-domain"), **EVERY | {"datasets": ["cub>"]})
    assert "no experiment" in fails(2, "reproduce", "imagenet")
