"""Neighborhood Smoothing: the penalty, its cache of predictions and its graph."""

from __future__ import annotations

import math
import warnings
from typing import Literal, get_args

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import log_softmax

from skcal.neural._graph import knn_graph, permute_graph, random_graph

_FEW_CLASSES = 32

Graph = Literal["knn", "random", "permuted", "self"]
Target = Literal["mean", "each"]
Reduction = Literal["pca", "umap"]


def jsd_to_neighbors(logits: Tensor, neighbor_log_proba: Tensor, *, target: Target) -> Tensor:
    r"""Jensen-Shannon divergence of each row's prediction to its neighbours'.

    With :math:`p = \mathrm{softmax}(z)` and :math:`m = (p + q)/2`,

    .. math:: JSD(p, q) = \tfrac12 KL(p \| m) + \tfrac12 KL(q \| m) \in [0, \ln 2].

    ``target="each"`` averages it over the neighbours' predictions :math:`q_j`;
    ``target="mean"`` measures it to their mean, which is never larger.

    Parameters
    ----------
    logits : Tensor of shape (B, K)
        The rows' own logits; the only input that gets a gradient.
    neighbor_log_proba : Tensor of shape (B, k, K)
        Log-probabilities of the neighbours, constants.
    target : {"mean", "each"}

    Returns
    -------
    Tensor of shape (B,)
        In nats.

    Notes
    -----
    The gradient has a closed form, :math:`\partial JSD/\partial z = p (g - \langle p, g
    \rangle)` with :math:`g = \tfrac12 \ln(p/m)`, and is computed in the forward pass, so that
    nothing of size B x k x K is kept for the backward one.
    """
    with torch.no_grad():
        twice, gradient = _twice_jsd(
            _log_proba(logits), _floor_(neighbor_log_proba.clone()), target
        )
        divergence, gradient = twice.mul_(0.5).clamp_(min=0), gradient.mul_(0.5)
    return _with_gradient(logits, divergence, gradient)


def _log_proba(logits: Tensor) -> Tensor:
    if logits.shape[1] > _FEW_CLASSES:
        return _floor_(log_softmax(logits, dim=1))
    # torch does not vectorise a softmax along a short last dimension.
    return _floor_(log_softmax(logits.T.contiguous(), dim=0).T.contiguous())


def _floor_(log_proba: Tensor) -> Tensor:
    # So low that it adds nothing to a sum, so high that its exponential is not zero: no
    # logarithm of zero can follow.
    return log_proba.clamp_(min=math.log(torch.finfo(log_proba.dtype).tiny) + 1)


def _twice_jsd(log_p: Tensor, neighbor_log_q: Tensor, target: Target) -> tuple[Tensor, Tensor]:
    """Return 2 JSD of each row (B,), and its gradient with respect to the logits (B, K).

    The neighbours' log-probabilities are overwritten. With s = p + q = 2m,
    2 JSD = <p, ln(p/s)> + <q, ln(q/s)> + 2 ln 2.
    """
    p = log_p.exp()
    if target == "mean":
        q = neighbor_log_q.exp_().mean(dim=1)
        log_s = (p + q).log_()
        own = torch.linalg.vecdot(q, q.log().sub_(log_s))
    else:
        q = neighbor_log_q.exp()
        each_log_s = p.unsqueeze(1).add(q).log_()
        log_s = each_log_s.mean(dim=1)
        own = neighbor_log_q.sub_(each_log_s).mul_(q).sum(dim=(1, 2)).div_(q.shape[1])
    log_ratio = log_p - log_s
    expected = torch.linalg.vecdot(p, log_ratio)
    gradient = log_ratio.sub_(expected.unsqueeze(1)).mul_(p)
    return own.add_(expected).add_(2 * math.log(2)), gradient


def _with_gradient(logits: Tensor, value: Tensor, gradient: Tensor) -> Tensor:
    """Return a value of shape () or (B,) whose gradient with respect to the logits is known.

    The product of logits and gradient has that gradient; its value is then overwritten. A
    function of Python's own would say the same and costs as much as the divergence itself.
    """
    rows = gradient.detach()
    carrier = (
        torch.dot(logits.reshape(-1), rows.reshape(-1))
        if value.ndim == 0
        else torch.linalg.vecdot(logits, rows)
    )
    with torch.no_grad():
        return carrier.copy_(value)


