"""Region maps with indexed Dirichlet concentrations: "Divide et Calibra" as published."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy.special import gammaln

from skcal._rows import row_blocks
from skcal._validation import FloatArray, IntArray

# Softplus of this is 1, the concentration of the identity.
_START = np.log(np.e - 1.0)
_NOISE = 1e-5
_LEAST = 1e-8


class IndexedDirichlet(NamedTuple):
    r"""Concentrations composed of the vectors of a row's codewords.

    .. math:: \alpha(x) = \mathrm{softplus}\Big(\sum_s a_{v_s} b_{v_s}^\top\Big), \quad
              s_j = \ln \pi_j - \ln B(\alpha'_{\cdot j})
              + \sum_i (\alpha'_{ij} - 1) \ln p_i, \quad \alpha' = \alpha + I

    With ``published`` the normaliser is :math:`\ln B(\alpha_{\cdot j})`.

    Fields
    ------
    left, right : ndarray of shape (n_codewords, n_classes)
        The vectors a and b of every codeword; of all slots one after the other, if each has a
        codebook of its own.
    log_prior : ndarray of shape (n_classes,)
    published : bool
    """

    left: FloatArray
    right: FloatArray
    log_prior: FloatArray
    published: bool

    def scores(self, log_proba: FloatArray, places: IntArray) -> FloatArray:
        """Return the scores (n, K) of rows, up to a constant per row.

        Parameters
        ----------
        log_proba : ndarray of shape (n_samples, n_classes)
        places : ndarray of shape (n_samples, n_slots)
            Where each slot's codeword is among the vectors.
        """
        n_classes = log_proba.shape[1]
        answer = np.empty_like(log_proba)
        for rows in row_blocks((len(log_proba), n_classes**2), large=True):
            left, right = self.left[places[rows]], self.right[places[rows]]
            raw = np.einsum("nsi,nsj->nij", left, right)
            alpha = np.logaddexp(0.0, raw) + _LEAST
            full = alpha + np.eye(n_classes)
            normal = alpha if self.published else full
            log_beta = gammaln(normal).sum(axis=1) - gammaln(normal.sum(axis=1))
            linear = ((full - 1.0) * log_proba[rows, :, None]).sum(axis=1)
            answer[rows] = self.log_prior - log_beta + linear
        return answer


def fit_indexed_dirichlet(
    log_proba: FloatArray,
    targets: IntArray,
    weights: FloatArray,
    places: IntArray,
    n_vectors: int,
    *,
    published: bool,
    lr: float,
    max_epochs: int,
    batch_size: int,
    patience: int,
    validation_fraction: float,
    seed: int,
) -> tuple[IndexedDirichlet, int]:
    """Train the vectors by Adam on the log-loss, stopped on rows held out.

    It starts at the identity, and keeps it where no epoch is better.

    Parameters
    ----------
    log_proba : ndarray of shape (n_samples, n_classes)
    targets : ndarray of shape (n_samples,)
        Class codes.
    weights : ndarray of shape (n_samples,)
    places : ndarray of shape (n_samples, n_slots)
    n_vectors : int
        How many codewords have vectors.
    published, lr, max_epochs, batch_size, patience, validation_fraction
        As of the calibrator.
    seed : int
        Of the start, of the rows held out, and of the batches.

    Returns
    -------
    IndexedDirichlet, epochs trained
    """
    import torch  # the maps without training do without it

    random = np.random.default_rng(seed)
    (n, n_classes), n_slots = log_proba.shape, places.shape[1]
    order = random.permutation(n)
    n_valid = min(n - 1, max(1, round(validation_fraction * n)))
    valid, train = order[:n_valid], order[n_valid:]
    if n == 1:
        valid = train
    start = np.sqrt(_START / n_slots) + _NOISE * random.normal(size=(2, n_vectors, n_classes))
    tables = torch.from_numpy(start).requires_grad_()
    prior = torch.zeros(n_classes, dtype=torch.float64, requires_grad=True)
    identity = torch.eye(n_classes, dtype=torch.float64)
    logs, index = torch.from_numpy(log_proba), torch.from_numpy(places)
    labels, mass = torch.from_numpy(targets), torch.from_numpy(weights)

    def mean_loss(rows: Any) -> Any:
        left, right = tables[0][index[rows]], tables[1][index[rows]]
        alpha = torch.nn.functional.softplus(left.transpose(1, 2) @ right) + _LEAST
        full = alpha + identity
        normal = alpha if published else full
        log_beta = normal.lgamma().sum(dim=1) - normal.sum(dim=1).lgamma()
        linear = ((full - 1.0) * logs[rows].unsqueeze(2)).sum(dim=1)
        scores = prior.log_softmax(dim=0) - log_beta + linear
        losses = torch.nn.functional.cross_entropy(scores, labels[rows], reduction="none")
        return mass[rows] @ losses / mass[rows].sum()

    def valid_loss() -> float:
        with torch.no_grad():
            parts = [torch.from_numpy(part) for part in np.array_split(valid, 1 + n_valid // 4096)]
            return sum(float(mass[p].sum() * mean_loss(p)) for p in parts) / float(
                mass[torch.from_numpy(valid)].sum()
            )

    optimizer = torch.optim.Adam([tables, prior], lr=lr)
    best, best_epoch = valid_loss(), 0
    kept = (tables.detach().clone(), prior.detach().clone())
    epoch = 0
    for epoch in range(1, max_epochs + 1):
        for rows in np.array_split(random.permutation(train), -(-len(train) // batch_size)):
            optimizer.zero_grad()
            mean_loss(torch.from_numpy(rows)).backward()
            optimizer.step()
        loss = valid_loss()
        if loss < best:
            best, best_epoch = loss, epoch
            kept = (tables.detach().clone(), prior.detach().clone())
        elif epoch - best_epoch >= patience:
            break
    left, right = kept[0].numpy()
    return IndexedDirichlet(left, right, kept[1].log_softmax(dim=0).numpy(), published), epoch
