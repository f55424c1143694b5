"""Networks that train calibrated: needs torch, and loads it.

Everything public is imported from here, and losses from ``skcal.neural.losses``. Each part imports
only from the parts above it:

- ``losses``: what networks are trained on
- ``modules``: building blocks of the default networks
- ``tabular_net``: the network for encoded tables
- ``_embedding``: where a network's representation of a row is read
- ``_heads``: several output layers in the place of one
- ``_fold_ensemble``: networks that were trained on different rows, as one
- ``_rows``: training rows as whole tensors, and their batches
- ``_splits``: which rows are held out of training
- ``_averaging``: a moving average of the weights
- ``_logits``: whether a module returns logits, and what scaling would leave of their loss
- ``_graph``: neighbours in such a representation
- ``smoothing``: the penalty of Neighborhood Smoothing, for any loop
- ``_honest``: its rival: targets by networks that have not seen the label
- ``_protocol``: a skorch network with scikit-learn's parameters
- ``_loop``: its training loop
- ``_input``: its tables, labels and weights
- ``_parts``: its held-out rows, folds, and the map learned from them
- ``net``: the classifier of all this
- ``_honest_net``: the strong mode: a second network on such targets, kept if it is better
- ``nescal``: the classifier with smoothing
- ``_bins``: bins of numbers, for their embeddings
- ``_presets``: what the automatic parameters of the next stand for
- ``mlp``: the classifier for tables
- ``_inherit``: parameters of a base class in signature and docstring
- ``_disagreement``: how far members are from saying the same
- ``multi_head``: classifiers with several heads
- ``_members``: what can be a member of an ensemble
- ``deep_ensemble``: several networks that differ by their seeds
"""

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
