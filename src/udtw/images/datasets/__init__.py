"""Data sets of images: a table of the published ones, their files, checked, and their classes split as published."""

from udtw.images.datasets.catalogue import DATASETS, DataSet, data_set, load_images
from udtw.images.datasets.class_splits import read_split_file
from udtw.images.datasets.image_set import ImageSet
from udtw.images.datasets.synthetic import make_images, shape_mask

NAMES = tuple(DATASETS)
