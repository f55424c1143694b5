"""Calibration by how near other rows are: ProCal."""

from __future__ import annotations

import warnings
from numbers import Integral, Real
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import logsumexp
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from skcal._neighbors import nearest_distances
from skcal._rows import mean_log_loss
from skcal._validation import TINY, FloatArray, Input, IntArray
from skcal.calibration._local.base import LocalCalibrator
from skcal.calibration._local.confidence_maps import (
    BinShift,
    Density,
    DensityRatio,
    fit_bin_shift,
    fit_density_ratio,
)
from skcal.calibration._local.standard import column_scale, standardized

# Rows that must be wrong, and as many right, by weight: of fewer there is no density.
_FEWEST = 5.0


class ProximityCalibration(LocalCalibrator):
    r"""Calibrate the confidence by how near other rows are (proximity calibration, ProCal).

    Classifiers tend to be too sure of lonely rows. The confidence of the most probable class is
    mapped together with the row's proximity; the other classes keep their proportions.

    Parameters
    ----------
    method : {"density_ratio", "bin_mean_shift"}, default="density_ratio"
        Whether the new confidence is the share of right rows by two kernel densities, or the
        old one with the difference of accuracy and confidence in its bin added.
    n_neighbors : int, default=10
        K; at most as many as there are other rows.
    normalize : {"columns", "rows"} or None, default="columns"
        What is done to features before distances are taken. "columns", ours, standardises them
        and divides by the root of their number: for tables. "rows" divides each row by its
        length, as published for embeddings. None takes them as they are.
    proximity : {"exp_mean", "mean_exp_sq"}, default="exp_mean"
        The paper's :math:`\exp(-\overline{d_j})` of the K distances, or the
        :math:`\overline{\exp(-d_j^2)}` of the authors' code.
    prior : float, default=1.0
        a: as many rows whose confidence was right are added where a row lies. 0 is the
        published form, which is sure of itself where there was no row.
    n_proximity_bins : int, default=5
        Bins of about equal weight of the proximity (bin_mean_shift).
    n_bins : int, default=10
        Bins of about equal weight of the confidence, in each of them (bin_mean_shift).
    shift : float, default=1.0
        s, in (0, 1]: what part of the difference is added (bin_mean_shift).
    max_rows : int, default=20000
        Rows that are kept, drawn at random if there are more: neighbours are sought among them,
        and densities are theirs. Memory, files and the time of an answer grow with it.
    fallback : bool, default=True
        Stay with temperature scaling unless the local map has a log-loss that is lower on
        held-out rows by more than a standard error.
    cv : int, default=3
        Folds of that comparison; of 20,000 rows at most.
    random_state : int, RandomState instance or None, default=None
        Seeds which rows are kept where there are many.
    input : {"proba", "logits"}, default="proba"
        What the scores are. It is never guessed from their values.
    eps : "auto" or float, default="auto"
        With ``input="proba"``, what probabilities of zero stand for; smaller ones are raised
        to it. "auto" is half of the smallest positive probability in ``fit`` if there are
        zeros too, and never less than 1.2e-38.

    Attributes
    ----------
    temperature_ : float
        Of the global map, with which all begins.
    is_local_ : bool
        Whether the local map is in use; False if it fell back on the temperature.
    reason_ : str
        Why, in a sentence.
    references_ : ndarray of shape (n_rows, n_columns)
        The rows among which neighbours are sought, normalised.
    reference_weights_ : ndarray of shape (n_rows,)
        Their weights.
    feature_mean_, feature_scale_ : ndarray of shape (n_columns,)
        What standardises the features, with ``normalize="columns"``.
    right_points_, wrong_points_ : ndarray of shape (n, 2)
        Confidence and proximity of the rows that the classifier had right and wrong
        (density_ratio).
    right_weights_, wrong_weights_ : ndarray of shape (n,)
        Their weights.
    right_bandwidth_, wrong_bandwidth_ : ndarray of shape (2,)
        Of the two densities.
    proximity_edges_ : ndarray of shape (n_proximity_bins - 1,)
        Inner edges of the bins of the proximity (bin_mean_shift).
    confidence_edges_ : ndarray of shape (n_proximity_bins, n_bins - 1)
        Those of the confidence in each of them.
    gap_, mass_ : ndarray of shape (n_proximity_bins, n_bins)
        Accuracy minus mean confidence of each bin, and its weight.
    settings_ : dict
        Empty: nothing is left at "auto".
    cv_results_ : dict
        "settings", and "gain", the log-loss in nats that it takes off the temperature's on
        held-out rows; with ``fallback=True``.
    classes_ : ndarray of shape (n_classes,)
        The class of each column.
    n_features_in_ : int
        Number of score columns.
    n_columns_ : int
        Number of feature columns.
    column_names_ : ndarray of shape (n_columns,)
        Their names, if the features were a table with names.
    eps_ : float
        The value of ``eps`` in use.
    n_iter_ : int
        1: there is nothing that could fail to converge.
    converged_ : bool
        True.
    loss_, baseline_loss_ : float
        Mean log-loss in nats on the rows of ``fit``, after and before calibration; rows are
        their own neighbours here.

    Warns
    -----
    UserWarning
        With ``fallback=False``, if fewer than five rows are wrong, or right, by weight: the map
        is then temperature scaling all the same. (Our choice; a density of fewer says nothing.)

    See Also
    --------
    KernelCalibration : What the neighbours are, instead of how far.
    skcal.metrics.proximity_informed_calibration_error : What this map is to lower.

    Notes
    -----
    The confidence c is that after temperature scaling. With the densities of right and wrong
    rows over confidence and proximity, and their numbers,

    .. math:: c' = \frac{n_1 f_1 + a g\, c}{n_1 f_1 + n_0 f_0 + a g}, \qquad
              c' = c + s\, \frac{W_b}{W_b + a}\, (\bar{e}_b - \bar{c}_b) ,

    where g is what one row adds to :math:`n_1 f_1` where it lies. Kernels are products of two
    Gaussians with bandwidths :math:`1.06\, s_d\, n^{-1/6}`. The others' probabilities are
    multiplied by :math:`(1 - c') / (1 - c)`; where c' falls below the second largest, another
    class becomes the answer. No side of c' gets less than :math:`1 / (n + 2)` unless it had
    less (our choice).

    In ``fit`` a row is left out of its own neighbours, by its number. A weight of two is a row
    repeated, and its copy a neighbour.

    References
    ----------
    M. Xiong, A. Deng, P. W. Koh, J. Wu, S. Li, J. Xu and B. Hooi, "Proximity-Informed
    Calibration for Deep Neural Networks", NeurIPS, 2023.

    Examples
    --------
    >>> import numpy as np
    >>> from skcal.calibration import ProximityCalibration
    >>> rng = np.random.default_rng(0)
    >>> Z = np.concatenate([rng.normal(size=(1000, 2)), 9 * rng.normal(size=(1000, 2))])
    >>> p = np.full(2000, 0.75)
    >>> y = rng.random(2000) < np.repeat([0.95, 0.55], 1000)  # the first are near to each other
    >>> local = ProximityCalibration(random_state=0).fit(p, y, features=Z)
    >>> local.is_local_
    True
    >>> local.predict_proba([0.75, 0.75], features=[[0, 0], [10, 10]])[:, 1].round(1)
    array([0.9, 0.6])
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **LocalCalibrator._parameter_constraints,
        "method": [StrOptions({"density_ratio", "bin_mean_shift"})],
        "n_neighbors": [Interval(Integral, 1, None, closed="left")],
        "normalize": [StrOptions({"columns", "rows"}), None],
        "proximity": [StrOptions({"exp_mean", "mean_exp_sq"})],
        "prior": [Interval(Real, 0, None, closed="left")],
        "n_proximity_bins": [Interval(Integral, 1, None, closed="left")],
        "n_bins": [Interval(Integral, 1, None, closed="left")],
        "shift": [Interval(Real, 0, 1, closed="right")],
        "max_rows": [Interval(Integral, 1, None, closed="left")],
    }

    def __init__(
        self,
        method: Literal["density_ratio", "bin_mean_shift"] = "density_ratio",
        *,
        n_neighbors: int = 10,
        normalize: Literal["columns", "rows"] | None = "columns",
        proximity: Literal["exp_mean", "mean_exp_sq"] = "exp_mean",
        prior: float = 1.0,
        n_proximity_bins: int = 5,
        n_bins: int = 10,
        shift: float = 1.0,
        max_rows: int = 20_000,
        fallback: bool = True,
        cv: int = 3,
        random_state: Any = None,
        input: Input = "proba",
        eps: Any = "auto",
    ) -> None:
        super().__init__(fallback=fallback, cv=cv, random_state=random_state, input=input, eps=eps)
        self.method = method
        self.n_neighbors = n_neighbors
        self.normalize = normalize
        self.proximity = proximity
        self.prior = prior
        self.n_proximity_bins = n_proximity_bins
        self.n_bins = n_bins
        self.shift = shift
        self.max_rows = max_rows

    def proximities(self, features: ArrayLike) -> FloatArray:
        """Return how near the rows of ``fit`` are to each row.

        Parameters
        ----------
        features : array-like of shape (n_samples, n_columns)

        Returns
        -------
        ndarray of shape (n_samples,)
            In [0, 1], and 1 where the neighbours have the same features. Rows of ``fit`` are
            their own neighbours here.

        Raises
        ------
        ValueError
            If the map fell back on the temperature: then there is no proximity.
        """
        check_is_fitted(self)
        table = self._check_fitted_features(features)
        if not self.is_local_:
            raise ValueError(f"There are no proximities: {self.reason_}")
        return self._proximities(self._coordinates(table))

    # -- the map -------------------------------------------------------------------------

    def _fit(
        self,
        log_proba: FloatArray,
        codes: IntArray,
        weights: FloatArray,
        features: FloatArray | None = None,
    ) -> float:
        correct = log_proba.argmax(axis=1) == codes
        mass = {"wrong": weights[~correct].sum(), "right": weights[correct].sum()}
        fewest = min(mass, key=mass.__getitem__)
        if mass[fewest] >= _FEWEST or features is None:
            return super()._fit(log_proba, codes, weights, features)
        self.is_local_, self.settings_ = False, {}
        self.reason_ = (
            f"{type(self).__name__} needs {_FEWEST:.0f} {fewest} rows, and there are "
            f"{mass[fewest]:g}: fell back on temperature scaling."
        )
        if not self.fallback:
            warnings.warn(self.reason_, UserWarning, stacklevel=5)
        return mean_log_loss(self._scale(log_proba, codes, weights), codes, weights)

    def _fit_local(
        self, log_proba: FloatArray, codes: IntArray, weights: FloatArray, features: FloatArray
    ) -> None:
        if len(codes) > self.max_rows:
            draw = np.random.default_rng(self._seed)
            rows = np.sort(draw.choice(len(codes), self.max_rows, replace=False))
            log_proba, codes, weights = log_proba[rows], codes[rows], weights[rows]
            features = features[rows]
        if self.normalize == "columns":
            self.feature_mean_, self.feature_scale_ = column_scale(features, weights)
        self.references_, self.reference_weights_ = self._coordinates(features), weights
        points = np.column_stack([np.exp(log_proba.max(axis=1)), self._proximities(None)])
        correct = log_proba.argmax(axis=1) == codes
        if self.method == "bin_mean_shift":
            self.proximity_edges_, self.confidence_edges_, self.gap_, self.mass_ = fit_bin_shift(
                points,
                correct,
                weights,
                n_proximity_bins=self.n_proximity_bins,
                n_bins=self.n_bins,
            )
            return
        right, wrong = fit_density_ratio(points, correct, weights)
        self.right_points_, self.right_weights_, self.right_bandwidth_ = right
        self.wrong_points_, self.wrong_weights_, self.wrong_bandwidth_ = wrong

    def _transform_local(self, log_proba: FloatArray, features: FloatArray) -> FloatArray:
        proximity = self._proximities(self._coordinates(features))
        points = np.column_stack([np.exp(log_proba.max(axis=1)), proximity])
        if self.method == "bin_mean_shift":
            bins = BinShift(self.proximity_edges_, self.confidence_edges_, self.gap_, self.mass_)
            return self._with(log_proba, bins.confidence(points, self.prior, self.shift))
        ratio = DensityRatio(
            Density(self.right_points_, self.right_weights_, self.right_bandwidth_),
            Density(self.wrong_points_, self.wrong_weights_, self.wrong_bandwidth_),
        )
        return self._with(log_proba, ratio.confidence(points, self.prior))

    def _coordinates(self, features: FloatArray) -> FloatArray:
        if self.normalize == "columns":
            columns = standardized(features, self.feature_mean_, self.feature_scale_)
            # Of any number of columns, distances are then about one.
            return columns / np.sqrt(features.shape[1])
        if self.normalize == "rows":
            # By a power of two first, which is exact: squares shall neither overflow nor vanish.
            exponent = np.frexp(np.abs(features).max(axis=1, keepdims=True))[1] - 1
            near_one = features / np.ldexp(1.0, exponent)
            length = np.linalg.norm(near_one, axis=1, keepdims=True)
            return near_one / np.where(length > 0, length, 1.0)
        return features

    def _proximities(self, queries: FloatArray | None) -> FloatArray:
        """Return the proximity (n,) of coordinates; of the references, each without itself."""
        n_references = len(self.references_)
        n_neighbors = min(self.n_neighbors, n_references - (queries is None))
        if n_neighbors == 0:
            return np.ones(n_references)
        distances, shares = nearest_distances(
            self.references_, n_neighbors, queries=queries, weights=self.reference_weights_
        )
        if self.proximity == "exp_mean":
            return np.exp(-(shares * distances).sum(axis=1))
        return (shares * np.exp(-(distances**2))).sum(axis=1)

    def _with(self, log_proba: FloatArray, confidence: FloatArray) -> FloatArray:
        # The rule of succession: so many rows cannot make anyone surer than that.
        return with_confidence(log_proba, confidence, 1.0 / (self.reference_weights_.sum() + 2.0))


def with_confidence(log_proba: FloatArray, confidence: FloatArray, least: float) -> FloatArray:
    """Give the top classes a confidence, and the others what is left, in proportion.

    Parameters
    ----------
    log_proba : ndarray of shape (n_samples, n_classes)
        Each row's exponentials sum to one.
    confidence : ndarray of shape (n_samples,)
        Of the largest entry of each row.
    least : float
        Neither side gets less, unless it had less.

    Returns
    -------
    ndarray of shape (n_samples, n_classes)
        Log-probabilities, up to a constant per row.
    """
    rows, top = np.arange(len(log_proba)), log_proba.argmax(axis=1)
    others = log_proba.copy()
    others[rows, top] = -np.inf
    log_rest = logsumexp(others, axis=1)
    left = np.log(np.maximum(1.0 - confidence, TINY))
    left = np.maximum(left, np.minimum(np.log(least), log_rest))
    answer = log_proba + (left - log_rest)[:, None]
    answer[rows, top] = np.maximum(
        np.log(np.maximum(confidence, TINY)), np.minimum(np.log(least), log_proba[rows, top])
    )
    return answer
