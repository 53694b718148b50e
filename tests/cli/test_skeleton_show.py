"""``udtw skeleton show``: draws what it says, repeatably, and says in one line what is wrong."""

import numpy as np
import pytest
import torch

pytest.importorskip("typer")
pytest.importorskip("matplotlib")

from tests.cli.helpers import fails, run_json, run_ok
from udtw.skeleton import ActionRecognizer, Recipe
from udtw.skeleton.datasets import load_skeletons, protocol
from udtw.skeleton.datasets.protocols import class_split

PNG = b"\x89PNG"
SMALL = {"dim": 8, "joint_dim": 4, "width": 16, "depth": 1, "heads": 2, "stride": 8, "n_steps": 3, "n_query": 1}


@pytest.fixture(scope="module")
def skeletons():
    return load_skeletons("synthetic")


@pytest.fixture(scope="module", autouse=True)
def _one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def model(skeletons, tmp_path_factory):
    path = tmp_path_factory.mktemp("model") / "run.safetensors"
    training = skeletons.subset(protocol(skeletons).train)
    ActionRecognizer(Recipe(n_way=3, **SMALL), skeletons.graph).fit(training, checkpoint_path=path)
    return path


def show(model, out, *words):
    return ("skeleton", "show", model, "synthetic", "--out", out, *words)


def test_help_teaches():
    assert "show" in run_ok("skeleton").stdout
    shown = run_ok("skeleton", "show", "--help").stdout
    assert "udtw skeleton show" in shown.split("Examples:")[1]


def test_a_novel_query_with_its_nearest_supports(model, skeletons, tmp_path):
    out = tmp_path / "new folder" / "match.png"
    result = run_json(*show(model, out, "--seed", 1))
    assert out.read_bytes().startswith(PNG)
    at = skeletons.names.index(result["query"])
    novel = class_split(skeletons).novel
    assert skeletons.labels[at] in novel
    same, other = result["supports"]
    assert same["class"] == result["class"] != other["class"]
    pool = np.array([i for i in protocol(skeletons).novel if i != at])
    scores = ActionRecognizer.load(model).scores(skeletons.subset([at]), skeletons.subset(pool))[0]
    mine = skeletons.labels[pool] == skeletons.labels[at]
    for found, which in ((same, mine), (other, ~mine)):
        assert found["score"] == pytest.approx(scores[which].min(), rel=1e-3)
        assert found["name"] == skeletons.names[pool[which][scores[which].argmin()]]
    assert run_json(*show(model, out, "--seed", 1)) == result
    assert any(run_json(*show(model, out, "--seed", seed))["query"] != result["query"] for seed in (2, 3))


def test_named_clips(model, skeletons, tmp_path):
    names = skeletons.names[0], skeletons.names[13], skeletons.names[5]
    words = ["--query", names[0], "--support", names[1], "--support", names[2]]
    result = run_json(*show(model, tmp_path / "match.svg", *words))
    assert (result["query"], *(one["name"] for one in result["supports"])) == names
    drawn = run_json(*show(model, tmp_path / "match.png", "--query", names[0]))
    trained = class_split(skeletons).train
    assert {skeletons.classes.index(one["class"]) for one in drawn["supports"]} <= set(trained)


def test_one_clip_alone(model, skeletons, tmp_path):
    out = tmp_path / "clip.png"
    result = run_json(*show(model, out, "--clip", skeletons.names[2]))
    assert out.read_bytes().startswith(PNG)
    std = ActionRecognizer.load(model).tokens(skeletons.subset([2])).std[0]
    np.testing.assert_allclose(result["sigma"], std, rtol=1e-4)
    assert result["blocks"] == len(std)


def test_a_model_without_uncertainty(skeletons, tmp_path):
    path = tmp_path / "run.safetensors"
    training = skeletons.subset(protocol(skeletons).train)
    ActionRecognizer(Recipe(metric="protonet", n_way=3, **SMALL), skeletons.graph).fit(training, checkpoint_path=path)
    done = run_ok(*show(path, tmp_path / "clip.png", "--clip", skeletons.names[0]))
    assert "no uncertainty" in done.stderr
    assert "has no coupling" in fails(2, *show(path, tmp_path / "match.png"))


def test_mistakes_are_one_line(model, skeletons, tmp_path):
    name = skeletons.names[0]
    out = tmp_path / "x.png"
    assert name in fails(2, *show(model, out, "--query", name + "0"))
    assert "leave out" in fails(2, *show(model, out, "--clip", name, "--query", name))
    assert ".png, .pdf or .svg" in fails(2, *show(model, tmp_path / "x.doc", "--clip", name))
    assert "no checkpoint" in fails(1, *show(tmp_path / "none", out))
    assert "choose one of" in fails(2, "skeleton", "show", model, "ntu", "--out", out)
    assert "--out" in fails(2, "skeleton", "show", model, "synthetic")
    assert not out.exists()
