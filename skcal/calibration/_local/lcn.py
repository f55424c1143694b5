"""Local calibration networks: a map trained to agree with the frequencies around each row."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from skcal._rows import row_blocks
from skcal._validation import FloatArray, Input, IntArray
from skcal.calibration._local.base import LocalCalibrator
from skcal.calibration._local.calibration_network import (
    CalibrationNetwork,
    train_calibration_network,
    typical_distance,
)
from skcal.calibration._local.projection import Projection, principal_components
from skcal.calibration._local.standard import column_scale, standardized

# Rows whose distances tell the bandwidth, at most.
_MOST_ROWS = 1_000
# Part of the median distance that "auto" takes: the whole of it averages over most rows.
_PART = 0.25
# In standard deviations: inputs further off are as far off as this.
_FURTHEST = 5.0


class LocalCalibrationNetwork(LocalCalibrator):
    r"""Train a network whose probabilities agree with the class frequencies around each row.

    The network gives new logits and new coordinates. Frequencies are taken by a Gaussian
    kernel between the coordinates of a batch; the probabilities shall be close to them, and
    the coordinates such that the frequencies tell the class.

    Parameters
    ----------
    bandwidth : "auto", "median" or float, default="auto"
        Of the kernel, in units of the coordinates, which start as principal components of the
        standardised features. "median" is the median distance between rows, which is close to
        the published 10 for 50 components of equal variance. "auto", which is ours, a quarter
        of it.
    hidden_units : int, default=64
        Units of the hidden layer.
    n_components : int, default=50
        Principal components, at most.
    js_weight : float, default=1.0
        Weight of the distance between probabilities and frequencies.
    ce_weight : float, default=1.0
        Weight of the cross-entropy of the frequencies.
    dropout : float, default=0.3
        Share of the hidden units left out in each step.
    lr : float, default=1e-3
        Learning rate of Adam.
    batch_size : int, default=512
        Rows per step, between which the kernel is. Published with 1024, for more rows than
        most tables have; for dozens of classes take more rather than less.
    max_epochs : int, default=100
        Most epochs.
    n_iter_no_change : int, default=10
        Epochs without a smaller distance on held-out rows, after which it stops.
    validation_fraction : float, default=0.15
        Share of the rows held out for that.
    fallback : bool, default=True
        Stay with temperature scaling unless the local map has a log-loss that is lower on
        held-out rows by more than a standard error.
    cv : int, default=3
        Folds of that comparison; of 20,000 rows at most.
    random_state : int, RandomState instance or None, default=None
        Seeds the start, the rows held out, the batches and the dropout.
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
    settings_ : dict
        Empty: nothing is chosen by cross-validation.
    cv_results_ : dict
        "settings", and "gain", the log-loss in nats that it takes off the temperature's on
        held-out rows; with ``fallback=True``.
    bandwidth_ : float
        The bandwidth in use.
    feature_mean_, feature_scale_ : ndarray of shape (n_columns,)
        What standardises the features.
    components_ : ndarray of shape (n_columns, n_components)
        Principal components, one per column.
    hidden_coef_, hidden_intercept_ : ndarray of shape (n_columns, hidden_units), (hidden_units,)
        The hidden layer.
    logit_coef_, logit_scale_, logit_intercept_ : ndarray
        What makes new logits, of shape (hidden_units, n_classes), (1 or n_classes,) and
        (n_classes,).
    place_coef_, place_scale_, place_intercept_ : ndarray
        What makes new coordinates, of shape (hidden_units, n_components), (1 or
        n_components,) and (n_components,).
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
        Epochs of the local map.
    converged_ : bool
        Always true: it stops early.
    loss_, baseline_loss_ : float
        Mean log-loss in nats on the rows of ``fit``, after and before calibration.

    See Also
    --------
    LocalTemperatureScaling : Keeps the best class, and is faster.
    VQDirichletCalibration : A map for each region, in closed form.

    Notes
    -----
    With :math:`r = \mathrm{relu}(A x)` of the standardised features, logits l and principal
    components u, the network gives :math:`l' = W r + s\, l + b` and
    :math:`u' = V r + t\, u + c`, where s and t start at 1, and are vectors for more than ten
    classes. In a batch

    .. math:: \theta_i = \frac{\sum_{j \ne i} k_{ij} y_j}{\sum_{j \ne i} k_{ij}}, \qquad
              k_{ij} = e^{-\|u'_i - u'_j\|^2 / (2 \sigma^2)}, \qquad
              L = \lambda\, \mathrm{JS}^{1/2}(\mathrm{softmax}(l'), \theta)
              + \alpha\, \mathrm{CE}(\theta, y),

    with the Jensen-Shannon distance of each class against the rest. The cross-entropy is that
    of the frequencies: labels reach the probabilities through them alone. Coordinates are made
    of features alone, so that what the scores know beyond these is averaged away; and without
    an error that is local it is worse than a temperature, on which it falls back.

    Ours are features that are standardised and cut off at five standard deviations, logits at
    the global temperature, a least frequency of 1e-6 in the place of one for each weight of the
    kernel, and row weights, which weigh rows and their part in the frequencies of others.

    References
    ----------
    Barbera, Perini, De Toni, Passerini and Pugnana, "Multiclass Local Calibration With the
    Jensen-Shannon Distance", arXiv:2510.26566, 2025.

    Examples
    --------
    >>> import numpy as np
    >>> from skcal.calibration import LocalCalibrationNetwork
    >>> rng = np.random.default_rng(0)
    >>> Z = rng.normal(size=(600, 2))  # where each row lies
    >>> p = 1 / (1 + np.exp(-3 * Z[:, 1]))
    >>> y = rng.random(600) < np.where(Z[:, 0] > 0, p, 0.5 + 0.2 * (p - 0.5))
    >>> local = LocalCalibrationNetwork(lr=0.02, max_epochs=10, random_state=0)
    >>> local.fit(p, y, features=Z).is_local_
    True
    >>> local.transform(Z).shape
    (600, 2)
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **LocalCalibrator._parameter_constraints,
        "bandwidth": [StrOptions({"auto", "median"}), Interval(Real, 0, None, closed="neither")],
        "hidden_units": [Interval(Integral, 1, None, closed="left")],
        "n_components": [Interval(Integral, 1, None, closed="left")],
        "js_weight": [Interval(Real, 0, None, closed="left")],
        "ce_weight": [Interval(Real, 0, None, closed="left")],
        "dropout": [Interval(Real, 0, 1, closed="left")],
        "lr": [Interval(Real, 0, None, closed="neither")],
        "batch_size": [Interval(Integral, 2, None, closed="left")],
        "max_epochs": [Interval(Integral, 1, None, closed="left")],
        "n_iter_no_change": [Interval(Integral, 1, None, closed="left")],
        "validation_fraction": [Interval(Real, 0, 1, closed="neither")],
    }

    def __init__(
        self,
        bandwidth: Any = "auto",
        *,
        hidden_units: int = 64,
        n_components: int = 50,
        js_weight: float = 1.0,
        ce_weight: float = 1.0,
        dropout: float = 0.3,
        lr: float = 1e-3,
        batch_size: int = 512,
        max_epochs: int = 100,
        n_iter_no_change: int = 10,
        validation_fraction: float = 0.15,
        fallback: bool = True,
        cv: int = 3,
        random_state: Any = None,
        input: Input = "proba",
        eps: Any = "auto",
    ) -> None:
        super().__init__(fallback=fallback, cv=cv, random_state=random_state, input=input, eps=eps)
        self.bandwidth = bandwidth
        self.hidden_units = hidden_units
        self.n_components = n_components
        self.js_weight = js_weight
        self.ce_weight = ce_weight
        self.dropout = dropout
        self.lr = lr
        self.batch_size = batch_size
        self.max_epochs = max_epochs
        self.n_iter_no_change = n_iter_no_change
        self.validation_fraction = validation_fraction

    def transform(self, features: ArrayLike) -> FloatArray:
        """Return the coordinates between which the kernel is.

        Parameters
        ----------
        features : array-like of shape (n_samples, n_columns)

        Returns
        -------
        ndarray of shape (n_samples, n_components)
            Without a column if the map fell back on the temperature: then there are none.
        """
        check_is_fitted(self)
        table = self._check_fitted_features(features)
        if not self.is_local_:
            return np.empty((len(table), 0))
        network, projection = self._network(), Projection(self.components_, None)
        found = np.empty((len(table), len(self.place_intercept_)))
        for rows in self._blocks(table):
            columns = self._standard(table[rows])
            found[rows] = network.places(columns, projection.points(columns))
        return found

    # -- the map -------------------------------------------------------------------------

    def _fit_local(
        self, log_proba: FloatArray, codes: IntArray, weights: FloatArray, features: FloatArray
    ) -> None:
        self.feature_mean_, self.feature_scale_ = column_scale(features, weights)
        columns = self._standard(features)
        width = min(self.n_components, columns.shape[1])
        projection = principal_components(columns, weights, width)
        self.components_, points = projection.matrix, projection.points(columns)
        if isinstance(self.bandwidth, str):
            part = _PART if self.bandwidth == "auto" else 1.0
            self.bandwidth_ = part * typical_distance(points, weights, self._seed, _MOST_ROWS)
        else:
            self.bandwidth_ = float(self.bandwidth)
        network, self.n_iter_ = train_calibration_network(
            log_proba,
            codes,
            weights,
            columns,
            points,
            bandwidth=self.bandwidth_,
            hidden_units=self.hidden_units,
            js_weight=self.js_weight,
            ce_weight=self.ce_weight,
            dropout=self.dropout,
            lr=self.lr,
            batch_size=self.batch_size,
            max_epochs=self.max_epochs,
            patience=self.n_iter_no_change,
            validation_fraction=self.validation_fraction,
            seed=self._seed,
        )
        for name, values in network._asdict().items():
            setattr(self, f"{name}_", values)

    def _transform_local(self, log_proba: FloatArray, features: FloatArray) -> FloatArray:
        network, answer = self._network(), np.empty_like(log_proba)
        for rows in self._blocks(features):
            answer[rows] = network.logits(self._standard(features[rows]), log_proba[rows])
        return answer

    def _network(self) -> CalibrationNetwork:
        return CalibrationNetwork(*(getattr(self, f"{f}_") for f in CalibrationNetwork._fields))

    def _standard(self, features: FloatArray) -> FloatArray:
        standard = standardized(features, self.feature_mean_, self.feature_scale_)
        return np.clip(standard, -_FURTHEST, _FURTHEST)

    def _blocks(self, features: FloatArray) -> Any:
        width = max(features.shape[1], len(self.hidden_intercept_))
        return row_blocks((len(features), width), large=True)
