"""Soft targets from the neighbourhood of a row, by networks that have not seen its label."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import log_softmax, one_hot

from skcal.neural._graph import knn_graph
from skcal.neural.smoothing import homophily


class FoldAnswers(NamedTuple):
    """What a network says of a fold of rows that it was not trained on.

    Attributes
    ----------
    rows : Tensor of shape (m,), int64
        Which training rows these are.
    embeddings : Tensor of shape (m, d)
    log_proba : Tensor of shape (m, n_classes)
    """

    rows: Tensor
    embeddings: Tensor
    log_proba: Tensor


class HonestTargets:
    r"""A penalty that pulls each row to what its neighbourhood would have predicted honestly.

    Neighbours are sought within a fold, in the embedding of a network that was trained without
    the fold, so that neither the graph nor a prediction has seen the labels it meets. The target
    of a row is

    .. math:: t_i = \tfrac12 \frac{\sum_{j \in N(i)} w_j\, e_{y_j}}{\sum_{j \in N(i)} w_j}
              + \tfrac12 \operatorname{mean}_{j \in N(i) \cup \{i\}} q_j,

    half the frequencies of its neighbours' labels, its own left out, half the mean out-of-fold
    prediction q; the penalty is :math:`KL(t_i \| p_i)`.

    Parameters
    ----------
    folds : list of FoldAnswers
        Which together have every row once.
    y : Tensor of shape (n,), int64
    weight : Tensor of shape (n,)
    n_neighbors : int
    seed : int
        Of the search for neighbours in large folds.

    Attributes
    ----------
    neighbors_ : Tensor of shape (n, k), int64
        Neighbours of each row; in a fold of few rows the last ones are repeated.
    proba_ : Tensor of shape (n, n_classes)
        The targets.
    """

    def __init__(
        self, folds: list[FoldAnswers], y: Tensor, weight: Tensor, *, n_neighbors: int, seed: int
    ) -> None:
        n, n_classes = len(y), folds[0].log_proba.shape[1]
        labels = one_hot(y, n_classes).to(folds[0].log_proba)
        weight = weight.to(labels)
        self.proba_ = torch.empty_like(labels)
        self.neighbors_ = torch.empty(n, n_neighbors, dtype=torch.int64, device=y.device)
        for fold in folds:
            near = knn_graph(fold.embeddings, n_neighbors, seed=seed)
            own = fold.log_proba.exp()
            their_weight = weight[fold.rows][near].unsqueeze(2)
            frequency = (labels[fold.rows][near] * their_weight).sum(1) / their_weight.sum(1)
            predicted = (own + own[near].sum(1)) / (1 + near.shape[1])
            self.proba_[fold.rows] = (frequency + predicted) / 2
            padding = near[:, -1:].expand(-1, n_neighbors - near.shape[1])
            self.neighbors_[fold.rows] = fold.rows[torch.cat([near, padding], dim=1)]
        # KL to a target is its cross-entropy, less the entropy that no network can change.
        self._entropy = -torch.xlogy(self.proba_, self.proba_).sum(1)

    def penalty(self, logits: Tensor, index: Tensor, *, weight: Tensor) -> Tensor:
        """Mean weighted divergence of a batch to its targets, in nats.

        Parameters
        ----------
        logits : Tensor of shape (B, n_classes)
            With gradient.
        index : Tensor of shape (B,), int64
            Which training rows these are.
        weight : Tensor of shape (B,)

        Returns
        -------
        Tensor of shape ()
        """
        cross = -torch.linalg.vecdot(self.proba_[index].to(logits), log_softmax(logits, dim=1))
        return weight @ (cross - self._entropy[index].to(logits)) / len(index)

    def homophily(self, y: Tensor) -> tuple[float, float]:
        """Share of neighbours that have the row's own label, and the share expected by chance."""
        return homophily(self.neighbors_, y)
