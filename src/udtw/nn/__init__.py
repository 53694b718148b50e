"""Learned uncertainty and losses, as torch modules."""

from udtw.nn.local_sigma import LocalSigmaNet
from udtw.nn.loss import UDTWLoss
from udtw.nn.noise import fit_noise
from udtw.nn.sigma import PairSigmaNet, SigmaNet
from udtw.nn.soft_dtw import SoftDTW
from udtw.nn.training import TrainingSettings

__all__ = ["LocalSigmaNet", "PairSigmaNet", "SigmaNet", "SoftDTW", "TrainingSettings", "UDTWLoss", "fit_noise"]
