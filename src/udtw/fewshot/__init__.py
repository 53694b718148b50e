"""Few-shot learning over token sequences: skeleton blocks and image patches alike.

An encoder gives `Tokens`; a `FewShotModel` compares them by any metric; `EpisodicTask` trains it with
labels, `DictionaryTask` and `ContrastiveTask` without; `evaluation` measures it.
"""

from udtw.fewshot.accuracy import Accuracy, accuracy_of
from udtw.fewshot.contrastive import ContrastiveTask
from udtw.fewshot.dictionary import Dictionary
from udtw.fewshot.episodes import Episode, EpisodeSampler
from udtw.fewshot.model import FewShotModel
from udtw.fewshot.supervised import EpisodicTask
from udtw.fewshot.tokens import Tokens
from udtw.fewshot.unsupervised import DictionaryTask

__all__ = [
    "Accuracy",
    "ContrastiveTask",
    "Dictionary",
    "DictionaryTask",
    "Episode",
    "EpisodeSampler",
    "EpisodicTask",
    "FewShotModel",
    "Tokens",
    "accuracy_of",
]
