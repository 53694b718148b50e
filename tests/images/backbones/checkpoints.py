"""Small checkpoints with random weights, saved as a user would have them."""

import json
from pathlib import Path

import torch
import transformers

SMALL = {
    "hidden_size": 16,
    "num_hidden_layers": 3,
    "num_attention_heads": 2,
    "intermediate_size": 32,
    "image_size": 32,
    "patch_size": 8,
}
# Kind: class of the model and its configuration, other options, tokens before the patches.
KINDS = {
    "dinov3": ("DINOv3ViT", {"num_register_tokens": 4}, 5),
    "dinov2": ("Dinov2", {"intermediate_size": None, "mlp_ratio": 2}, 1),
    "dinov2-registers": (
        "Dinov2WithRegisters",
        {"intermediate_size": None, "mlp_ratio": 2, "num_register_tokens": 3},
        4,
    ),
    "deit": ("DeiT", {}, 2),
    "vit": ("ViT", {}, 1),
}
# As the hub has them; the names of sizes differ by the processor's age.
IMAGENET = {"image_mean": [0.485, 0.456, 0.406], "image_std": [0.229, 0.224, 0.225], "do_normalize": True}
PROCESSORS = {
    "dinov3": {
        **IMAGENET, "image_processor_type": "DINOv3ViTImageProcessorFast", "size": {"height": 32, "width": 32},
        "crop_size": None, "do_center_crop": None, "do_resize": True, "do_rescale": True, "resample": 2,
        "rescale_factor": 0.00392156862745098, "do_convert_rgb": None,
    },
    "dinov2": {
        **IMAGENET, "image_processor_type": "BitImageProcessor", "size": {"shortest_edge": 40},
        "crop_size": {"height": 32, "width": 32}, "do_center_crop": True, "do_resize": True, "do_rescale": True,
        "resample": 3, "rescale_factor": 0.00392156862745098, "do_convert_rgb": True,
    },
    "deit": {
        **IMAGENET, "feature_extractor_type": "DeiTFeatureExtractor", "size": 40, "crop_size": 32,
        "do_center_crop": True, "do_resize": True, "resample": 3,
    },
    "vit": {
        "feature_extractor_type": "ViTFeatureExtractor", "size": 32, "do_resize": True, "do_normalize": True,
        "image_mean": [0.5, 0.5, 0.5], "image_std": [0.5, 0.5, 0.5],
    },
}  # fmt: skip


def make_model(kind: str, **options):
    name, more, _ = KINDS[kind]
    values = {key: value for key, value in {**SMALL, **more, **options}.items() if value is not None}
    torch.manual_seed(0)
    model = getattr(transformers, f"{name}Model")(getattr(transformers, f"{name}Config")(**values)).eval()
    with torch.no_grad():
        # Initial values near zero would make all tokens alike.
        for parameter in model.parameters():
            parameter.add_(0.2 * torch.randn_like(parameter))
    return model


def save(model, folder: Path, processor: dict) -> Path:
    transformers.utils.logging.disable_progress_bar()
    model.save_pretrained(folder)
    (folder / "preprocessor_config.json").write_text(json.dumps(processor))
    return folder


def checkpoint(kind: str, folder: Path, **options) -> Path:
    return save(make_model(kind, **options), folder, PROCESSORS[kind.removesuffix("-registers")])
