"""Learned uncertainty and losses, as torch modules."""

from udtw.nn.loss import UDTWLoss
from udtw.nn.sigma import PairSigmaNet, SigmaNet

__all__ = ["PairSigmaNet", "SigmaNet", "UDTWLoss"]
