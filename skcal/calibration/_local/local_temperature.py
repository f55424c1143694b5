"""Local temperature scaling: a temperature for each row."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils._param_validation import Interval, StrOptions

from skcal._rows import log_softmax, row_blocks
from skcal._validation import FloatArray, Input, IntArray
from skcal.calibration._local.base import LocalCalibrator
from skcal.calibration._local.standard import column_scale, standardized
from skcal.calibration._local.temperature_network import (
    TemperatureNetwork,
    fit_temperature_network,
)

_ALPHAS = (3.0, 10.0, 30.0, 100.0, 300.0)
# In standard deviations: inputs further off are as far off as this.
_FURTHEST = 5.0


class LocalTemperatureScaling(LocalCalibrator):
    r"""Divide the logits of each row by a temperature of its own, and keep its best class.

    .. math:: q_i = \mathrm{softmax}(z_i / T_i), \qquad T_i = T e^{g(v_i)}

    T is the global temperature, and g a small network of what is known of the row. It starts
    at zero, and a ridge pulls it back there.

    Parameters
    ----------
    hidden : tuple of int, default=(16,)
        Units of the network's hidden layers; () for a linear g.
    reads : {"both", "features", "logits"}, default="both"
        What g reads: the largest log-probabilities of the row, in falling order, its features,
        or both. With "logits" no features need to be given.
    n_top : int, default=10
        How many log-probabilities it reads.
    alpha : "auto" or float, default=30.0
        Strength of the ridge, in rows. "auto" chooses among 3, 10, 30, 100 and 300 by
        cross-validated log-loss.
    max_iter : int, default=500
        Most iterations of L-BFGS.
    early_stopping : bool, default=True
        Whether to hold out rows, and stop at the least log-loss on them. Without it the map is
        that of least penalised log-loss, which needs a stronger ridge where there are dozens of
        features, and in which a weight of two is exactly a row repeated.
    validation_fraction : float, default=0.15
        Share of the rows held out for that.
    n_iter_no_change : int, default=10
        Iterations without a better log-loss on held-out rows, after which it stops.
    fallback : bool, default=True
        Stay with temperature scaling unless the local map has a log-loss that is lower on
        held-out rows by more than a standard error; by more of them if several strengths were
        tried.
    cv : int, default=3
        Folds of that comparison, and of the choice of ``alpha``; of 20,000 rows at most.
    random_state : int, RandomState instance or None, default=None
        Seeds the start of the hidden layers, and the rows held out by ``early_stopping``.
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
        "alpha".
    cv_results_ : dict
        "settings", and "gain", the log-loss in nats that each takes off the temperature's on
        held-out rows; if there was anything to choose.
    coefs_ : list of ndarray of shape (inputs of the layer, outputs of the layer)
        Weights of the network.
    intercepts_ : list of ndarray of shape (outputs of the layer,)
        Its biases.
    input_mean_, input_scale_ : ndarray of shape (n_inputs,)
        What standardises its inputs: log-probabilities first, then features.
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
        Iterations of the local map.
    converged_ : bool
        Whether an optimum was reached.
    loss_, baseline_loss_ : float
        Mean log-loss in nats on the rows of ``fit``, after and before calibration.

    See Also
    --------
    TemperatureScaling : One temperature for all rows.
    VQDirichletCalibration : Temperatures, and shifts of the classes, of regions.

    Notes
    -----
    Published for segmentation, where g is a tree of convolutions. For tables the network, its
    standardised inputs, cut off at five standard deviations, and temperatures within a
    hundredfold of T are our choice, as are L-BFGS and the unit of the ridge.

    References
    ----------
    Ding, Han, Liu and Niethammer, "Local Temperature Scaling for Probability Calibration",
    ICCV 2021, arXiv:2008.05105.

    Examples
    --------
    >>> import numpy as np
    >>> from skcal.calibration import LocalTemperatureScaling
    >>> rng = np.random.default_rng(0)
    >>> Z = rng.normal(size=(2000, 4))  # where each row lies
    >>> p = 1 / (1 + np.exp(-3 * Z[:, 1]))
    >>> y = rng.random(2000) < np.where(Z[:, 0] > 0, p, 0.5 + 0.2 * (p - 0.5))
    >>> local = LocalTemperatureScaling(random_state=0).fit(p, y, features=Z)
    >>> local.is_local_
    True
    >>> here = [[-1.0, 1.0, 0.0, 0.0], [1.0, 1.0, 0.0, 0.0]]
    >>> left, right = local.temperatures([0.95, 0.95], features=here)
    >>> bool(left > 2 * right)
    True
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **LocalCalibrator._parameter_constraints,
        "hidden": [tuple, list],
        "reads": [StrOptions({"both", "features", "logits"})],
        "n_top": [Interval(Integral, 1, None, closed="left")],
        "alpha": [StrOptions({"auto"}), Interval(Real, 0, None, closed="left")],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "early_stopping": ["boolean"],
        "validation_fraction": [Interval(Real, 0, 1, closed="neither")],
        "n_iter_no_change": [Interval(Integral, 1, None, closed="left")],
    }

    def __init__(
        self,
        hidden: tuple[int, ...] = (16,),
        *,
        reads: Literal["both", "features", "logits"] = "both",
        n_top: int = 10,
        alpha: Any = 30.0,
        max_iter: int = 500,
        early_stopping: bool = True,
        validation_fraction: float = 0.15,
        n_iter_no_change: int = 10,
        fallback: bool = True,
        cv: int = 3,
        random_state: Any = None,
        input: Input = "proba",
        eps: Any = "auto",
    ) -> None:
        super().__init__(fallback=fallback, cv=cv, random_state=random_state, input=input, eps=eps)
        self.hidden = hidden
        self.reads = reads
        self.n_top = n_top
        self.alpha = alpha
        self.max_iter = max_iter
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.n_iter_no_change = n_iter_no_change

    def temperatures(self, scores: ArrayLike, features: ArrayLike | None = None) -> FloatArray:
        """Return the temperature of each row.

        Parameters
        ----------
        scores : array-like of shape (n_samples, n_classes), (n_samples,) or (n_samples, 1)
        features : array-like of shape (n_samples, n_columns), optional
            Not looked at with ``reads="logits"``, and needed else.

        Returns
        -------
        ndarray of shape (n_samples,)
            All of them ``temperature_`` if the map fell back on it.
        """
        log_proba = self._checked(scores)
        table = self._check_fitted_features(features, log_proba)
        if not self.is_local_:
            return np.full(len(log_proba), self.temperature_)
        scaled = log_softmax(log_proba / self.temperature_)
        return self.temperature_ * np.exp(self._log_temperatures(scaled, table))

    # -- the map -------------------------------------------------------------------------

    def _reads_features(self) -> bool:
        return self.reads != "logits"

    def _candidates(self, features: FloatArray, n_classes: int) -> list[dict[str, Any]]:
        if not all(isinstance(units, Integral) and units > 0 for units in self.hidden):
            raise ValueError(
                "hidden must hold the number of units of each hidden layer, such as (16,), or "
                f"nothing; got {self.hidden!r}."
            )
        alphas = _ALPHAS if self.alpha == "auto" else (self.alpha,)
        return [{"alpha": alpha} for alpha in alphas]

    def _fit_local(
        self, log_proba: FloatArray, codes: IntArray, weights: FloatArray, features: FloatArray
    ) -> None:
        raw = self._raw_inputs(log_proba, features)
        self.input_mean_, self.input_scale_ = column_scale(raw, weights)
        network, self.n_iter_, self.converged_ = fit_temperature_network(
            log_proba,
            codes,
            weights,
            self._standard(raw),
            hidden=self.hidden,
            alpha=self.settings_["alpha"],
            max_iter=self.max_iter,
            early_stopping=self.early_stopping,
            validation_fraction=self.validation_fraction,
            patience=self.n_iter_no_change,
            seed=self._seed,
        )
        self.coefs_, self.intercepts_ = network

    def _transform_local(self, log_proba: FloatArray, features: FloatArray) -> FloatArray:
        return log_proba * np.exp(-self._log_temperatures(log_proba, features))[:, None]

    def _log_temperatures(self, log_proba: FloatArray, features: FloatArray) -> FloatArray:
        """Return what is added to the logarithm (n,) of the global temperature."""
        network, found = TemperatureNetwork(self.coefs_, self.intercepts_), np.empty(len(log_proba))
        widest = max(log_proba.shape[1] + features.shape[1], *map(len, self.intercepts_))
        for rows in row_blocks((len(found), widest), large=True):
            raw = self._raw_inputs(log_proba[rows], features[rows])
            found[rows] = network.log_temperatures(self._standard(raw))
        return found

    def _raw_inputs(self, log_proba: FloatArray, features: FloatArray) -> FloatArray:
        if self.reads == "features":
            return features
        falling = -np.sort(-log_proba, axis=1)[:, : self.n_top]
        return falling if self.reads == "logits" else np.hstack([falling, features])

    def _standard(self, raw: FloatArray) -> FloatArray:
        standard = standardized(raw, self.input_mean_, self.input_scale_)
        return np.clip(standard, -_FURTHEST, _FURTHEST)