class NeighborhoodSmoothing:
    r"""The NeSCal regulariser, for a training loop of one's own.

    Training on :math:`CE + \lambda \cdot` ``penalty`` pulls each row's prediction towards
    the cached predictions of its nearest neighbours in the network's own embedding. The
    cache is a constant for the gradient, is read before it is written, and costs no
    additional forward pass.

    Parameters
    ----------
    n_neighbors : int, default=10
        Neighbours per row, clipped to the number of other rows.
    target : {"mean", "each"}, default="mean"
        Divergence to the mean of the neighbours' predictions, or to each one, averaged (the
        published form).
    cache_decay : float in [0, 1), default=0.7
        Weight of the past in the cache, an exponential moving average of each row's
        predictions; 0 keeps the last prediction (the published form).
    graph : {"knn", "random", "permuted", "self"}, default="knn"
        Nearest neighbours, or one of three controls: uniformly drawn rows; the
        nearest-neighbour graph with its rows relabelled at random; or each row alone, which is
        pulled to its own past predictions.
    reduction : {None, "pca", "umap"}, default=None
        Reduce embeddings before the search. "umap" needs the extra ``skcal[umap]``.
    n_components : int, default=16
        Dimensions kept by a reduction.
    random_state : int, default=0
        Seed of the graphs and of the reductions.

    Attributes
    ----------
    neighbors_ : Tensor of shape (n_rows, k), int64
        Neighbours of each row.
    log_proba_ : Tensor of shape (n_rows, n_classes) or None
        The cache: log-probabilities in nats.

    See Also
    --------
    NeSCalClassifier : The same training as a scikit-learn classifier.

    Notes
    -----
    Cosine similarity on PCA components differs from cosine on the embedding itself, since
    PCA centres it.

    References
    ----------
    I. Horowitz and A. Gal, "Neighborhood Smoothing for Calibration", arXiv:2610.09020. The
    moving average, the mean target and the refreshed graph are this package's own variants.

    Examples
    --------
    >>> import torch
    >>> from torch import nn
    >>> from torch.nn.functional import cross_entropy
    >>> from skcal import NeighborhoodSmoothing
    >>> g = torch.Generator().manual_seed(0)
    >>> X = torch.randn(200, 5, generator=g)
    >>> y = (X[:, 0] > 0).long()
    >>> body, head = nn.Sequential(nn.Linear(5, 16), nn.ReLU()), nn.Linear(16, 2)
    >>> optimizer = torch.optim.Adam([*body.parameters(), *head.parameters()], lr=0.01)
    >>> smoothing = NeighborhoodSmoothing(n_neighbors=10)
    >>> for epoch in range(10):
    ...     if epoch in (2, 7):  # after the warm-up, and again five epochs later
    ...         with torch.no_grad():
    ...             _ = smoothing.update_graph(body(X), head(body(X)))
    ...     for rows in torch.randperm(200, generator=g).split(50):
    ...         logits = head(body(X[rows]))
    ...         loss = cross_entropy(logits, y[rows])
    ...         if epoch >= 2:
    ...             loss = loss + 3.0 * smoothing.penalty(logits, rows)
    ...         optimizer.zero_grad()
    ...         loss.backward()
    ...         optimizer.step()
    >>> smoothing.neighbors_.shape
    torch.Size([200, 10])
    """

    def __init__(
        self,
        *,
        n_neighbors: int = 10,
        target: Target = "mean",
        cache_decay: float = 0.7,
        graph: Graph = "knn",
        reduction: Reduction | None = None,
        n_components: int = 16,
        random_state: int = 0,
    ) -> None:
        if target not in ("mean", "each"):
            raise ValueError(f"target must be 'mean' or 'each'; got {target!r}.")
        if graph not in get_args(Graph):
            raise ValueError(f"graph must be 'knn', 'random', 'permuted' or 'self'; got {graph!r}.")
        if reduction not in (None, "pca", "umap"):
            raise ValueError(f"reduction must be None, 'pca' or 'umap'; got {reduction!r}.")
        if not 0 <= cache_decay < 1:
            raise ValueError(f"cache_decay must lie in [0, 1); got {cache_decay!r}.")
        if n_neighbors < 1:
            raise ValueError(f"n_neighbors must be at least 1; got {n_neighbors!r}.")
        if n_components < 1:
            raise ValueError(f"n_components must be at least 1; got {n_components!r}.")
        self.n_neighbors = n_neighbors
        self.target = target
        self.cache_decay = cache_decay
        self.graph = graph
        self.reduction = reduction
        self.n_components = n_components
        self.random_state = random_state
        self.log_proba_: Tensor | None = None
        self._unknown: Tensor | None = None

    @torch.no_grad()
    def update_graph(
        self, embeddings: Tensor, logits: Tensor | None = None
    ) -> NeighborhoodSmoothing:
        """Build the graph anew from the embeddings of all training rows.

        Parameters
        ----------
        embeddings : Tensor of shape (n_rows, d)
            Computed in eval mode.
        logits : Tensor of shape (n_rows, n_classes), optional
            The network's logits for the same rows, which enter the cache. Without them the
            first pass of :meth:`penalty` over all rows fills the cache, at no penalty.

        Returns
        -------
        self
        """
        n = len(embeddings)
        if logits is not None and len(logits) != n:
            raise ValueError(f"There are {n} embeddings but logits for {len(logits)} rows.")
        if self._unknown is not None and len(self._unknown) != n:
            raise ValueError(
                f"The cache holds {len(self._unknown)} rows and the embeddings {n}; use a new "
                "NeighborhoodSmoothing for other rows."
            )
        if self._unknown is None:
            self._unknown = torch.ones(n, dtype=torch.bool, device=embeddings.device)
            self._n_unknown = n
        if self.graph == "random":
            self.neighbors_ = random_graph(n, self.n_neighbors, seed=self.random_state)
            self.neighbors_ = self.neighbors_.to(embeddings.device)
        elif self.graph == "self":
            self.neighbors_ = torch.arange(n, device=embeddings.device).unsqueeze(1)
        else:
            Z = reduce_embeddings(embeddings, self.reduction, self.n_components, self.random_state)
            self.neighbors_ = knn_graph(Z, self.n_neighbors, seed=self.random_state)
            if self.graph == "permuted":
                self.neighbors_ = permute_graph(self.neighbors_, seed=self.random_state)
        if logits is not None:
            self._write(torch.arange(n, device=logits.device), _log_proba(logits))
        return self

    def penalty(self, logits: Tensor, index: Tensor, *, weight: Tensor | None = None) -> Tensor:
        """Mean divergence of a batch to its neighbours, then record the batch in the cache.

        Parameters
        ----------
        logits : Tensor of shape (B, n_classes)
            With gradient.
        index : Tensor of shape (B,), int64
            Which training rows these are.
        weight : Tensor of shape (B,), optional
            Row weights; they should average one over the training rows, as the mean is of
            weight times divergence.

        Returns
        -------
        Tensor of shape ()
            In nats, between 0 and ln 2, differentiable with respect to ``logits``.
        """
        if self._unknown is None:
            raise RuntimeError("Call update_graph before penalty.")
        with torch.no_grad():
            log_p = _log_proba(logits)
            if self._n_unknown:
                mean, gradient = log_p.new_zeros(()), torch.zeros_like(log_p)
            else:
                # The mean and its gradient in one: the rows' shares of it are constants, and
                # half of each share turns twice the divergence into once.
                half = (torch.ones_like(index) if weight is None else weight).to(log_p)
                half = half / (2 * len(half))
                twice, gradient = _twice_jsd(log_p, self._read(index), self.target)
                mean, gradient = half.dot(twice).clamp_(min=0), gradient.mul_(half.unsqueeze(1))
            self._write(index, log_p)
        return _with_gradient(logits, mean, gradient)

    def homophily(self, y: Tensor) -> tuple[float, float]:
        """Share of neighbours that have the row's own label, and the share expected by chance.

        Parameters
        ----------
        y : Tensor of shape (n_rows,), int64
            Class codes.

        Returns
        -------
        share : float
        chance : float
            Share for neighbours drawn uniformly among the other rows.
        """
        return homophily(self.neighbors_, y)

    def _read(self, index: Tensor) -> Tensor:
        """Return the cached log-probabilities of each row's neighbours, (B, k, K)."""
        assert self.log_proba_ is not None
        rows = self.neighbors_.index_select(0, index)
        return self.log_proba_.index_select(0, rows.view(-1)).view(*rows.shape, -1)

    def _write(self, index: Tensor, log_p: Tensor) -> None:
        assert self._unknown is not None
        if self.log_proba_ is None:
            self.log_proba_ = log_p.new_zeros(len(self._unknown), log_p.shape[1])
        if self.cache_decay and self._n_unknown == 0:
            past = self.log_proba_.index_select(0, index).add_(math.log(self.cache_decay))
            log_p = torch.logaddexp(past, log_p + math.log1p(-self.cache_decay))
        self.log_proba_.index_copy_(0, index, log_p)
        if self._n_unknown:
            self._unknown[index] = False
            self._n_unknown = int(self._unknown.sum())


