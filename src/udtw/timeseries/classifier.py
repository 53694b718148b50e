"""What the classifiers share: which distance they use, and what they tell scikit-learn about themselves."""

from typing import Any

from sklearn.base import BaseEstimator, ClassifierMixin

from udtw.metrics import Metric, get_metric


class MetricClassifier(ClassifierMixin, BaseEstimator):
    """Base of classifiers with the parameters ``metric, gamma, beta, band, normalize`` and ``nan_policy``."""

    def _metric(self) -> Metric:
        given = {"gamma": self.gamma, "beta": self.beta, "band": self.band}
        if self.normalize is not None:
            given["normalize"] = self.normalize
        chosen = get_metric(self.metric, **given)
        chosen.check()
        return chosen

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.three_d_array = True
        tags.input_tags.allow_nan = self.nan_policy == "omit"
        return tags
