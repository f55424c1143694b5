"""What all losses share: checked batches, weights, and one loss per row."""

from __future__ import annotations

from inspect import signature
from typing import Any

import torch
from torch import Tensor, nn

from skcal.neural.losses._math import total

_REDUCTIONS = ("mean", "sum", "none")


class Loss(nn.CrossEntropyLoss):
    """Base class of the losses that can be told row by row.

    A loss of one's own implements ``rows``, from logits of shape (n, K) and class codes of
    shape (n,) to losses of shape (n,). It is a ``CrossEntropyLoss`` so that skorch's own
    classifier applies a softmax when it predicts.

    Parameters
    ----------
    reduction : {"mean", "sum", "none"}, default="mean"
        Mean over the rows' weights, sum of weight times loss, or weight times loss of each row.

    Examples
    --------
    >>> import torch
    >>> from skcal.neural.losses import Loss
    >>> class Margin(Loss):
    ...     def rows(self, logits, target):
    ...         own = logits.gather(1, target.unsqueeze(1)).squeeze(1)
    ...         return (logits.amax(dim=1) - own).square()
    >>> Margin()(torch.tensor([[2.0, 0.0], [0.0, 1.0]]), torch.tensor([1, 1]))
    tensor(2.)
    """

    def __init__(self, *, reduction: str = "mean") -> None:
        super().__init__()
        if reduction not in _REDUCTIONS:
            raise ValueError(f"reduction must be one of {_REDUCTIONS}; got {reduction!r}.")
        self.reduction = reduction

    def rows(self, logits: Tensor, target: Tensor) -> Tensor:
        """Return the loss of each row.

        Parameters
        ----------
        logits : Tensor of shape (n, n_classes)
        target : Tensor of shape (n,), int64
            Class codes.

        Returns
        -------
        Tensor of shape (n,)
        """
        raise NotImplementedError(f"{type(self).__name__} must implement rows(logits, target).")

    def batch_penalty(self, logits: Tensor, target: Tensor, sample_weight: Tensor) -> Tensor | None:
        """Return what belongs to the batch as a whole, times its weight; None without such a part.

        Parameters
        ----------
        logits : Tensor of shape (n, n_classes)
        target : Tensor of shape (n,), int64
        sample_weight : Tensor of shape (n,)

        Returns
        -------
        Tensor of shape () or None
        """
        return None

    @property
    def penalizes_batch(self) -> bool:
        """Whether there is such a part."""
        return False

    def set_epoch(self, epoch: int) -> None:
        """Tell the loss which epoch begins, counted from 0; here nothing depends on it."""

    def forward(
        self, logits: Tensor, target: Tensor, sample_weight: Tensor | None = None
    ) -> Tensor:
        """Return the loss of a batch.

        Parameters
        ----------
        logits : Tensor of shape (n, n_classes), (n, 1) or (n,)
            A single logit is that of class 1 against a logit of 0 for class 0.
        target : Tensor of shape (n,), int64
            Class codes.
        sample_weight : Tensor of shape (n,), optional
            Weights of the rows, not negative; a weight of two counts a row twice.

        Returns
        -------
        Tensor of shape (), or (n,) with ``reduction="none"``
            In nats, of at least single precision.

        Raises
        ------
        ValueError
            If the shapes do not fit, ``target`` holds other numbers than 0 to K - 1, or a weight
            is negative.
        TypeError
            If ``logits`` do not hold floating-point numbers, or ``target`` not whole ones.
        """
        logits, target, weight = check_batch(logits, target, sample_weight)
        if self.reduction == "none" and self.penalizes_batch:
            raise ValueError(
                f"{type(self).__name__} penalises the batch as a whole, which has no part for "
                "each row; use reduction='mean' or 'sum'."
            )
        rows = _one_per_row(self.rows(logits, target), target, self)
        loss = self._reduce(weight * rows, weight)
        penalty = self.batch_penalty(logits, target, weight)
        if penalty is None:
            return loss
        return loss + (penalty if self.reduction == "mean" else penalty * weight.sum())

    def _reduce(self, terms: Tensor, weight: Tensor) -> Tensor:
        if self.reduction == "none":
            return terms
        return terms.sum() / total(weight) if self.reduction == "mean" else terms.sum()

    def extra_repr(self) -> str:
        """Return the parameters shown in ``repr``."""
        return _describe(self)


class Penalty(nn.Module):
    """Base class of what is added to a loss to train calibration.

    A penalty of one's own implements ``penalty``, from logits of shape (n, K), class codes
    and weights of shape (n,) to a number.

    Attributes
    ----------
    default_weight : float
        Weight in :class:`PenalizedLoss`, if none is given.

    Examples
    --------
    >>> import torch
    >>> from skcal.neural.losses import Penalty, PenalizedLoss
    >>> class MeanConfidence(Penalty):
    ...     def penalty(self, logits, target, sample_weight):
    ...         top = logits.softmax(dim=1).amax(dim=1)
    ...         return sample_weight @ top / sample_weight.sum()
    >>> loss = PenalizedLoss(MeanConfidence(), penalty_weight=0.1)
    >>> loss(torch.zeros(20, 2), torch.zeros(20, dtype=torch.int64))
    tensor(0.7431)
    """

    default_weight: float = 1.0

    def __init__(self) -> None:
        super().__init__()  # takes nothing, whatever torch's own signature says

    def penalty(self, logits: Tensor, target: Tensor, sample_weight: Tensor) -> Tensor:
        """Return the penalty of a checked batch.

        Parameters
        ----------
        logits : Tensor of shape (n, n_classes)
        target : Tensor of shape (n,), int64
        sample_weight : Tensor of shape (n,)

        Returns
        -------
        Tensor of shape ()
        """
        raise NotImplementedError(
            f"{type(self).__name__} must implement penalty(logits, target, sample_weight)."
        )

    def forward(
        self, logits: Tensor, target: Tensor, sample_weight: Tensor | None = None
    ) -> Tensor:
        """Return the penalty of a batch, not multiplied by a weight.

        Parameters
        ----------
        logits : Tensor of shape (n, n_classes), (n, 1) or (n,)
            A single logit is that of class 1 against a logit of 0 for class 0.
        target : Tensor of shape (n,), int64
            Class codes.
        sample_weight : Tensor of shape (n,), optional
            Weights of the rows, not negative.

        Returns
        -------
        Tensor of shape ()

        Raises
        ------
        ValueError
            If the shapes do not fit, ``target`` holds other numbers than 0 to K - 1, or a weight
            is negative.
        TypeError
            If ``logits`` do not hold floating-point numbers, or ``target`` not whole ones.
        """
        return self.penalty(*check_batch(logits, target, sample_weight))

    def extra_repr(self) -> str:
        """Return the parameters shown in ``repr``."""
        return _describe(self)


