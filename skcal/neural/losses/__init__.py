"""Losses for training calibrated networks: criteria for any torch loop, and for the estimators.

Losses of the rows
    ``CrossEntropy`` (with label smoothing), ``FocalLoss``, ``SampleDependentFocalLoss``,
    ``DualFocalLoss``, ``BrierLoss``, ``LabelRelaxationLoss``; ``MixupLoss`` over mixed rows, and
    ``MultiHeadLoss`` over several heads.
Penalties, added to any of them by ``PenalizedLoss``
    ``MMCE``, ``MDCA``, ``DCA``, ``SoftAvUC``, ``SoftECE`` of a batch, ``LogitMargin`` (MbLS) of
    the rows.
Names
    ``make_loss`` makes them by name, with the defaults of this package.
"""

from skcal.neural.losses._base import Loss, Penalty, RowPenalty
from skcal.neural.losses._brier import BrierLoss
from skcal.neural.losses._cross_entropy import CrossEntropy
from skcal.neural.losses._focal import DualFocalLoss, FocalLoss, SampleDependentFocalLoss
from skcal.neural.losses._label_relaxation import LabelRelaxationLoss
from skcal.neural.losses._logit_margin import LogitMargin
from skcal.neural.losses._mean_calibration import DCA, MDCA
from skcal.neural.losses._mixup import Mix, MixupLoss
from skcal.neural.losses._mmce import MMCE
from skcal.neural.losses._multi_head import MultiHeadLoss, partition_weights
from skcal.neural.losses._penalized import PenalizedLoss
from skcal.neural.losses._registry import LOSS_NAMES, make_loss
from skcal.neural.losses._soft_avuc import SoftAvUC
from skcal.neural.losses._soft_ece import SoftECE

__all__ = [
    "DCA",
    "LOSS_NAMES",
    "MDCA",
    "MMCE",
    "BrierLoss",
    "CrossEntropy",
    "DualFocalLoss",
    "FocalLoss",
    "LabelRelaxationLoss",
    "LogitMargin",
    "Loss",
    "Mix",
    "MixupLoss",
    "MultiHeadLoss",
    "PenalizedLoss",
    "Penalty",
    "RowPenalty",
    "SampleDependentFocalLoss",
    "SoftAvUC",
    "SoftECE",
    "make_loss",
    "partition_weights",
]
