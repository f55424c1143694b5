"""What Neighborhood Smoothing promises, checked on a fitted network."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import log_softmax
from sklearn.neighbors import NearestNeighbors
from sklearn.utils import _safe_indexing, check_random_state
from sklearn.utils.validation import check_consistent_length, check_is_fitted

from skcal._options import check_whole
from skcal._validation import FloatArray, IntArray
from skcal.diagnostics._divergences import Divergences
from skcal.diagnostics._inequalities import (
    Inequality,
    edges_of,
    of_laplacian,
    of_last_layer,
    of_neighborhoods,
    of_pairs,
    of_true_probabilities,
)
from skcal.plots import EdgeDivergenceDisplay

# Rounding of double precision; predictions that come in single precision are renormalised.
_TOLERANCE = 1e-9
_SINGLE_TOLERANCE = 1e-6


class NeSCalDiagnostics:
    r"""The inequalities behind Neighborhood Smoothing, measured on the predictions of a network.

    Smoothing makes neighbours' predictions agree. What follows from that does not depend on
    how the network was trained: the divergence over an edge bounds how far confidences, class
    probabilities and errors at its ends can be apart. Each bound is computed with both sides, so
    that a reader sees how tight it is; a violation beyond rounding would be a bug. Where the true
    probabilities are known, it also says when smoothing can help and when it cannot. Make one
    with :meth:`from_estimator` or :meth:`from_predictions`.

    Parameters
    ----------
    log_proba : ndarray of shape (n_samples, n_classes)
        Log-probabilities of the rows, in nats.
    neighbors : ndarray of shape (n_samples, n_neighbors), int
        Neighbours of each row among them.
    codes : ndarray of shape (n_samples,), int
        The column of each row's label.
    embeddings : ndarray of shape (n_samples, d), optional
        Where the neighbours were found.
    last_layer : ndarray of shape (n_classes, d), optional
        Weights of a linear layer from embeddings to logits.
    true_proba : ndarray of shape (n_samples, n_classes), optional
        The probabilities that labels were drawn from.
    step : float, default=0.5
        How far C3 moves each prediction towards the mean of its neighbours'.
    tolerance : float, default=1e-9
        By how much rounding may break an inequality.

    Attributes
    ----------
    inequalities : dict of str to Inequality
        By name: ``left``, ``right``, ``slack``, ``n_violations``, ``statement``. N1 to N8 are of
        pairs of predictions, G1 and G2 the sandwich of the graph's Laplacian, L1 and L2 the limit
        of the confidence, C1 to C5 about calibration; C1, C2, C3 and C5 need ``true_proba``.
    edges : Divergences
        Of both ends of each edge, arrays of shape (n_samples, n_neighbors): ``jsd``, ``tv``,
        ``hellinger`` and the like.
    homophily, chance : float
        Share of neighbours that have the row's own label, and the share expected by chance.
    lipschitz : ndarray of shape (n_samples, n_neighbors) or None
        Difference of the confidences over the distance of the embeddings of each edge; NaN where
        that is zero.
    gains : ndarray of shape (n_samples,) or None
        What a step towards the neighbours takes off each row's squared error.
    forced : float or None
        Share of edges over which the true probabilities differ by more than the predictions may,
        so that one end must be wrong: where smoothing cannot help.

    Raises
    ------
    ValueError
        If arrays do not fit together.

    See Also
    --------
    NeSCalClassifier : The networks.

    Notes
    -----
    JSD is the Jensen-Shannon divergence and TV the total variation, H² the squared Hellinger
    distance, m the mean of both predictions, R the range of the difference of their logits, e the
    total variation to the true probabilities η, h the binary entropy. The constants were derived
    for this package; the paper's abstract names the kind of bounds and not their constants.

    References
    ----------
    I. Horowitz and A. Gal, "Neighborhood Smoothing for Calibration", arXiv:2610.09020.

    Examples
    --------
    >>> from skcal import NeSCalClassifier
    >>> from skcal.datasets import make_calibration_data
    >>> from skcal.diagnostics import NeSCalDiagnostics
    >>> X, y, proba = make_calibration_data(600, n_classes=3, random_state=0)
    >>> model = NeSCalClassifier(max_epochs=10, random_state=0).fit(X[:400], y[:400])
    >>> found = NeSCalDiagnostics.from_estimator(
    ...     model, X[400:], y[400:], true_proba=proba[400:])
    >>> found.n_violations
    0
    >>> print(found)
    200 rows, 10 neighbours each; labels of neighbours agree in ... %, by chance in ... %.
    ...
    """

    def __init__(
        self,
        log_proba: FloatArray,
        neighbors: IntArray,
        codes: IntArray,
        *,
        embeddings: FloatArray | None = None,
        last_layer: FloatArray | None = None,
        true_proba: FloatArray | None = None,
        step: float = 0.5,
        tolerance: float = _TOLERANCE,
    ) -> None:
        check_consistent_length(log_proba, neighbors, codes, embeddings, true_proba)
        if true_proba is not None and np.shape(true_proba) != log_proba.shape:
            raise ValueError(
                f"true_proba must have the shape of the predictions, {log_proba.shape}; got "
                f"{np.shape(true_proba)}."
            )
        self.log_proba, self.neighbors, self.codes = log_proba, neighbors, codes
        self.edges: Divergences = edges_of(log_proba, neighbors)
        found = of_pairs(self.edges, tolerance)
        self.lipschitz: FloatArray | None = None
        if embeddings is not None:
            distance = np.linalg.norm(embeddings[:, None] - embeddings[neighbors], axis=2)
            apart = np.where(distance > 0, distance, np.nan)
            self.lipschitz = self.edges.confidence / apart
            if last_layer is not None:
                found.append(of_last_layer(self.edges.spread, last_layer, distance, tolerance))
        found += of_neighborhoods(log_proba, neighbors, self.edges.jsd, codes, tolerance)
        found += of_laplacian(log_proba, neighbors, self.edges.jsd, tolerance)
        self.gains: FloatArray | None = None
        self.forced: float | None = None
        if true_proba is not None:
            eta = np.asarray(true_proba, dtype=float)
            known, self.gains = of_true_probabilities(
                log_proba, neighbors, self.edges.jsd, eta, step, tolerance
            )
            found += known
            (c2,) = (one for one in known if one.name == "C2")
            self.forced = float(np.mean(c2.left > 0))
        self.inequalities: dict[str, Inequality] = {one.name: one for one in found}
        self.homophily = float(np.mean(codes[neighbors] == codes[:, None]))
        counts, n = np.bincount(codes), len(codes)
        self.chance = float((counts * (counts - 1)).sum() / (n * (n - 1)))

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: ArrayLike,
        *,
        true_proba: ArrayLike | None = None,
        n_neighbors: int = 10,
        step: float = 0.5,
        max_rows: int = 5_000,
        random_state: Any = None,
    ) -> Self:
        """Check a fitted network on some rows, neighbours by cosine in its own embedding.

        Parameters
        ----------
        estimator : NetClassifier
            A fitted network of skcal, smoothed or not.
        X : DataFrame or array-like of shape (n_samples, n_features)
            Rows it was trained on, or others.
        y : array-like of shape (n_samples,)
            Their labels.
        true_proba : array-like of shape (n_samples, n_classes), optional
            The probabilities that labels were drawn from, columns in the order of ``classes_``.
        n_neighbors : int, default=10
        step : float, default=0.5
            How far C3 moves each prediction towards the mean of its neighbours'.
        max_rows : int, default=5000
            More are drawn at random.
        random_state : int, RandomState instance or None, default=None
            Draws them.

        Returns
        -------
        NeSCalDiagnostics

        Raises
        ------
        TypeError
            If the estimator has no ``embed``.
        sklearn.exceptions.NotFittedError
            If it is not fitted.
        ValueError
            If there is a label that the network does not know, or too few rows.
        """
        if not hasattr(estimator, "embed"):
            raise TypeError(
                f"{type(estimator).__name__} has no embeddings; give a network of skcal.neural, or "
                "use from_predictions with neighbours of your own."
            )
        check_is_fitted(estimator)
        y = np.asarray(y)
        check_consistent_length(X, y, true_proba)
        if len(y) > check_whole(max_rows, "max_rows", 2):
            rows = np.sort(check_random_state(random_state).permutation(len(y))[:max_rows])
            X, y = _safe_indexing(X, rows), y[rows]
            true_proba = None if true_proba is None else np.asarray(true_proba)[rows]
        embeddings = np.asarray(estimator.embed(X), dtype=float)
        answers = getattr(estimator, "predict_logits", None)
        logits = None if answers is None else answers(X)
        proba = None if logits is not None else estimator.predict_proba(X)
        return cls.from_predictions(
            y,
            embeddings,
            logits=logits,
            proba=proba,
            classes=estimator.classes_,
            last_layer=_last_layer(estimator, embeddings.shape[1]),
            true_proba=true_proba,
            n_neighbors=n_neighbors,
            step=step,
        )

    @classmethod
    def from_predictions(
        cls,
        y: ArrayLike,
        embeddings: ArrayLike,
        *,
        logits: ArrayLike | None = None,
        proba: ArrayLike | None = None,
        classes: ArrayLike | None = None,
        last_layer: ArrayLike | None = None,
        true_proba: ArrayLike | None = None,
        n_neighbors: int = 10,
        step: float = 0.5,
    ) -> Self:
        """Check predictions of any model, neighbours by cosine in embeddings of any kind.

        Parameters
        ----------
        y : array-like of shape (n_samples,)
        embeddings : array-like of shape (n_samples, d)
            Rows are compared here.
        logits, proba : array-like of shape (n_samples, n_classes)
            The predictions; give one of both.
        classes : array-like of shape (n_classes,), optional
            Class of each column; sorted labels by default.
        last_layer : array-like of shape (n_classes, d), optional
            Weights of a linear layer from the embeddings to the logits.
        true_proba : array-like of shape (n_samples, n_classes), optional
        n_neighbors : int, default=10
            At most as many as there are other rows.
        step : float, default=0.5

        Returns
        -------
        NeSCalDiagnostics

        Raises
        ------
        ValueError
            If there are neither or both of logits and probabilities, a label has no column, or
            there are fewer than two rows.
        """
        if (logits is None) == (proba is None):
            raise ValueError("Give one of logits and proba.")
        y = np.asarray(y)
        known = np.unique(y) if classes is None else np.asarray(classes)
        strange = np.setdiff1d(y, known)
        if len(strange):
            raise ValueError(f"y has the label {strange.tolist()[0]!r}, which has no column.")
        codes = np.searchsorted(known, y)
        if logits is not None:
            log_proba, tolerance = log_softmax(np.asarray(logits, dtype=float), axis=1), _TOLERANCE
        else:
            p = np.asarray(proba, dtype=float)
            with np.errstate(divide="ignore"):
                log_proba = np.log(p / p.sum(axis=1, keepdims=True))
            tolerance = _SINGLE_TOLERANCE
        Z = np.asarray(embeddings, dtype=float)
        check_whole(n_neighbors, "n_neighbors")
        return cls(
            log_proba,
            _nearest(Z, min(n_neighbors, len(y) - 1)),
            codes,
            embeddings=Z,
            last_layer=None if last_layer is None else np.asarray(last_layer, dtype=float),
            true_proba=None if true_proba is None else np.asarray(true_proba, dtype=float),
            step=step,
            tolerance=tolerance,
        )

    @property
    def n_violations(self) -> int:
        """Return how many pairs, rows and sets break an inequality by more than rounding."""
        return sum(one.n_violations for one in self.inequalities.values())

    def plot(self, ax: Any = None) -> EdgeDivergenceDisplay:
        """Draw the difference of the confidences over each edge against its limit.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            A new figure by default.

        Returns
        -------
        EdgeDivergenceDisplay
        """
        edges = self.edges
        return EdgeDivergenceDisplay(edges.jsd.ravel(), edges.confidence.ravel()).plot(ax)

    def __repr__(self) -> str:
        """Return the same: what a notebook shows."""
        return str(self)

    def __str__(self) -> str:
        """Return a summary in plain text."""
        n, k = self.neighbors.shape
        lines = [
            f"{n} rows, {k} neighbours each; labels of neighbours agree in "
            f"{100 * self.homophily:.1f} %, by chance in {100 * self.chance:.1f} %.",
            f"Mean JSD over edges {self.edges.jsd.mean():.4f} nats, mean difference of confidences "
            f"{self.edges.confidence.mean():.4f}.",
        ]
        if self.lipschitz is not None:
            q = np.nanquantile(self.lipschitz, [0.5, 0.95])
            lines.append(
                f"Change of confidence per unit of embedding: median {q[0]:.3g}, 95 % {q[1]:.3g}."
            )
        if self.gains is not None and self.forced is not None:
            lines.append(
                f"A step towards the neighbours helps {100 * np.mean(self.gains > 0):.1f} % of the "
                f"rows, mean gain {self.gains.mean():+.4f}; over {100 * self.forced:.1f} % of the "
                "edges the true probabilities force an error."
            )
        width = max(len(one.statement) for one in self.inequalities.values())
        lines.append(
            f"{'':4} {'':{width}} {'left':>9} {'right':>9} {'slack':>9}  violations (means; slack "
            "is the least)"
        )
        for one in self.inequalities.values():
            lines.append(
                f"{one.name:4} {one.statement:{width}} {one.left.mean():9.4f} "
                f"{one.right.mean():9.4f} {one.slack:9.1e}  {one.n_violations} of {one.left.size}"
            )
        return "\n".join(lines)


def _nearest(Z: FloatArray, k: int) -> IntArray:
    """Return the nearest other rows by cosine; a row of zeros is like none."""
    if k < 1:
        raise ValueError("There must be at least two rows.")
    length = np.linalg.norm(Z, axis=1, keepdims=True)
    unit = Z / np.where(length > 0, length, 1)
    # On the sphere Euclidean neighbours are those by cosine.
    search = NearestNeighbors(n_neighbors=k, algorithm="brute").fit(unit)
    nearest: IntArray = search.kneighbors(return_distance=False)
    return nearest


def _last_layer(estimator: Any, n_dimensions: int) -> FloatArray | None:
    """Return the weights of a plain linear last layer behind the embedding, if there is one."""
    import torch

    plain = (
        getattr(estimator, "calibrator_", None) is None
        and getattr(estimator, "embedding", "penultimate") == "penultimate"
    )
    layers = [part for part in estimator.module_.modules() if isinstance(part, torch.nn.Linear)]
    if not plain or not layers:
        return None
    weight: FloatArray = layers[-1].weight.detach().double().cpu().numpy()
    fits = weight.shape == (len(estimator.classes_), n_dimensions)
    return weight if fits else None
