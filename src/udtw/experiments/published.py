"""Every figure that the paper prints, by table (name of the experiment), part of the table and method.

Methods are the metrics of `udtw.metrics` and the baselines of `udtw.fewshot`; "protonet" of images is the Euclidean
distance of pooled tokens. Which methods an experiment runs, and in which order, is also read from here.
"""

from collections.abc import Mapping

Row = tuple[float, ...]
"""The figures of one method, by column."""
Rows = Mapping[str, Row]
"""Method to figures."""

UCR: Rows = {
    "euclidean": (71.2, 72.3, 73.0, 61.3),
    "dtw": (74.2, 75.0, 75.4, 65.9),
    "soft_dtw": (76.2, 77.2, 78.0, 70.5),
    "soft_dtw_divergence": (78.6, 79.5, 80.1, 70.9),
    "udtw": (80.0, 81.2, 83.3, 72.2),
}
"""Accuracy in % by 1, 3 and 5 nearest neighbours and by nearest centroid."""

ECG5000: Rows = {
    "euclidean": (32.1, 20.0, 15.3, 14.4),
    "soft_dtw": (38.6, 17.2, 22.6, 32.1),
    "soft_dtw_divergence": (24.6, 38.9, 20.0, 15.4),
    "udtw": (23.0, 16.7, 16.8, 8.27),
}
"""Loss in training to MSE, DTW, soft-DTW divergence and uDTW of the forecasts."""

TRAINED = tuple(ECG5000)
"""The metrics that the paper trains with."""

SKELETONS: dict[str, dict[str, Rows]] = {
    "ntu60": {
        "supervised": {
            "matchnet": (46.1, 48.6, 53.3, 56.3, 58.8),
            "protonet": (47.2, 51.1, 54.3, 58.9, 63.0),
            "tap": (54.2, 57.3, 61.7, 64.7, 68.3),
            "euclidean": (38.5, 42.2, 45.1, 48.3, 50.9),
            "soft_dtw": (53.7, 56.2, 60.0, 63.9, 67.8),
            "soft_dtw_divergence": (54.0, 57.3, 62.1, 65.7, 69.0),
            "udtw": (56.9, 61.2, 64.8, 68.3, 72.4),
        },
        "unsupervised": {
            "euclidean": (20.9, 23.7, 26.3, 30.0, 33.1),
            "soft_dtw": (35.6, 45.2, 53.3, 56.7, 61.7),
            "soft_dtw_divergence": (36.0, 46.1, 54.0, 57.2, 62.0),
            "udtw": (37.0, 48.3, 55.3, 58.0, 63.3),
        },
    },
    "ntu120": {
        "supervised": {
            "matchnet": (20.5, 23.4, 25.1, 28.7, 30.0),
            "protonet": (21.7, 24.0, 25.9, 29.2, 32.1),
            "tap": (31.2, 37.7, 40.9, 44.5, 47.3),
            "euclidean": (18.7, 21.3, 24.9, 27.5, 30.0),
            "soft_dtw": (30.3, 37.2, 39.7, 44.0, 46.8),
            "soft_dtw_divergence": (30.8, 38.1, 40.0, 44.7, 47.3),
            "udtw": (32.2, 39.0, 41.2, 45.3, 49.0),
        },
        "unsupervised": {
            "euclidean": (13.5, 16.3, 20.0, 24.9, 26.2),
            "soft_dtw": (20.1, 25.3, 32.0, 36.9, 40.9),
            "soft_dtw_divergence": (20.8, 26.0, 33.2, 37.5, 42.3),
            "udtw": (22.7, 28.3, 35.9, 39.4, 44.0),
        },
    },
    "kinetics": {
        "supervised": {
            "udtw": (35.5, 42.0),
            "soft_dtw_divergence": (35.0, 40.1),
            "soft_dtw": (34.7, 39.6),
            "tap": (32.9, 36.0),
            "euclidean": (21.2, 23.1),
        },
        "unsupervised": {
            "udtw": (25.9, 32.7),
            "soft_dtw_divergence": (24.0, 28.9),
            "soft_dtw": (23.3, 28.3),
            "euclidean": (12.7, 13.3),
        },
    },
}
"""Accuracy in %: of NTU by number of training classes, of Kinetics from 2D and from 3D joints."""


def _rows(euclidean: Row, soft_dtw: Row, udtw: Row) -> Rows:
    return {"protonet": euclidean, "soft_dtw": soft_dtw, "udtw": udtw}


IMAGES: dict[str, dict[str, Rows]] = {
    "cifar-fs": {"supervised": _rows((74.01, 85.45), (79.96, 90.24), (80.32, 91.15))},
    "miniimagenet": {
        "supervised": _rows((81.66, 92.56), (85.82, 95.00), (88.05, 95.59)),
        "unsupervised": _rows((76.92, 91.21, 93.93, 94.47), (79.29, 92.96, 96.36, 96.96), (80.18, 93.16, 96.55, 97.13)),
    },
    "tieredimagenet": {"supervised": _rows((77.71, 88.49), (81.54, 92.37), (83.44, 93.07))},
    "cub": {"supervised": _rows((72.00, 85.61), (84.17, 93.74), (87.77, 95.08))},
    "dogs": {"supervised": _rows((71.48, 86.31), (75.32, 89.97), (83.38, 93.58))},
    "cars": {"supervised": _rows((68.34, 83.42), (82.58, 94.82), (90.45, 96.64))},
    "aircraft": {"supervised": _rows((62.58, 76.13), (74.02, 88.03), (83.89, 91.68))},
    "nabirds": {"supervised": _rows((71.75, 76.17), (81.19, 92.85), (85.72, 94.49))},
    "cotton80": {
        "supervised": _rows((60.65, 71.07), (64.02, 71.40), (64.72, 75.47)),
        "unsupervised": _rows((51.77, 60.73), (58.48, 69.27), (60.12, 72.30)),
    },
    "soylocal": {
        "supervised": _rows((59.40, 67.63), (58.85, 71.43), (61.25, 72.67)),
        "unsupervised": _rows((50.53, 58.60), (54.13, 64.30), (56.78, 64.83)),
    },
    "omniglot": {
        "unsupervised": _rows((82.20, 93.09, 62.61, 81.32), (83.13, 94.55, 67.69, 87.30), (83.84, 94.88, 68.21, 87.48))
    },
}
"""Accuracy in % by data set and mode, a column for each setting of `udtw.images.datasets.settings_of`."""

CROSS_DOMAIN: dict[str, Rows] = {
    "cub": _rows((69.20, 76.94), (78.73, 87.25), (79.20, 89.12)),
    "cars": _rows((57.55, 68.70), (65.31, 79.79), (69.56, 79.96)),
    "cotton80": _rows((58.18, 67.43), (58.17, 67.57), (58.27, 68.47)),
    "soylocal": _rows((55.08, 62.30), (55.05, 62.10), (55.70, 62.37)),
}
"""Accuracy in % by test set, trained on miniImageNet without labels."""
