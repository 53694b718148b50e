import pytest

pytest.importorskip("PIL")
pytest.importorskip("kornia")

from udtw.images import embed, open_tokens
from udtw.images.backbones import SiftBackbone
from udtw.images.datasets import make_images


@pytest.fixture(scope="session")
def cached(tmp_path_factory):
    """Tokens of the generated images, 4 × 4 each, with two views."""
    folder = tmp_path_factory.mktemp("tokens")
    embed(make_images(10), SiftBackbone(48, 3, 8, 8), folder, views=2, augmentation="drawing")
    return folder


@pytest.fixture
def tokens(cached):
    return open_tokens(cached)
