"""Files of images: encoded pictures, archives, lists of classes, MATLAB annotations, and cached tokens."""

import gzip
import io
import json
import os
import shutil
import tarfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from hardening.parsers import Parser, Read, Seed, demand, mat_seeds, put, reader, safetensors_seeds, zip_of, zip_seeds
from hardening.skeletons import shard_reader


def _encoded(form: str, size: tuple[int, int] = (6, 5)) -> bytes:
    from PIL import Image

    pixels = np.random.default_rng(0).integers(0, 256, (size[1], size[0], 3), dtype=np.uint8)
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, form)
    return buffer.getvalue()


def _pictures(folder: Path) -> tuple[list[Seed], Read]:
    from PIL import Image

    from udtw.images.datasets.safe_images import FORMATS, decode

    def read(file: str, content: bytes) -> None:
        image = decode(content, file)
        demand(isinstance(image, Image.Image) and image.width * image.height > 0, "an image with pixels")
        image.getpixel((image.width - 1, image.height - 1))

    return [Seed(_encoded(form), file=f"a.{form.lower()}") for form in FORMATS], read


def _tar_of(members: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.GNU_FORMAT) as archive:
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return buffer.getvalue()[: 512 * (2 * len(members) + 1)]  # without most of the zeros at the end


def _with_empty_cache(folder: Path, load: Callable[[], Any]) -> Callable[[], Any]:
    """Call ``load`` with its own cache, so that thousands of unpacked archives do not accumulate."""

    def run() -> Any:
        os.environ["UDTW_CACHE"] = str(folder / "cache")
        shutil.rmtree(folder / "cache", ignore_errors=True)
        return load()

    return run


def _archive(suffix: str) -> Callable[[Path], tuple[list[Seed], Read]]:
    def prepare(folder: Path) -> tuple[list[Seed], Read]:
        from udtw.images.datasets.folders import open_folder

        members = {"cat/a.png": _encoded("PNG", (2, 2)), "dog/b.png": _encoded("PNG", (2, 1)), "dog/c.txt": b"text"}
        path = folder / f"x{suffix}"

        def load() -> list[bytes]:
            found = open_folder(path)
            return [found.read(name) for name in found.files()]

        load = _with_empty_cache(folder, load)
        read = reader(folder, load, lambda found: demand(all(isinstance(one, bytes) for one in found), "bytes"))
        if suffix == ".zip":
            return [Seed(zip_of(members), file=path.name)], read
        tar = _tar_of(members)
        if suffix == ".tar":
            return [Seed(tar, file=path.name), Seed(tar, "text", path.name)], read
        packed = gzip.compress(tar, mtime=0)
        return [Seed(packed, file=path.name), Seed(tar, file=path.name, pack=gzip.compress)], read

    return prepare


def _image_zip(folder: Path) -> tuple[list[Seed], Read]:
    from udtw.images import load_images

    members = {f"{kind}/{number}.png": _encoded("PNG", (2, 2)) for kind in ("cat", "dog", "owl") for number in (1, 2)}
    path = folder / "images.zip"

    def check(images: Any) -> None:
        for index in range(len(images)):
            demand(0 <= images.labels[index] < len(images.classes), "a label that is no class")
            demand(images.image(index).width > 0, "an image with pixels")

    return zip_seeds(members, path.name, ["cat/1.png"]), reader(
        folder, _with_empty_cache(folder, lambda: load_images("folder", path)), check
    )


def _split(suffix: str, kind: str, content: bytes) -> Callable[[Path], tuple[list[Seed], Read]]:
    def prepare(folder: Path) -> tuple[list[Seed], Read]:
        from udtw.images.datasets.class_splits import read_split_file

        def check(split: Any) -> None:
            demand(split and set(split) <= {"train", "val", "test"}, "known parts")
            demand(all(isinstance(one, str) for classes in split.values() for one in classes), "names of classes")

        path = folder / f"split{suffix}"
        return [Seed(content, kind, path.name)], reader(folder, lambda: read_split_file(path), check)

    return prepare


def _check_listing(listing: Any) -> None:
    there = set(listing.files.files())
    for name, label in listing.images:
        demand(name in there and label in listing.classes, f"{name!r} of {label!r} is not there")
        listing.files.read(name)


