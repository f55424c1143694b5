"""Losses by name."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from difflib import get_close_matches
from functools import partial
from inspect import isclass, signature
from numbers import Real
from typing import Any

from torch import nn

from skcal.neural.losses._base import Penalty, in_rows
from skcal.neural.losses._brier import BrierLoss
from skcal.neural.losses._cross_entropy import CrossEntropy
from skcal.neural.losses._focal import DualFocalLoss, FocalLoss, SampleDependentFocalLoss
from skcal.neural.losses._label_relaxation import LabelRelaxationLoss
from skcal.neural.losses._logit_margin import LogitMargin
from skcal.neural.losses._mean_calibration import DCA, MDCA
from skcal.neural.losses._mixup import MixupLoss
from skcal.neural.losses._mmce import MMCE
from skcal.neural.losses._multi_head import MultiHeadLoss
from skcal.neural.losses._penalized import PenalizedLoss
from skcal.neural.losses._soft_avuc import SoftAvUC
from skcal.neural.losses._soft_ece import SoftECE

_ROW_LOSSES: dict[str, Callable[..., nn.Module]] = {
    "cross_entropy": CrossEntropy,
    "label_smoothing": partial(CrossEntropy, label_smoothing=0.05),
    "focal": FocalLoss,
    "flsd": SampleDependentFocalLoss,
    "dual_focal": DualFocalLoss,
    "brier": BrierLoss,
    "label_relaxation": LabelRelaxationLoss,
    "mixup": MixupLoss,
}
# Added to cross-entropy, by their own weights, unless told otherwise.
_PENALTIES: dict[str, Callable[..., Any]] = {
    "mmce": MMCE,
    "mdca": MDCA,
    "dca": DCA,
    "soft_avuc": SoftAvUC,
    "soft_ece": SoftECE,
    "mbls": LogitMargin,
}
LOSS_NAMES = (*_ROW_LOSSES, *_PENALTIES)
# What other libraries call them, too far from ours to be found by their letters.
_ALIASES = {"log_loss": "cross_entropy", "nll": "cross_entropy", "margin": "mbls"}


def make_loss(loss: Any, **params: Any) -> nn.Module:
    """Return a loss for a name, a class or an instance.

    Parameters
    ----------
    loss : str, torch loss class or instance
        A name: "cross_entropy", "label_smoothing" (by 0.05), "focal", "flsd", "dual_focal",
        "brier", "label_relaxation", "mixup"; or that of a penalty, which is added to
        cross-entropy: "mmce", "mdca", "dca", "soft_avuc", "soft_ece", "mbls". An instance is
        copied.
    **params
        Parameters of the class that the name stands for, and with the name of a penalty those
        of :class:`PenalizedLoss`, too.

    Returns
    -------
    torch.nn.Module

    Raises
    ------
    ValueError
        If the name or a parameter is unknown, or a parameter out of range.
    TypeError
        If it is neither a name nor a loss (a penalty alone is none), or a parameter is not the
        number it should be.
    ImportError
        If "label_relaxation" lacks its package; the error names the extra.

    Examples
    --------
    >>> from skcal.neural.losses import make_loss
    >>> make_loss("focal", gamma=1)
    FocalLoss(gamma=1.0)
    >>> make_loss("mmce", base="label_smoothing", warmup_epochs=10).penalty_weight
    2.0
    """
    if isinstance(loss, str):
        if loss in _ROW_LOSSES:
            make = _ROW_LOSSES[loss]
            _check_parameters(loss, params, [make])
            return make(**params)
        if loss in _PENALTIES:
            make = _PENALTIES[loss]
            _check_parameters(loss, params, [make, PenalizedLoss])
            own = {
                name: params.pop(name) for name in [*params] if name in signature(make).parameters
            }
            return PenalizedLoss(make(**own), **params)
        near = [_ALIASES[loss]] if loss in _ALIASES else []
        near = near or get_close_matches(loss.lower(), LOSS_NAMES, n=1)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        raise ValueError(f"Unknown loss {loss!r}; the names are {sorted(LOSS_NAMES)}.{hint}")
    if isinstance(loss, Penalty) or (isclass(loss) and issubclass(loss, Penalty)):
        name = (loss if isclass(loss) else type(loss)).__name__
        raise TypeError(f"{name} is a penalty, which needs a loss: PenalizedLoss({name}()).")
    if isclass(loss) and issubclass(loss, nn.Module):
        return loss(**params)
    if not isinstance(loss, nn.Module):
        raise TypeError(f"A loss is a name or a torch loss, class or instance; got {loss!r}.")
    if params:
        raise ValueError(
            f"{type(loss).__name__} was given as an instance, which has its parameters already; "
            f"got {sorted(params)} beside it. Give the class or a name instead."
        )
    return deepcopy(loss)


def make_base(base: Any) -> nn.Module:
    """Return a loss that another is made of, set to answer row by row."""
    made = in_rows(make_loss(base))
    if isinstance(made, MixupLoss):
        raise ValueError(
            f"base={base!r} would not be mixed: mixup goes around the other loss, as in "
            "MixupLoss(base='focal')."
        )
    if isinstance(made, MultiHeadLoss):
        raise ValueError(
            f"base={base!r} is the loss of several heads, whose logits no other loss takes; make "
            "it of the other loss, as in MultiHeadLoss(class_weights, base='focal')."
        )
    return made


def _check_parameters(loss: str, params: dict[str, Any], makers: list[Callable[..., Any]]) -> None:
    """Refuse parameters that no maker takes, and others than numbers where these are asked for."""
    known = {name: p for make in makers for name, p in signature(make).parameters.items()}
    known.pop("penalty", None)
    for name, value in params.items():
        if name not in known:
            near = get_close_matches(name, known, n=1)
            raise ValueError(
                f"The loss {loss!r} has no parameter {name!r}."
                + (f" Did you mean {near[0]!r}?" if near else f" It has {sorted(known)}.")
            )
        default = known[name].default
        wants_number = isinstance(default, Real) and not isinstance(default, bool)
        if wants_number and not isinstance(value, Real):
            raise TypeError(f"{name} of the loss {loss!r} is a number; got {value!r}.")
