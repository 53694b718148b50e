"""Few-shot learning over token sequences, such as skeleton blocks and image patches.

An encoder returns `Tokens`; a `FewShotModel` compares them by any metric and is trained on the episodes of an
`EpisodeSampler`; `evaluate_scores` measures it.
"""

from udtw.fewshot.episodes import EpisodeSampler
from udtw.fewshot.evaluation import evaluate_scores, support_scores
from udtw.fewshot.model import FewShotModel
from udtw.fewshot.tokens import Tokens

__all__ = [
    "EpisodeSampler",
    "FewShotModel",
    "Tokens",
    "evaluate_scores",
    "support_scores",
]
