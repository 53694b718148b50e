"""Figures that the paper prints on series and skeletons, by table, part of the table and method.

Methods are the metrics of `udtw.Metric` and the baselines of `udtw.fewshot`. Which metrics an experiment runs, and in
which order, is also read from here. Figures on images belong to their data sets, `udtw.images.datasets.DATASETS`.
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