class RowPenalty(Penalty):
    """Base class of penalties that are a mean over rows.

    A penalty of one's own implements ``rows``, from logits of shape (n, K) and class codes of
    shape (n,) to penalties of shape (n,).

    Examples
    --------
    >>> import torch
    >>> from skcal.neural.losses import RowPenalty
    >>> class Size(RowPenalty):
    ...     def rows(self, logits, target):
    ...         return logits.square().mean(dim=1)
    >>> Size()(torch.tensor([[3.0, 1.0]]), torch.tensor([0]))
    tensor(5.)
    """

    def rows(self, logits: Tensor, target: Tensor) -> Tensor:
        """Return the penalty of each row, shape (n,)."""
        raise NotImplementedError(f"{type(self).__name__} must implement rows(logits, target).")

    def penalty(self, logits: Tensor, target: Tensor, sample_weight: Tensor) -> Tensor:
        """Return the weighted mean of the rows' penalties."""
        return sample_weight @ self.rows(logits, target) / total(sample_weight)


def check_batch(
    logits: Tensor, target: Tensor, sample_weight: Tensor | None
) -> tuple[Tensor, Tensor, Tensor]:
    """Return logits of shape (n, K >= 2) in single precision or better, codes, and weights."""
    if logits.ndim == 1:
        logits = logits.unsqueeze(1)
    if logits.ndim == 2 and logits.shape[1] == 1:
        logits = torch.cat([torch.zeros_like(logits), logits], dim=1)
    if logits.ndim != 2 or not logits.numel():
        raise ValueError(
            f"Expected logits of shape (n, n_classes), one row or more; got {tuple(logits.shape)}."
        )
    if not logits.dtype.is_floating_point:
        raise TypeError(f"Expected logits of floating-point numbers; got {logits.dtype}.")
    n = len(logits)
    if target.shape != (n,):
        raise ValueError(
            f"Expected target to hold one class code per row, shape ({n},); got "
            f"{tuple(target.shape)}."
        )
    if target.dtype.is_floating_point or target.dtype == torch.bool:
        raise TypeError(
            f"Expected target to hold class codes, whole numbers; got {target.dtype}. "
            "Convert it by target.long()."
        )
    if target.amin() < 0 or target.amax() >= logits.shape[1]:
        raise ValueError(
            f"Expected class codes from 0 to {logits.shape[1] - 1}, one for each of the "
            f"{logits.shape[1]} columns of logits; got {target.amin()} to {target.amax()}."
        )
    if logits.dtype in (torch.float16, torch.bfloat16):
        logits = logits.float()
    if sample_weight is None:
        weight = logits.new_ones(n)
    elif sample_weight.shape != (n,):
        raise ValueError(
            f"Expected sample_weight to hold one weight per row, shape ({n},); got "
            f"{tuple(sample_weight.shape)}."
        )
    else:
        weight = sample_weight.to(logits)
        if (weight < 0).any():
            raise ValueError(
                f"Expected sample_weight of at least 0; got {weight.amin()} among them."
            )
    return logits, target.long(), weight


def row_losses(criterion: Any, logits: Tensor, target: Tensor) -> Tensor:
    """Return the loss of each row, of our losses or of any set to ``reduction="none"``."""
    if isinstance(criterion, Loss):
        return criterion.rows(logits, target)
    return criterion(logits, target)


def base_rows(criterion: Any, logits: Tensor, target: Tensor) -> Tensor:
    """Return the loss of each row of what another loss is made of."""
    return _one_per_row(row_losses(criterion, logits, target), target, criterion)


def in_rows(criterion: Any) -> Any:
    """Set a criterion so that ``row_losses`` can ask it, and return it."""
    if not isinstance(criterion, Loss):
        criterion.reduction = "none"
    return criterion


def _one_per_row(rows: Tensor, target: Tensor, criterion: Any) -> Tensor:
    # Another shape would be broadcast, silently.
    if rows.shape != target.shape:
        raise ValueError(
            f"{type(criterion).__name__} must return one loss per row, shape "
            f"{tuple(target.shape)}; got {tuple(rows.shape)}."
        )
    return rows


def _describe(module: nn.Module) -> str:
    """Return the numbers and words that a module was made with."""
    asked = signature(type(module).__init__).parameters
    given = {name: getattr(module, name) for name in asked if name in vars(module)}
    given.pop("reduction", None)
    return ", ".join(f"{name}={value!r}" for name, value in given.items())
