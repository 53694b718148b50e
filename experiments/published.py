"""Figures that the paper prints, by table, part of the table and method.

Methods are the metrics of `udtw.Metric` and the baselines of `udtw.fewshot`. Which metrics an experiment runs, and in
which order, is also read from here.
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
"""Accuracy in % by 1, 3 and 5 nearest neighbors and by nearest centroid."""

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


def _images(*, euclidean: Row, soft_dtw: Row, udtw: Row) -> Rows:
    return {"protonet": euclidean, "soft_dtw": soft_dtw, "udtw": udtw}


IMAGES: dict[str, dict[str, Rows]] = {
    "cifar-fs": {"supervised": _images(euclidean=(74.01, 85.45), soft_dtw=(79.96, 90.24), udtw=(80.32, 91.15))},
    "miniimagenet": {
        "supervised": _images(euclidean=(81.66, 92.56), soft_dtw=(85.82, 95.00), udtw=(88.05, 95.59)),
        "unsupervised": _images(
            euclidean=(76.92, 91.21, 93.93, 94.47),
            soft_dtw=(79.29, 92.96, 96.36, 96.96),
            udtw=(80.18, 93.16, 96.55, 97.13),
        ),
    },
    "tieredimagenet": {"supervised": _images(euclidean=(77.71, 88.49), soft_dtw=(81.54, 92.37), udtw=(83.44, 93.07))},
    "cub": {
        "supervised": _images(euclidean=(72.00, 85.61), soft_dtw=(84.17, 93.74), udtw=(87.77, 95.08)),
        "cross-domain": _images(euclidean=(69.20, 76.94), soft_dtw=(78.73, 87.25), udtw=(79.20, 89.12)),
    },
    "dogs": {"supervised": _images(euclidean=(71.48, 86.31), soft_dtw=(75.32, 89.97), udtw=(83.38, 93.58))},
    "cars": {
        "supervised": _images(euclidean=(68.34, 83.42), soft_dtw=(82.58, 94.82), udtw=(90.45, 96.64)),
        "cross-domain": _images(euclidean=(57.55, 68.70), soft_dtw=(65.31, 79.79), udtw=(69.56, 79.96)),
    },
    "aircraft": {"supervised": _images(euclidean=(62.58, 76.13), soft_dtw=(74.02, 88.03), udtw=(83.89, 91.68))},
    "nabirds": {"supervised": _images(euclidean=(71.75, 76.17), soft_dtw=(81.19, 92.85), udtw=(85.72, 94.49))},
    "cotton80": {
        "supervised": _images(euclidean=(60.65, 71.07), soft_dtw=(64.02, 71.40), udtw=(64.72, 75.47)),
        "unsupervised": _images(euclidean=(51.77, 60.73), soft_dtw=(58.48, 69.27), udtw=(60.12, 72.30)),
        "cross-domain": _images(euclidean=(58.18, 67.43), soft_dtw=(58.17, 67.57), udtw=(58.27, 68.47)),
    },
    "soylocal": {
        "supervised": _images(euclidean=(59.40, 67.63), soft_dtw=(58.85, 71.43), udtw=(61.25, 72.67)),
        "unsupervised": _images(euclidean=(50.53, 58.60), soft_dtw=(54.13, 64.30), udtw=(56.78, 64.83)),
        "cross-domain": _images(euclidean=(55.08, 62.30), soft_dtw=(55.05, 62.10), udtw=(55.70, 62.37)),
    },
    "omniglot": {
        "unsupervised": _images(
            euclidean=(82.20, 93.09, 62.61, 81.32),
            soft_dtw=(83.13, 94.55, 67.69, 87.30),
            udtw=(83.84, 94.88, 68.21, 87.48),
        )
    },
}
"""Accuracy in % by data set, mode and method, one for each of `experiments.image_settings.settings_of`."""
