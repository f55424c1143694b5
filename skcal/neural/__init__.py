"""Networks that train calibrated: needs torch, and loads it."""

from skcal.neural.deep_ensemble import DeepEnsembleClassifier
from skcal.neural.mlp import NeSCalMLP
from skcal.neural.modules import MLP, Dropout
from skcal.neural.multi_head import MultiHeadClassifier, MultiHeadMLP
from skcal.neural.nescal import Homophily, NeSCalClassifier
from skcal.neural.net import NetClassifier
from skcal.neural.smoothing import NeighborhoodSmoothing
from skcal.neural.tabular_net import TabularNet

__all__ = [
    "MLP",
    "DeepEnsembleClassifier",
    "Dropout",
    "Homophily",
    "MultiHeadClassifier",
    "MultiHeadMLP",
    "NeSCalClassifier",
    "NeSCalMLP",
    "NeighborhoodSmoothing",
    "NetClassifier",
    "TabularNet",
]
