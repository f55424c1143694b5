"""The loss of several heads, each of which looks harder at some of the classes."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_random_state
from torch import Tensor, nn

from skcal.neural.losses._base import Loss, base_rows, check_batch
from skcal.neural.losses._math import total


def partition_weights(
    n_classes: int, n_heads: int, head_weight: float | None = None, random_state: Any = None
) -> NDArray[np.float64]:
    """Return class weights for each of several heads, which share the classes out.

    The classes are shuffled and split into as many groups as there are heads, of sizes that
    differ by one at most. A head gives its own classes ``head_weight``, and all others
    ``1 / head_weight``; with fewer classes than heads, some heads give all the same.

    Parameters
    ----------
    n_classes : int
    n_heads : int
    head_weight : float, optional
        More than 0; the number of heads by default, as published.
    random_state : int, RandomState instance or None, default=None
        Shuffles the classes.

    Returns
    -------
    ndarray of shape (n_heads, n_classes)

    Raises
    ------
    ValueError
        If ``n_heads`` or ``head_weight`` is out of range.

    References
    ----------
    A. Galdran, J. Verjans, G. Carneiro and M. González Ballester, "Multi-Head Multi-Loss Model
    Calibration", MICCAI 2023, arXiv:2303.01099.

    Examples
    --------
    >>> from skcal.neural.losses import partition_weights
    >>> partition_weights(4, 2, random_state=0)
    array([[0.5, 0.5, 2. , 2. ],
           [2. , 2. , 0.5, 0.5]])
    """
    groups = partition_classes(n_classes, n_heads, random_state)
    return weigh_groups(groups, n_classes, head_weight)


def partition_classes(
    n_classes: int, n_heads: int, random_state: Any = None
) -> list[NDArray[np.int64]]:
    """Return the codes of the classes of each head: shuffled, and split evenly."""
    if not n_heads >= 1:
        raise ValueError(f"n_heads must be at least 1; got {n_heads!r}.")
    order = check_random_state(random_state).permutation(n_classes)
    return [np.sort(group) for group in np.array_split(order, n_heads)]


def weigh_groups(
    groups: list[NDArray[np.int64]], n_classes: int, head_weight: float | None = None
) -> NDArray[np.float64]:
    """Return the class weights (n_heads, n_classes) of heads with classes of their own."""
    strong = float(len(groups) if head_weight is None else head_weight)
    if not 0 < strong < math.inf:
        raise ValueError(f"head_weight must be more than 0, and finite; got {head_weight!r}.")
    weights = np.full((len(groups), n_classes), 1.0 / strong)
    for head, group in enumerate(groups):
        if len(group):
            weights[head, group] = strong
        else:
            weights[head] = 1.0
    return weights


class MultiHeadLoss(Loss):
    r"""The mean loss of several heads, weighted by class, and of their mean (MHML).

    .. math:: L = \frac1{H+1} \Big( \sum_h \frac{\sum_i w_{h y_i} \ell(z_{hi}, y_i)}
              {\sum_i w_{h y_i}} + \frac1B \sum_i \ell(\bar z_i, y_i) \Big),
              \qquad \bar z_i = \frac1H \sum_h z_{hi}

    Parameters
    ----------
    class_weights : array-like of shape (n_heads, n_classes)
        The weights :math:`w`, as of :func:`partition_weights`; only their proportions within
        a head matter.
    base : str or torch loss, default="cross_entropy"
        The loss :math:`\ell` of a head: a name that :func:`make_loss` knows, a :class:`Loss`,
        or a loss of torch that can answer row by row.
    mean_loss : bool, default=True
        Whether the last term, of the mean of the heads' logits, is in the loss. It is in the
        authors' code.
    reduction : {"mean", "sum", "none"}, default="mean"

    Raises
    ------
    ValueError
        If ``class_weights`` is not a matrix of positive numbers, or ``base`` penalises the batch
        as a whole.

    Notes
    -----
    With cross-entropy, the best head for true probabilities :math:`\eta` says
    :math:`w_{hk} \eta_k / \sum_j w_{hj} \eta_j`. Where each class is strong in one head, the
    weights cancel in the mean of the logits, which gives :math:`\eta` exactly; the mean of the
    probabilities is less confident than :math:`\eta`, and may have another largest class.

    References
    ----------
    A. Galdran, J. Verjans, G. Carneiro and M. González Ballester, "Multi-Head Multi-Loss Model
    Calibration", MICCAI 2023, arXiv:2303.01099.

    Examples
    --------
    >>> import torch
    >>> from skcal.neural.losses import MultiHeadLoss
    >>> loss = MultiHeadLoss([[2.0, 0.5], [0.5, 2.0]])
    >>> loss(torch.zeros(5, 2, 2), torch.tensor([0, 1, 1, 0, 1]))  # rows, heads, classes
    tensor(0.6931)
    """

    class_weights: Tensor

    def __init__(
        self,
        class_weights: ArrayLike | Tensor,
        base: Any = "cross_entropy",
        *,
        mean_loss: bool = True,
        reduction: str = "mean",
    ) -> None:
        from skcal.neural.losses._registry import make_base  # knows this class, too

        super().__init__(reduction=reduction)
        if not isinstance(class_weights, Tensor):
            class_weights = torch.tensor(np.asarray(class_weights))
        weights = class_weights.detach().to(torch.float64, copy=True)
        usual = weights.ndim == 2 and weights.shape[0] > 0 and weights.shape[1] > 1
        if not (usual and (weights > 0).all() and weights.isfinite().all()):
            raise ValueError(
                "class_weights must hold one row of positive numbers per head, one for each "
                f"class, of which there are two or more; got {class_weights!r}."
            )
        self.register_buffer("class_weights", weights)
        self.base: nn.Module = make_base(base)
        if getattr(self.base, "penalizes_batch", False):
            raise ValueError(
                f"base={base!r} penalises the batch as a whole; here it is a loss of the rows, "
                "such as 'focal'. MultiHeadClassifier has such penalties on the heads' mean."
            )
        self.mean_loss = mean_loss

    def set_epoch(self, epoch: int) -> None:
        """Tell the loss which epoch begins, counted from 0."""
        if isinstance(self.base, Loss):
            self.base.set_epoch(epoch)

    def forward(
        self, logits: Tensor, target: Tensor, sample_weight: Tensor | None = None
    ) -> Tensor:
        """Return the loss of a batch.

        Parameters
        ----------
        logits : Tensor of shape (n, n_heads, n_classes)
        target : Tensor of shape (n,), int64
            Class codes.
        sample_weight : Tensor of shape (n,), optional
            Weights of the rows.

        Returns
        -------
        Tensor of shape (), or (n,) with ``reduction="none"``

        Raises
        ------
        ValueError
            If the shapes do not fit.
        """
        if logits.ndim != 3 or logits.shape[1:] != self.class_weights.shape:
            raise ValueError(
                "Expected logits of shape (n, n_heads, n_classes) = (n, "
                f"{', '.join(map(str, self.class_weights.shape))}); got {tuple(logits.shape)}."
            )
        mean, target, weight = check_batch(logits.mean(dim=1), target, sample_weight)
        rows = multi_head_rows(
            logits.to(mean.dtype), target, weight, self.class_weights, self.base, self.mean_loss
        )
        return self._reduce(weight * rows, weight)


def multi_head_rows(
    logits: Tensor,
    target: Tensor,
    sample_weight: Tensor,
    class_weights: Tensor,
    base: Any,
    mean_loss: bool = True,
) -> Tensor:
    """Return each row's part (n,) of the loss of several heads, from logits (n, H, K).

    The batch's weights of a head's classes, by which its loss is divided, are those of all
    rows: the part of a row depends on the others.
    """
    n, n_heads, _ = logits.shape
    flat = base_rows(base, logits.flatten(0, 1), target.repeat_interleave(n_heads))
    factor = class_weights.to(flat)[:, target].T
    factor = factor / total(sample_weight.unsqueeze(1) * factor) * total(sample_weight)
    rows = (flat.view(n, n_heads) * factor).sum(dim=1)
    if not mean_loss:
        return rows / n_heads
    return (rows + base_rows(base, logits.mean(dim=1), target)) / (n_heads + 1)
