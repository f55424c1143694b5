"""A loss and a penalty: how the calibration penalties are trained with."""

from __future__ import annotations

import math
from typing import Any

from torch import Tensor, nn

from skcal.neural.losses._base import Loss, Penalty, RowPenalty, base_rows


class PenalizedLoss(Loss):
    r"""A loss plus a weighted penalty, begun after a warm-up.

    .. math:: L = \mathrm{base} + 1[e \ge e_0]\, w \cdot \mathrm{penalty}

    Parameters
    ----------
    penalty : Penalty
        :class:`MMCE`, :class:`MDCA`, :class:`DCA`, :class:`SoftAvUC`, :class:`SoftECE`,
        :class:`LogitMargin`, or a subclass of :class:`Penalty` of one's own.
    penalty_weight : float, optional
        The weight :math:`w`; the penalty's ``default_weight`` by default.
    base : str or torch loss, default="cross_entropy"
        A name that :func:`make_loss` knows, a :class:`Loss`, or a loss of torch that can
        answer row by row.
    warmup_epochs : int, default=0
        Epochs :math:`e_0` of the base loss alone. The estimators of this package tell the
        loss which epoch it is; in a loop of one's own call ``set_epoch``.
    min_batch_size : int, default=16
        Smaller batches have no penalty, if it is one of the batch as a whole: the last batch
        of an epoch may be a few rows, whose means are all chance.
    reduction : {"mean", "sum", "none"}, default="mean"
        "none" where base and penalty are sums over rows.

    Raises
    ------
    TypeError
        If ``penalty`` is not a :class:`Penalty`.
    ValueError
        If a number is out of range, or ``base`` is a name that is not known, or no loss of the
        rows.

    Examples
    --------
    >>> import torch
    >>> from skcal.neural.losses import MDCA, FocalLoss, PenalizedLoss
    >>> loss = PenalizedLoss(MDCA(), base=FocalLoss(gamma=1), warmup_epochs=5)
    >>> logits, y = torch.zeros(32, 2), torch.zeros(32, dtype=torch.int64)
    >>> loss(logits, y)
    tensor(0.3466)
    >>> loss.set_epoch(5)
    >>> loss(logits, y)
    tensor(0.8466)
    """

    def __init__(
        self,
        penalty: Penalty,
        penalty_weight: float | None = None,
        base: Any = "cross_entropy",
        *,
        warmup_epochs: int = 0,
        min_batch_size: int = 16,
        reduction: str = "mean",
    ) -> None:
        from skcal.neural.losses._registry import make_base  # knows this class, too

        super().__init__(reduction=reduction)
        if not isinstance(penalty, Penalty):
            raise TypeError(
                "penalty must be one of the penalties of skcal.neural.losses, such as MMCE(), or "
                f"a subclass of Penalty; got {penalty!r}."
            )
        if penalty_weight is None:
            penalty_weight = penalty.default_weight
        for name, value in {
            "penalty_weight": penalty_weight,
            "warmup_epochs": warmup_epochs,
            "min_batch_size": min_batch_size,
        }.items():
            if not 0 <= value < math.inf:
                raise ValueError(f"{name} must be at least 0, and finite; got {value!r}.")
        self.base: nn.Module = make_base(base)
        self.term = penalty
        self.penalty_weight = float(penalty_weight)
        self.warmup_epochs = warmup_epochs
        self.min_batch_size = min_batch_size
        self.epoch = 0

    def set_epoch(self, epoch: int) -> None:
        """Tell the loss which epoch begins, counted from 0."""
        self.epoch = epoch
        if isinstance(self.base, Loss):
            self.base.set_epoch(epoch)

    def rows(self, logits: Tensor, target: Tensor) -> Tensor:
        """Return what each row adds to the loss, shape (n,)."""
        rows = base_rows(self.base, logits, target)
        if isinstance(self.term, RowPenalty) and self._is_on:
            rows = rows + self.penalty_weight * self.term.rows(logits, target)
        return rows

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
        below = (
            self.base.batch_penalty(logits, target, sample_weight)
            if isinstance(self.base, Loss)
            else None
        )
        large = len(logits) >= self.min_batch_size
        if isinstance(self.term, RowPenalty) or not (large and self._is_on):
            return below
        own = self.penalty_weight * self.term.penalty(logits, target, sample_weight)
        return own if below is None else below + own

    @property
    def penalizes_batch(self) -> bool:
        """Whether base or penalty have such a part."""
        return not isinstance(self.term, RowPenalty) or getattr(self.base, "penalizes_batch", False)

    @property
    def _is_on(self) -> bool:
        return self.penalty_weight > 0 and self.epoch >= self.warmup_epochs