LISTS = {
    "cub": {"images.txt": b"1 001.Crow/a.jpg\n2 002.Owl/b.jpg\n"},
    "aircraft": {
        "images_variant_trainval.txt": b"0034309 707-320\n0034958 A310\n",
        "images_variant_test.txt": b"1 A310\n",
    },
    "nabirds": {
        "images.txt": b"x1 0817/a.jpg\nx2 0900/b.jpg\n",
        "image_class_labels.txt": b"x1 817\nx2 900\n",
        "classes.txt": b"817 Owl (Adult)\n900 Crow\n",
    },
    "cotton80": {"anno/train.txt": b"a.jpg 1\n", "anno/test.txt": b"b.jpg 2\n"},
    "miniimagenet": {
        "train.csv": b"filename,label\nn0153282900000005.jpg,n01532829\n",
        "val.csv": b"filename,label\nn0185567200000003.jpg,n01855672\n",
        "test.csv": b"filename,label\n",
    },
}
PICTURES = (
    "001.Crow/a.jpg",
    "002.Owl/b.jpg",
    "0034309.jpg",
    "0034958.jpg",
    "1.jpg",
    "0817/a.jpg",
    "0900/b.jpg",
    "a.jpg",
    "b.jpg",
    "n0153282900000005.jpg",
    "n0185567200000003.jpg",
)


def _lists(folder: Path) -> tuple[list[Seed], Read]:
    """Put each list into a folder with the name of its data set."""
    from udtw.images.datasets import data_set
    from udtw.images.datasets.folders import Folder

    seeds, readers = [], {}
    for name_of_set, files in LISTS.items():
        root, layout = folder / name_of_set, data_set(name_of_set).find
        assert layout is not None, "found in files"
        for name in PICTURES:
            put(root / "images" / name, b"picture")
        for name, content in files.items():
            put(root / name, content)
            seeds.append(Seed(content, "text", f"{name_of_set}/{name}"))
        readers[name_of_set] = reader(root, partial(layout, Folder(root)), _check_listing)

    def read(file: str, content: bytes) -> None:
        name_of_set, _, name = file.partition("/")
        readers[name_of_set](name, content)

    return seeds, read


def _cars(folder: Path) -> tuple[list[Seed], Read]:
    from scipy.io import savemat

    from udtw.images.datasets.folders import Folder
    from udtw.images.datasets.layouts import find_cars

    rows = np.zeros((1, 2), dtype=[("bbox_x1", object), ("class", object), ("fname", object)])
    for at in range(2):
        rows[0, at] = (np.uint16(39), np.uint8(at + 1), f"{at + 1:05d}.jpg")
        put(folder / "cars_train" / f"{at + 1:05d}.jpg", b"picture")
    values = {
        "devkit/cars_meta.mat": {"class_names": np.array(["Audi A/B", "Fiat"], dtype=object)},
        "devkit/cars_train_annos.mat": {"annotations": rows},
    }
    seeds = []
    for file, content in values.items():
        buffer = io.BytesIO()
        savemat(buffer, content)
        put(folder / file, buffer.getvalue())
        seeds += mat_seeds(buffer.getvalue(), file)
    return seeds, reader(folder, lambda: find_cars(Folder(folder)), _check_listing)


def _omniglot(folder: Path) -> tuple[list[Seed], Read]:
    from experiments.omniglot_runs import _run  # of one run, since the others would be read again every time
    from udtw.images.datasets.folders import Folder

    lines = [f"run01/test/item{i:02d}.png run01/training/class{21 - i:02d}.png\n" for i in range(1, 21)]
    text = "".join(lines).encode()
    put(folder / "run01" / "class_labels.txt", text)
    for i in range(1, 21):
        put(folder / "run01" / "test" / f"item{i:02d}.png", _encoded("PNG", (1, 1)))
        put(folder / "run01" / "training" / f"class{i:02d}.png", _encoded("PNG", (1, 1)))

    def check(run: Any) -> None:
        demand(sorted(run.answers) == list(range(20)), "20 answers")

    read = reader(folder, lambda: _run(Folder(folder), "run01"), check)
    return [Seed(text, "text", "run01/class_labels.txt")], read


def token_folder(folder: Path) -> tuple[bytes, str]:
    """Cache tokens of four images, with a view each; return the manifest and the name of the only shard."""
    from udtw.images import embed
    from udtw.images.backbones.patches import PatchBackbone
    from udtw.images.datasets import make_images

    few = make_images().subset(range(3))
    embed(few, PatchBackbone(16, 8, colour=False, frequencies=1), folder, views=1, augmentation="drawing")
    return (folder / "manifest.json").read_bytes(), next(folder.glob("shard-*")).name