def homophily(neighbors: Tensor, y: Tensor) -> tuple[float, float]:
    """Return the share of neighbours (n, k) with the row's own class code, and that by chance."""
    share = (y[neighbors] == y.unsqueeze(1)).double().mean().item()
    counts, n = torch.bincount(y).double(), len(y)
    return share, (counts * (counts - 1)).sum().item() / (n * (n - 1))


def reduce_embeddings(
    embeddings: Tensor, reduction: Reduction | None, n_components: int, seed: int
) -> Tensor:
    """Return embeddings with at most ``n_components`` dimensions.

    Raises
    ------
    ImportError
        If "umap" is asked for and umap-learn is not installed.
    """
    if reduction is None or embeddings.shape[1] <= n_components:
        return embeddings
    if reduction == "pca":
        centred = embeddings.detach() - embeddings.detach().mean(dim=0)
        axes = torch.linalg.eigh(centred.T @ centred).eigenvectors  # least variance first
        return centred @ axes[:, -n_components:].flip(1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ImportWarning)  # umap misses Tensorflow; we do not
        try:
            from umap import UMAP
        except ImportError as error:
            raise ImportError(
                "reduction='umap' needs umap-learn; install it with pip install 'skcal[umap]'."
            ) from error
    n = len(embeddings)
    if n < 4:  # too few for a layout
        return embeddings
    umap = UMAP(
        n_neighbors=min(15, n - 1),
        n_components=min(n_components, n - 2),
        random_state=seed,
        n_jobs=1,
    )
    reduced = np.ascontiguousarray(umap.fit_transform(embeddings.detach().cpu().numpy()))
    return torch.from_numpy(reduced).to(embeddings)
