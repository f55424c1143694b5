"""Local calibration by vector quantisation: "Divide et Calibra"."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from skcal._validation import FloatArray, Input, IntArray
from skcal.calibration._fitting.folds import deal_folds
from skcal.calibration._local.additive import Additive, fit_additive
from skcal.calibration._local.base import LocalCalibrator
from skcal.calibration._local.indexed_dirichlet import IndexedDirichlet, fit_indexed_dirichlet
from skcal.calibration._local.quantized_head import Head, fit_head, held_out_log_proba
from skcal.calibration._local.quantizer import Codebook, Quantizer, fit_quantizer

# Slots and codewords that "auto" tries, as far as there are columns: one map per region, and
# compositions of few codewords, whose number of regions is large.
_GRID = ((1, 8), (1, 16), (4, 4), (8, 2), (8, 4), (16, 2), (16, 4), (64, 2))
_HEAD_FOLDS = 5


class Regions(NamedTuple):
    """Regions with rows: the most frequent first."""

    codes: IntArray
    n_rows: IntArray
    temperature: FloatArray


class VQDirichletCalibration(LocalCalibrator):
    r"""Calibrate region by region, regions being composed of codewords (vector quantisation).

    Standardised features are cut into S slots of neighbouring columns, and each slot is told by
    the nearest of its K codewords: :math:`K^S` regions, whose maps are composed of S K factors.

    Parameters
    ----------
    n_slots : int or "auto", default="auto"
        S. "auto" chooses S and K together, by cross-validated log-loss.
    n_codewords : int or "auto", default="auto"
        K.
    parameterization : {"additive", "dirichlet"}, default="additive"
        How factors compose a map. "additive", which is ours: sums in the space of logits, a
        convex problem, with temperature scaling for its limit. "dirichlet", published: indexed
        concentrations; see the notes.
    scale : {"scalar", "diagonal"}, default="scalar"
        Whether additive factors are temperatures, or one number for each class.
    codebook : {"per_slot", "shared"}, default="per_slot"
        Codewords for each slot, or one set for all slots, as published.
    base : {"model", "quantized_head"}, default="model"
        What is calibrated: the classifier's scores; or, as published, those of a linear model
        of the codewords, which takes the classifier's place.
    published : bool, default=False
        With "dirichlet": the formula of the authors' code, whose normaliser is not that of its
        concentrations.
    reg_scale, reg_bias : float, default=10.0
        Strengths of the additive map's ridge, in rows.
    max_iter : int, default=500
        Most iterations of L-BFGS (additive).
    lr : float, default=1e-3
        Learning rate of Adam (dirichlet).
    max_epochs : int, default=100
        Most epochs (dirichlet).
    batch_size : int, default=128
        Rows per step (dirichlet).
    n_iter_no_change : int, default=10
        Epochs without a better log-loss on held-out rows, after which it stops (dirichlet).
    validation_fraction : float, default=0.15
        Share of the rows held out for that.
    fallback : bool, default=True
        Stay with temperature scaling unless the local map has a log-loss that is lower on
        held-out rows by more than a standard error; by more of them if several settings were
        tried.
    cv : int, default=3
        Folds of that comparison, and of the choice of S and K; of 20,000 rows at most.
    random_state : int, RandomState instance or None, default=None
        Seeds k-means and Adam.
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
        "n_slots" and "n_codewords".
    cv_results_ : dict
        "settings", and "gain", the log-loss in nats that each takes off the temperature's on
        held-out rows; if there was anything to choose.
    feature_mean_, feature_scale_ : ndarray of shape (n_columns,)
        What standardises the features.
    slots_ : list of ndarray
        Columns of each slot.
    codebooks_ : list of ndarray of shape (n_codewords, columns of the slot)
        Codewords of each slot.
    usage_ : ndarray of shape (n_slots, n_codewords)
        Share of the rows that each codeword stands for.
    scales_, biases_ : ndarray of shape (n_slots, n_codewords, 1 or n_classes)
        Factors and shifts of the additive map.
    left_, right_, log_prior_ : ndarray
        Vectors of the codewords and prior of the Dirichlet map.
    head_coef_, head_intercept_ : ndarray of shape (columns, n_classes) and (n_classes,)
        The linear model of the quantised features, with ``base="quantized_head"``.
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
        Iterations or epochs of the local map.
    converged_ : bool
        Whether the optimum was reached.
    loss_, baseline_loss_ : float
        Mean log-loss in nats on the rows of ``fit``, after and before calibration.

    See Also
    --------
    TemperatureScaling : The same map everywhere.
    LocalTemperatureScaling : A temperature that is a smooth function of the features.

    Notes
    -----
    With :math:`l = \ln \mathrm{softmax}(z / T)` of the temperature-scaled scores and the
    codewords :math:`v_s` of a row, the additive map is

    .. math:: q = \mathrm{softmax}\Big( \big(1 + \textstyle\sum_s t_{s, v_s}\big)\, l
              + \sum_s c_{s, v_s} \Big),

    fitted by penalised log-loss: a multinomial logistic model of codes and scores. The
    Dirichlet map takes :math:`\alpha(x) = \mathrm{softplus}(\sum_s a_{v_s} b_{v_s}^\top)` and is
    the posterior of the class where the scores of class j are distributed as
    :math:`\mathrm{Dirichlet}(\alpha_{\cdot j} + e_j)`. It begins at the identity, is not
    convex, and on a few thousand rows is hard to train.

    References
    ----------
    "Divide et Calibra: Multiclass Local Calibration via Vector Quantization",
    arXiv:2605.21060.

    Examples
    --------
    >>> import numpy as np
    >>> from skcal.calibration import VQDirichletCalibration
    >>> rng = np.random.default_rng(0)
    >>> Z = rng.normal(size=(2000, 4))  # where each row lies
    >>> p = 1 / (1 + np.exp(-3 * Z[:, 1]))
    >>> y = rng.random(2000) < np.where(Z[:, 0] > 0, p, 0.5 + 0.2 * (p - 0.5))
    >>> local = VQDirichletCalibration(n_slots=4, n_codewords=2, random_state=0)
    >>> local.fit(p, y, features=Z).is_local_
    True
    >>> local.predict_proba(p, features=Z).shape
    (2000, 2)
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **LocalCalibrator._parameter_constraints,
        "n_slots": [StrOptions({"auto"}), Interval(Integral, 1, None, closed="left")],
        "n_codewords": [StrOptions({"auto"}), Interval(Integral, 1, None, closed="left")],
        "parameterization": [StrOptions({"additive", "dirichlet"})],
        "scale": [StrOptions({"scalar", "diagonal"})],
        "codebook": [StrOptions({"per_slot", "shared"})],
        "base": [StrOptions({"model", "quantized_head"})],
        "published": ["boolean"],
        "reg_scale": [Interval(Real, 0, None, closed="left")],
        "reg_bias": [Interval(Real, 0, None, closed="left")],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "lr": [Interval(Real, 0, None, closed="neither")],
        "max_epochs": [Interval(Integral, 1, None, closed="left")],
        "batch_size": [Interval(Integral, 1, None, closed="left")],
        "n_iter_no_change": [Interval(Integral, 1, None, closed="left")],
        "validation_fraction": [Interval(Real, 0, 1, closed="neither")],
    }

    def __init__(
        self,
        n_slots: Any = "auto",
        n_codewords: Any = "auto",
        *,
        parameterization: Literal["additive", "dirichlet"] = "additive",
        scale: Literal["scalar", "diagonal"] = "scalar",
        codebook: Codebook = "per_slot",
        base: Literal["model", "quantized_head"] = "model",
        published: bool = False,
        reg_scale: float = 10.0,
        reg_bias: float = 10.0,
        max_iter: int = 500,
        lr: float = 1e-3,
        max_epochs: int = 100,
        batch_size: int = 128,
        n_iter_no_change: int = 10,
        validation_fraction: float = 0.15,
        fallback: bool = True,
        cv: int = 3,
        random_state: Any = None,
        input: Input = "proba",
        eps: Any = "auto",
    ) -> None:
        super().__init__(fallback=fallback, cv=cv, random_state=random_state, input=input, eps=eps)
        self.n_slots = n_slots
        self.n_codewords = n_codewords
        self.parameterization = parameterization
        self.scale = scale
        self.codebook = codebook
        self.base = base
        self.published = published
        self.reg_scale = reg_scale
        self.reg_bias = reg_bias
        self.max_iter = max_iter
        self.lr = lr
        self.max_epochs = max_epochs
        self.batch_size = batch_size
        self.n_iter_no_change = n_iter_no_change
        self.validation_fraction = validation_fraction

    def transform(self, features: ArrayLike) -> IntArray:
        """Return the region of each row.

        Parameters
        ----------
        features : array-like of shape (n_samples, n_columns)

        Returns
        -------
        ndarray of shape (n_samples, n_slots)
            The number of the codeword in each slot. Without a column if the map fell back on
            the temperature: then there are no regions.
        """
        check_is_fitted(self)
        table = self._check_fitted_features(features)
        if not self.is_local_:
            return np.empty((len(table), 0), dtype=np.intp)
        return self._quantizer().codes(table)

    def regions(self, features: ArrayLike) -> Regions:
        """Return the regions that some rows lie in, with their temperatures.

        Parameters
        ----------
        features : array-like of shape (n_samples, n_columns)

        Returns
        -------
        Regions(codes, n_rows, temperature)
            Arrays of shape (n_regions, n_slots), (n_regions,) and (n_regions,), the most
            frequent region first; with ``scale="diagonal"`` a temperature for each class.
            NaN where the map turns the order of the scores round, which no temperature does.

        Raises
        ------
        ValueError
            If the map is not additive: a Dirichlet map has no temperatures.
        """
        codes, count = np.unique(self.transform(features), axis=0, return_counts=True)
        order = np.argsort(-count, kind="stable")
        codes, count = codes[order], count[order]
        if not self.is_local_:
            return Regions(codes, count, np.full(len(count), self.temperature_))
        if self.parameterization != "additive":
            raise ValueError(
                "A map of parameterization='dirichlet' has no temperatures; transform gives the "
                "regions."
            )
        slots = np.arange(codes.shape[1])
        factor = 1.0 + self.scales_[slots, codes].sum(axis=1)
        # A factor of zero or below: no scores, or those of the other order.
        temperature = self.temperature_ / np.where(factor > 0, factor, np.nan)
        return Regions(codes, count, temperature[:, 0] if self.scale == "scalar" else temperature)

    # -- the map -------------------------------------------------------------------------

    def _candidates(self, features: FloatArray, n_classes: int) -> list[dict[str, Any]]:
        n_columns = features.shape[1]
        if self.n_slots != "auto" and self.n_slots > n_columns:
            raise ValueError(
                f"n_slots={self.n_slots} is more than there are columns of features, {n_columns}."
            )
        grid = {
            (
                min(slots, n_columns) if self.n_slots == "auto" else self.n_slots,
                codewords if self.n_codewords == "auto" else self.n_codewords,
            )
            for slots, codewords in _GRID
        }
        return [{"n_slots": slots, "n_codewords": codewords} for slots, codewords in sorted(grid)]

    def _fit_local(
        self, log_proba: FloatArray, codes: IntArray, weights: FloatArray, features: FloatArray
    ) -> None:
        n_slots, n_codewords = self.settings_["n_slots"], self.settings_["n_codewords"]
        quantizer = fit_quantizer(
            features,
            weights,
            n_slots=n_slots,
            n_codewords=n_codewords,
            codebook=self.codebook,
            seed=self._seed,
        )
        self.feature_mean_, self.feature_scale_, self.slots_, self.codebooks_ = quantizer
        places = quantizer.codes(features)
        self.usage_ = np.array(
            [np.bincount(slot, weights, minlength=n_codewords) / weights.sum() for slot in places.T]
        )
        if self.base == "quantized_head":
            # The map is fitted on what heads say of rows that they have not seen.
            vectors, n_classes = quantizer.vectors(places), log_proba.shape[1]
            folds = deal_folds(log_proba, codes, min(_HEAD_FOLDS, len(codes)))
            log_proba = held_out_log_proba(vectors, codes, weights, folds, n_classes)
            self.head_coef_, self.head_intercept_ = fit_head(vectors, codes, weights, n_classes)
        if self.parameterization == "additive":
            additive, self.n_iter_, self.converged_ = fit_additive(
                log_proba,
                codes,
                weights,
                places,
                n_codewords,
                diagonal=self.scale == "diagonal",
                reg_scale=self.reg_scale,
                reg_bias=self.reg_bias,
                max_iter=self.max_iter,
            )
            self.scales_, self.biases_ = additive
            return
        dirichlet, self.n_iter_ = fit_indexed_dirichlet(
            log_proba,
            codes,
            weights,
            self._vectors_of(places),
            n_codewords * (1 if self.codebook == "shared" else n_slots),
            published=self.published,
            lr=self.lr,
            max_epochs=self.max_epochs,
            batch_size=self.batch_size,
            patience=self.n_iter_no_change,
            validation_fraction=self.validation_fraction,
            seed=self._seed,
        )
        self.left_, self.right_, self.log_prior_, _ = dirichlet

    def _transform_local(self, log_proba: FloatArray, features: FloatArray) -> FloatArray:
        quantizer = self._quantizer()
        places = quantizer.codes(features)
        if self.base == "quantized_head":
            head = Head(self.head_coef_, self.head_intercept_)
            log_proba = head.log_proba(quantizer.vectors(places))
        if self.parameterization == "additive":
            return Additive(self.scales_, self.biases_).scores(log_proba, places)
        dirichlet = IndexedDirichlet(self.left_, self.right_, self.log_prior_, self.published)
        return dirichlet.scores(log_proba, self._vectors_of(places))

    def _quantizer(self) -> Quantizer:
        return Quantizer(self.feature_mean_, self.feature_scale_, self.slots_, self.codebooks_)

    def _vectors_of(self, places: IntArray) -> IntArray:
        """Return where the vectors of each slot's codeword are: slots that share have the same."""
        if self.codebook == "shared":
            return places
        return places + self.settings_["n_codewords"] * np.arange(places.shape[1])