def _check_tokens(tokens: Any) -> None:
    every = range(len(tokens))
    found = [tokens.tokens(every), *(tokens.tokens(every, view=view) for view in range(tokens.n_views))]
    for one in found:
        demand(one.shape == (len(tokens), tokens.grid[0] * tokens.grid[1], tokens.dim), "tokens of the said shape")
    if tokens.has_attention:
        tokens.attention(every)


def _token_manifest(folder: Path) -> tuple[list[Seed], Read]:
    from udtw.images import open_tokens

    manifest, _ = token_folder(folder)
    read = reader(folder, lambda: open_tokens(folder), _check_tokens)
    return [Seed(manifest, kind, "manifest.json") for kind in ("json", "json", "text")], read


def _token_shard(folder: Path) -> tuple[list[Seed], Read]:
    from udtw.images import open_tokens
    from udtw.images.tokens.token_set import TokenShard

    manifest, shard = token_folder(folder)
    content = (folder / shard).read_bytes()

    def load() -> None:
        _check_tokens(open_tokens(folder))
        contents = TokenShard(next(folder.glob("shard-00000-*"))).contents
        demand(isinstance(contents.plan, str), "a plan")

    (folder / shard).unlink()
    return safetensors_seeds(content, shard, ["images"]), shard_reader(folder, manifest, shard, load)


def _processing(folder: Path) -> tuple[list[Seed], Read]:
    from udtw.images.backbones.hugging_face import read_processing

    one = {
        "image_processor_type": "ViTImageProcessor",
        "do_resize": True,
        "size": {"height": 224, "width": 224},
        "resample": 2,
        "do_rescale": True,
        "rescale_factor": 1 / 255,
        "do_normalize": True,
        "image_mean": [0.5, 0.5, 0.5],
        "image_std": [0.5, 0.5, 0.5],
    }
    other = one | {"image_processor_type": "BitImageProcessor", "size": {"shortest_edge": 256}, "crop_size": 224}

    def check(found: Any) -> None:
        demand(np.isfinite([*found.mean, *found.std, found.scale]).all(), "finite numbers")
        demand(min(*found.framing.crop, *found.framing.resize) >= 1, "sizes of at least a pixel")

    read = reader(folder, lambda: read_processing(folder), check)
    return [Seed(json.dumps(values).encode(), "json", "preprocessor_config.json") for values in (one, other)], read


def _weights_index(folder: Path) -> tuple[list[Seed], Read]:
    from udtw.images.backbones.hugging_face import find_checkpoint

    put(folder / "config.json", b"{}")
    put(folder / "model-00001-of-00001.safetensors", b"weights")
    index = {"metadata": {"total_size": 7}, "weight_map": {"a.b": "model-00001-of-00001.safetensors"}}

    def check(found: Any) -> None:
        demand(len(found.checksum) == 64, "a checksum")

    read = reader(folder, lambda: find_checkpoint(folder), check)
    return [Seed(json.dumps(index).encode(), "json", "model.safetensors.index.json")], read


SPLIT_JSON = b'{"train": ["a", "b"], "val": ["c"], "test": ["d/e"]}'

PARSERS = [
    Parser("pictures", "`ImageSet.image`: PNG, JPEG, BMP, GIF, WebP, TIFF", _pictures),
    Parser("zip", "`load_images`, .zip", _archive(".zip")),
    Parser("tar", "`load_images`, .tar", _archive(".tar")),
    Parser("tgz", "`load_images`, .tar.gz", _archive(".tgz")),
    Parser("image-zip", '`load_images("folder")`, pictures in a .zip', _image_zip),
    Parser("split-json", "`split_file`, JSON", _split(".json", "json", SPLIT_JSON)),
    Parser("split-csv", "`split_file`, CSV", _split(".csv", "text", b'class,split\na,train\n"b, c",val\nd/e,test\n')),
    Parser("image-lists", "`load_images`: lists of CUB, Aircraft, NABirds, Cotton80, miniImageNet", _lists),
    Parser("cars-mat", '`load_images("cars")`, .mat', _cars),
    Parser("omniglot-runs", "`omniglot_runs`, class_labels.txt", _omniglot),
    Parser("token-manifest", "`open_tokens`, manifest.json", _token_manifest),
    Parser("token-shard", "`open_tokens`, shards with a right checksum", _token_shard),
    Parser("hf-processing", "`load_backbone`, preprocessor_config.json", _processing),
    Parser("hf-index", "`load_backbone`, model.safetensors.index.json", _weights_index),
]
