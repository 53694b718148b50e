"""Few-shot classification of images by their tokens: backbones, data sets, token caches, models."""

from udtw.images.backbones import Backbone, PatchBackbone, TokenGrid, load_backbone
from udtw.images.datasets import ImageSet, load_images, make_images
from udtw.images.prediction import Predictions, load_support, predict_images
from udtw.images.recognizer import ImageRecipe, ImageRecognizer
from udtw.images.tokens import TokenSet, embed, open_tokens

__all__ = [
    "Backbone",
    "ImageRecipe",
    "ImageRecognizer",
    "ImageSet",
    "PatchBackbone",
    "TokenSet",
    "embed",
    "load_backbone",
    "load_images",
    "make_images",
    "open_tokens",
    "predict_images",
]
