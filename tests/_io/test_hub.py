"""Models in folders as the Hugging Face Hub keeps them; nothing here uses the network."""

import json
import pickle
import subprocess
import sys

import huggingface_hub
import numpy as np
import pytest
import torch
from huggingface_hub import PyTorchModelHubMixin

from udtw.errors import FileFormatError
from udtw.images import ImageRecipe, ImageRecognizer
from udtw.nn import PairSigmaNet, SigmaNet
from udtw.skeleton import ActionRecognizer, Recipe
from udtw.skeleton.datasets import make_actions

X = torch.randn(2, 6, 3, generator=torch.Generator().manual_seed(0))
NETS = {
    "step": (lambda: SigmaNet(3, sigma_range=(0.25, 2.25), sigma_init=1.0), (X,)),
    "context": (lambda: SigmaNet(3, 5, context=3, per_feature=True), (X,)),
    "series": (lambda: SigmaNet(3, length=6), (X,)),
    "linear": (lambda: SigmaNet(3, 0), (X,)),
    "pairs": (lambda: PairSigmaNet(3), (X, X)),
    "asymmetric pairs": (lambda: PairSigmaNet(3, 4, symmetric=False), (X, X)),
}


@pytest.mark.parametrize("name", NETS)
def test_networks_come_back_from_a_folder(name, tmp_path):
    make, inputs = NETS[name]
    net = make()
    net.save_pretrained(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {"config.json", "model.safetensors", "README.md"}
    assert json.loads((tmp_path / "config.json").read_text())["dim"] == 3
    found = type(net).from_pretrained(tmp_path)
    assert type(found) is type(net)
    torch.testing.assert_close(found(*inputs), net(*inputs), rtol=0, atol=0)
    again = pickle.loads(pickle.dumps(found))
    torch.testing.assert_close(again(*inputs), net(*inputs), rtol=0, atol=0)
    assert {name for name, _ in found.named_parameters()} == {name for name, _ in net.named_parameters()}


def test_the_folder_is_that_of_the_mixin_itself(tmp_path):
    class Own(SigmaNet, PyTorchModelHubMixin):
        """As a user of huggingface_hub would write it."""

    net = SigmaNet(3, context=3)
    net.save_pretrained(tmp_path)
    torch.testing.assert_close(PyTorchModelHubMixin.from_pretrained.__func__(Own, str(tmp_path))(X), net(X))


class Folder:
    """A Hub of one folder, in place of the network."""

    def __init__(self, root):
        self.root = root

    def create_repo(self, repo_id, **options):
        return type("Url", (), {"repo_id": repo_id})()

    def upload_folder(self, *, repo_id, folder_path, **options):
        target = self.root / repo_id
        target.mkdir(parents=True)
        for path in type(self.root)(folder_path).iterdir():
            (target / path.name).write_bytes(path.read_bytes())
        return f"pushed to {repo_id}"


@pytest.fixture
def hub(tmp_path, monkeypatch):
    def download(repo_id, filename, **options):
        return str(tmp_path / repo_id / filename)

    module = sys.modules["huggingface_hub.hub_mixin"]
    monkeypatch.setattr(module, "HfApi", lambda **options: Folder(tmp_path))
    monkeypatch.setattr(module, "hf_hub_download", download)
    monkeypatch.setattr(huggingface_hub, "hf_hub_download", download)
    return tmp_path


def test_a_network_is_pushed_and_pulled(hub):
    net = SigmaNet(3, context=3)
    assert net.push_to_hub("someone/sigma") == "pushed to someone/sigma"
    torch.testing.assert_close(SigmaNet.from_pretrained("someone/sigma")(X), net(X), rtol=0, atol=0)


@pytest.mark.parametrize("mode", ["supervised", "unsupervised"])
def test_an_action_recogniser_is_pushed_and_pulled(hub, mode):
    actions = make_actions(n_classes=4, n_clips=4)
    recipe = Recipe(
        mode=mode, n_steps=2, n_way=3, n_query=1, dim=8, joint_dim=4, width=8, depth=0, n_atoms=4, n_nearest=2
    )
    recognizer = ActionRecognizer(recipe, actions.graph).fit(actions)
    recognizer.push_to_hub("someone/actions")
    found = ActionRecognizer.from_pretrained("someone/actions")
    assert type(found) is ActionRecognizer
    assert found.losses == recognizer.losses
    np.testing.assert_array_equal(found.scores(actions[:2], actions), recognizer.scores(actions[:2], actions))


def test_an_image_recogniser_comes_back_from_a_folder_and_from_a_file(tmp_path):
    recognizer = ImageRecognizer(ImageRecipe(metric="soft_dtw", dim=8), inputs=12)
    recognizer.save_pretrained(tmp_path / "folder")
    recognizer.save(tmp_path / "model.safetensors")
    tokens = torch.randn(2, 9, 12, generator=torch.Generator().manual_seed(0))
    expected = recognizer.encode(tokens).features
    for found in (
        ImageRecognizer.from_pretrained(tmp_path / "folder"), ImageRecognizer.load(tmp_path / "model.safetensors")
    ):  # fmt: skip
        torch.testing.assert_close(found.encode(tokens).features, expected, rtol=0, atol=0)
    with pytest.raises(FileFormatError, match="action recognizer"):
        ActionRecognizer.from_pretrained(tmp_path / "folder")


def test_without_the_package_everything_else_works_and_the_error_names_the_extra():
    code = (
        "import sys; sys.modules['huggingface_hub'] = None\nfrom udtw.nn import SigmaNet\nimport torch\n"
        "SigmaNet(1)(torch.zeros(2, 3, 1))\n"
        "try:\n    SigmaNet(1).save_pretrained('folder')\n"
        "except ImportError as error:\n    print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "udtw[hub]" in done.stdout


def test_importing_the_networks_does_not_import_the_package():
    code = "import sys, udtw.nn, udtw.skeleton; print('huggingface_hub' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
