"""Data sets of images: read where they lie, checked, with their classes split as published."""

from udtw.images.datasets.class_splits import read_split_file
from udtw.images.datasets.image_set import ImageSet
from udtw.images.datasets.loading import NAMES, load_images
from udtw.images.datasets.omniglot import Run, omniglot_runs, runs_as_images
from udtw.images.datasets.protocols import MODES, Setting, settings_of
from udtw.images.datasets.synthetic import make_images, shape_mask

__all__ = [
    "MODES",
    "NAMES",
    "ImageSet",
    "Run",
    "Setting",
    "load_images",
    "make_images",
    "omniglot_runs",
    "read_split_file",
    "runs_as_images",
    "settings_of",
    "shape_mask",
]
