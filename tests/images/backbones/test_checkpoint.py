"""preprocessor_config.json, read as transformers reads it."""

import json

import numpy as np
import pytest
import torch

pytest.importorskip("PIL")
pytest.importorskip("transformers")
from transformers.models.bit.image_processing_pil_bit import BitImageProcessorPil
from transformers.models.deit.image_processing_pil_deit import DeiTImageProcessorPil
from transformers.models.vit.image_processing_pil_vit import ViTImageProcessorPil

from tests.images.backbones.checkpoints import PROCESSORS
from tests.images.backbones.pictures import noise
from udtw.errors import DataError, FileFormatError
from udtw.images.backbones.hugging_face import PROCESSOR_FILE, read_processing
from udtw.images.backbones.pixels import normalize

REFERENCES = {"dinov2": BitImageProcessorPil, "deit": DeiTImageProcessorPil, "vit": ViTImageProcessorPil}


def written(folder, values):
    (folder / PROCESSOR_FILE).write_text(json.dumps(values))
    return folder


def inputs(processing, image):
    return normalize(processing.framing(image), processing.mean, processing.std, processing.scale)


@pytest.mark.parametrize("kind", REFERENCES)
@pytest.mark.parametrize("size", [(60, 40), (35, 90)])
def test_the_model_gets_what_its_own_processor_gives(kind, size, tmp_path):
    values = PROCESSORS[kind]
    own = REFERENCES[kind].from_dict(values)
    expected = own(noise(*size), return_tensors="np")["pixel_values"][0]
    found = inputs(read_processing(written(tmp_path, values)), noise(*size))
    one_step = 1 / 255 / min(values["image_std"])
    assert np.abs(found.numpy() - expected).max() < 1.01 * one_step


def test_dinov3_is_resized_to_a_square(tmp_path):
    # Its processor needs torchvision; what it does is this: torch's bilinear resizing of floats.
    processing = read_processing(written(tmp_path, PROCESSORS["dinov3"]))
    image = noise(60, 40)
    floats = torch.from_numpy(np.array(image)).permute(2, 0, 1)[None] / 255
    expected = torch.nn.functional.interpolate(floats, (32, 32), mode="bilinear", antialias=True)[0]
    assert (processing.framing(image) - expected).abs().max() < 1.01 / 255


@pytest.mark.parametrize(
    ("values", "resize", "crop", "fit", "resample"),
    [
        ({"size": 32}, 32, 32, "stretch", "bilinear"),
        ({"size": 40, "crop_size": 32}, 40, 32, "stretch", "bilinear"),
        ({"size": 40, "crop_size": 32, "do_center_crop": False}, 40, 40, "stretch", "bilinear"),
        ({"size": 40, "crop_size": 32, "image_processor_type": "BitImageProcessor"}, 40, 32, "cover", "bicubic"),
        ({"size": 40, "default_to_square": False, "resample": 0}, 40, 40, "cover", "nearest"),
        ({"size": {"shortest_edge": 40}, "crop_size": {"height": 32, "width": 32}}, 40, 32, "cover", "bilinear"),
    ],
)
def test_the_ways_to_write_a_size(values, resize, crop, fit, resample, tmp_path):
    framing = read_processing(written(tmp_path, PROCESSORS["vit"] | values)).framing
    assert (framing.resize, framing.crop) == ((resize, resize), (crop, crop))
    assert (framing.fit, framing.resample) == (fit, resample)


def test_another_image_size_keeps_the_proportion_of_what_is_cut_off(tmp_path):
    framing = read_processing(written(tmp_path, PROCESSORS["dinov2"]), 64).framing
    assert (framing.resize, framing.crop) == ((80, 80), (64, 64))


def test_steps_that_are_switched_off(tmp_path):
    values = {"do_resize": False, "do_rescale": False, "do_normalize": False}
    processing = read_processing(written(tmp_path, values), 16)
    assert processing.framing.crop == (16, 16)
    assert inputs(processing, noise()).max() > 200
    with pytest.raises(FileFormatError, match="give image_size"):
        read_processing(written(tmp_path, values))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"size": {"longest_edge": 32}}, "size must be height and width"),
        ({"size": -1}, "whole number of pixels; got -1"),
        ({"size": None}, "got None"),
        ({"size": 32, "crop_size": 40}, "crop"),
        ({"resample": 17}, "0 to 5; got 17"),
        ({"image_std": [0, 0, 0]}, "std"),
        ({"image_mean": "grey"}, "mean"),
        ({"rescale_factor": None}, "rescale_factor must be positive and finite; got None"),
    ],
)
def test_what_cannot_be_understood_is_named(change, said, tmp_path):
    with pytest.raises(FileFormatError, match=rf"{PROCESSOR_FILE}.*{said}"):
        read_processing(written(tmp_path, PROCESSORS["vit"] | change))


def test_missing_values_and_a_missing_file_are_named(tmp_path):
    with pytest.raises(FileFormatError, match="'image_mean' is missing"):
        read_processing(written(tmp_path, {"size": 32}))
    (tmp_path / PROCESSOR_FILE).unlink()
    with pytest.raises(DataError, match="save_pretrained"):
        read_processing(tmp_path)


@pytest.mark.parametrize("factor", [1e308, -1, 0, float("nan")])
def test_factors_that_cannot_be_are_refused(tmp_path, factor):
    with pytest.raises(FileFormatError, match="rescale_factor must be positive and finite"):
        read_processing(written(tmp_path, PROCESSORS["vit"] | {"rescale_factor": factor}))
