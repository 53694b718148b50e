"""Frozen networks from images to grids of tokens: Hugging Face models, ONNX models, CNN feature maps, plain patches."""

from udtw.images.backbones.base import Backbone, Pooled, TokenGrid
from udtw.images.backbones.feature_map import FeatureMapBackbone, efficientnet_lite0
from udtw.images.backbones.hugging_face import HuggingFaceBackbone
from udtw.images.backbones.onnx import OnnxBackbone
from udtw.images.backbones.patches import PatchBackbone, SiftBackbone
from udtw.images.backbones.registry import BACKBONES, load_backbone
