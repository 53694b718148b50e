"""Few-shot classification of images by their tokens: backbones, data sets, token caches, models."""

from udtw.images.backbones import Backbone, PatchBackbone, TokenGrid, load_backbone
from udtw.images.datasets import ImageSet, load_images
from udtw.images.deletion import DeletionCurves, deletion_curves
from udtw.images.prediction import Predictions, load_support, predict_images
from udtw.images.recipe import ImageRecipe
from udtw.images.recognizer import ImageRecognizer
from udtw.images.tokens import TokenSet, embed, open_tokens

__all__ = [
    "Backbone",
    "DeletionCurves",
    "ImageRecipe",
    "ImageRecognizer",
    "ImageSet",
    "PatchBackbone",
    "Predictions",
    "TokenGrid",
    "TokenSet",
    "deletion_curves",
    "embed",
    "load_backbone",
    "load_images",
    "load_support",
    "open_tokens",
    "predict_images",
]
