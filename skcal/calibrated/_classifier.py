"""Any classifier with any calibrator."""

from __future__ import annotations

from collections.abc import Iterator
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, is_classifier
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import GroupShuffleSplit
from sklearn.utils import get_tags, indexable
from sklearn.utils._param_validation import HasMethods, Interval, StrOptions
from sklearn.utils.metadata_routing import (
    MetadataRouter,
    MethodMapping,
)
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import (
    _check_y,
    _num_samples,
    check_is_fitted,
)

from skcal._validation import FloatArray, IntArray, check_weights, encode_labels
from skcal.calibrated._features import check_features
from skcal.calibrated._folds import answer, fit_folds, fit_single, read_rows
from skcal.calibrated._frozen import fit_frozen
from skcal.calibrated._pooling import Pool, find_pooling_temperature
from skcal.calibrated._routing import route_params
from skcal.calibrated._scores import known_classes, name_of
from skcal.calibrated._splits import check_cv_number, is_share, make_splits
from skcal.calibrated._validation_fold import check_validation_fold
from skcal.calibration import make_calibrator


def _gives_intervals(model: CalibratedClassifier) -> bool:
    """Tell whether the calibrator has ``predict_interval``."""
    try:
        return hasattr(make_calibrator(model.calibrator), "predict_interval")
    except (TypeError, ValueError):  # no calibrator: ``fit`` says so
        return False


class CalibratedClassifier(ClassifierMixin, MetaEstimatorMixin, BaseEstimator):
    r"""Calibrate a classifier on rows that it was not trained on.

    The estimator is cross-fitted (each row is scored by a model that did not see it), or
    fitted once with a share of the rows held out, or it is frozen, and then every row given
    to ``fit`` is a calibration row.

    Parameters
    ----------
    estimator : classifier
        Any scikit-learn classifier. Wrap a fitted one in
        :class:`sklearn.frozen.FrozenEstimator`.
    calibrator : str or calibrator, default="temperature"
        A name that :func:`~skcal.calibration.make_calibrator` knows ("temperature", "sigmoid",
        "isotonic", "beta", "sms", "auto", ...), or an instance from
        :mod:`skcal.calibration`, whose parameter ``input`` is set to the kind of score that
        is read from the estimator. Any other object with ``fit(scores, y, sample_weight,
        classes=...)`` and ``predict_proba(scores)`` is given probabilities.
    cv : int, float, splitter, iterable of (train, test) or "prefit", default=None
        None is 5 stratified folds, or as many as the rarest class has rows if they are
        fewer. A float in (0, 1) is the share of rows held out once, of each class, or whole
        groups if ``fit`` is given ``groups``: one model is fitted on the rest and stays the
        model, so that the map belongs to it. "prefit" treats ``estimator`` as frozen.
    ensemble : bool or "auto", default="auto"
        True keeps one model and one map per fold and pools their probabilities. False
        fits one map on the out-of-fold scores of all rows, and one final model on all rows.
        "auto" is True. It has no meaning for a frozen estimator or a single hold-out.
    response : {"auto", "logits", "decision_function", "predict_proba"}, default="auto"
        What is read from the estimator. "auto" takes exact logits if there are any
        (``predict_logits``, or the raw scores of LightGBM, XGBoost and CatBoost), then
        ``decision_function`` if it has one column per class (or one, for two classes),
        then ``predict_proba``. "logits" takes exact logits only, or a ``decision_function``
        whose softmax is ``predict_proba``; this is tried on twenty rows.
    features : {"auto", "embedding", "input"}, callable or transformer, default="auto"
        What a local calibrator (:class:`~skcal.calibration.LocalCalibrator`) is told of each
        row beside its scores. "embedding": the penultimate layer of the network. "input": the
        table, encoded by a :class:`~skcal.TabularEncoder` that is fitted on the rows that train
        the model (on the calibration rows, if it is frozen). Or a transformer, which is cloned
        and fitted on the same rows, or a function of the table. "auto" is the embedding where
        there is one, and it is one network's; else the input.
    pooling : {"proba", "logit"}, default="proba"
        How the folds' probabilities are pooled: their mean, or their geometric mean (the mean
        of logits), divided by its sum.
    validation_fold : bool, default=False
        Whether the held-out rows also tell an estimator when to stop its training. They are
        handed to its ``fit`` as ``X_val=, y_val=`` or ``eval_set=[(X, y)]``, whichever it
        takes; in a pipeline, to the last step, transformed by the steps before. The
        same rows then stop the training and fit the map, which is warned of.
    n_jobs : int, default=None
        Folds fitted at the same time.
    random_state : int, RandomState instance or None, default=None
        Draws the rows held out if ``cv`` is a float.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Class labels.
    calibrated_classifiers_ : list of Bunch(estimator, calibrator, source, reader)
        One pair per fold, or a single one, and what is read from the estimator; the reader of
        features is None unless the calibrator is local.
    pooling_temperature_ : float
        Divides the pooled logits, to undo what pooling does to the folds' confidence. 1.0
        where this cannot be measured: with a single model, no row held out twice, or a local
        calibrator.
    n_features_in_ : int
        Number of columns, if the estimator tells it.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Column names, if the estimator tells them.

    See Also
    --------
    skcal.calibration : The maps alone, for scores that are already at hand.
    sklearn.calibration.CalibratedClassifierCV : What it stands in for.

    Notes
    -----
    **Pooling.** Errors of calibrated models cancel in part when they are pooled, so that the
    pool is right more often than it says. Where a splitter holds out rows r > 1 times
    (``RepeatedStratifiedKFold``), the pool of the r models that did not see a row shows by how
    much: the best temperature :math:`T_r` of these pools, extrapolated to all M models by

    .. math:: \ln T = \ln T_r \, (1 - 1/M) \, / \, (1 - 1/r),

    divides the pooled logits. Plain folds hold out each row once, and cannot show it.

    **A frozen model calibrated on its own training rows** looks perfect there and is not
    calibrated at all. There is a warning when its log-loss on 30 or more calibration rows is
    below 0.01 nats, or when it makes no error on them although its own probabilities give
    that a chance below 1e-9. Over-fitted networks and boosted trees are caught by the first
    rule, forests by the second, unless the classes are so easy to tell apart that a forest
    would be as sure of new rows. A model that errs on its own training rows is not caught.

    Examples
    --------
    >>> from sklearn.naive_bayes import GaussianNB
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.model_selection import train_test_split
    >>> from skcal import CalibratedClassifier
    >>> from skcal.metrics import log_loss
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0)
    >>> raw = GaussianNB().fit(X_train, y_train)
    >>> calibrated = CalibratedClassifier(GaussianNB()).fit(X_train, y_train)
    >>> round(log_loss(y_test, raw.predict_proba(X_test)), 2)
    0.41
    >>> round(log_loss(y_test, calibrated.predict_proba(X_test)), 2)
    0.13

    A model that is already fitted, with rows kept for calibration:

    >>> from sklearn.frozen import FrozenEstimator
    >>> frozen = CalibratedClassifier(FrozenEstimator(raw), "isotonic").fit(X_test, y_test)
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "estimator": [HasMethods(["fit"])],
        "calibrator": [str, HasMethods(["fit", "predict_proba"])],
        "cv": ["cv_object", StrOptions({"prefit"}), Interval(Real, 0, 1, closed="neither")],
        "ensemble": ["boolean", StrOptions({"auto"})],
        "response": [StrOptions({"auto", "logits", "decision_function", "predict_proba"})],
        "features": [
            StrOptions({"auto", "embedding", "input"}),
            callable,
            HasMethods(["fit", "transform"]),
        ],
        "pooling": [StrOptions({"proba", "logit"})],
        "validation_fold": ["boolean"],
        "n_jobs": [Integral, None],
        "random_state": ["random_state"],
    }

    def __init__(
        self,
        estimator: Any,
        calibrator: Any = "temperature",
        *,
        cv: Any = None,
        ensemble: Any = "auto",
        response: str = "auto",
        features: Any = "auto",
        pooling: str = "proba",
        validation_fold: bool = False,
        n_jobs: int | None = None,
        random_state: Any = None,
    ) -> None:
        self.estimator = estimator
        self.calibrator = calibrator
        self.cv = cv
        self.ensemble = ensemble
        self.response = response
        self.features = features
        self.pooling = pooling
        self.validation_fold = validation_fold
        self.n_jobs = n_jobs
        self.random_state = random_state

    def fit(
        self,
        X: Any,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        *,
        groups: ArrayLike | None = None,
        **fit_params: Any,
    ) -> Self:
        """Fit the estimator and the calibrator.

        Parameters
        ----------
        X : DataFrame or array-like of shape (n_samples, n_features)
            Handed to the estimator as it is.
        y : array-like of shape (n_samples,)
            Labels of any kind.
        sample_weight : array-like of shape (n_samples,), optional
            Weights of the rows in the calibrator, and in the estimator if it takes any. The
            calibrators count in rows: weights that sum to one are one row.
        groups : array-like of shape (n_samples,), optional
            Handed to the splitter.
        **fit_params
            Handed to the estimator's ``fit``; arrays with one entry per row are split with
            the rows.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            If a class that is to be calibrated is unknown to the model that scores it.
        """
        self.__dict__.pop("calibrated_classifiers_", None)  # a failed fit leaves no model behind
        check_cv_number(self.cv)
        self._validate_params()
        if y is None:
            raise ValueError(
                f"{type(self).__name__} requires y to be passed, but the target y is None."
            )
        X, y = indexable(X, y)
        labels: NDArray[Any] = _check_y(y, estimator=self)
        check_classification_targets(labels)
        if _num_samples(X) == 0:
            raise ValueError("Found array with 0 sample(s) while a minimum of 1 is required.")
        if not is_classifier(self.estimator):
            raise ValueError(
                f"{name_of(self.estimator)} is not a classifier; only classifiers are calibrated."
            )
        weights = None if sample_weight is None else check_weights(sample_weight, X)
        template = make_calibrator(self.calibrator)
        frozen = self.cv == "prefit" or isinstance(self.estimator, FrozenEstimator)
        once = is_share(self.cv)
        if self.validation_fold:
            check_validation_fold(
                self.estimator, frozen=frozen, refitted=self.ensemble is False and not once
            )
        check_features(
            self.features,
            template,
            stacked=not frozen and self.ensemble is False and not once,
        )
        temperature = 1.0
        if frozen:
            if fit_params:
                raise TypeError(
                    f"A frozen estimator is not fitted, and takes no {sorted(fit_params)[0]!r}; "
                    "fit takes X, y and sample_weight."
                )
            pairs = [
                fit_frozen(
                    self.estimator, template, X, labels, weights, self.response, self.features
                )
            ]
            classes = np.unique(known_classes(self.estimator))
        else:
            classes = np.unique(labels)
            if len(classes) < 2:
                raise ValueError(
                    f"{type(self).__name__} needs at least two classes; the data holds one class, "
                    f"{classes.tolist()[0]!r}."
                )
            params, split_params = route_params(self, weights, groups, fit_params)
            splits = make_splits(self.cv, X, labels, split_params, self.random_state)
            if self.ensemble is False and not once:
                pairs = [fit_single(self, template, X, labels, splits, weights, params, classes)]
            else:
                pairs, scores = fit_folds(self, template, X, labels, splits, weights, params)
                temperature = find_pooling_temperature(
                    pairs, splits, scores, labels, weights, classes, self.pooling
                )
        self.classes_ = classes
        self.pooling_temperature_ = temperature
        self.calibrated_classifiers_ = pairs
        first = pairs[0].estimator
        for name in ("n_features_in_", "feature_names_in_"):
            if hasattr(first, name):
                setattr(self, name, getattr(first, name))
            elif hasattr(self, name):  # of an earlier fit
                delattr(self, name)
        return self

    def predict_proba(self, X: Any) -> FloatArray:
        """Return calibrated probabilities.

        Parameters
        ----------
        X : DataFrame or array-like of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, n_classes), float64
            Columns in the order of ``classes_``; rows sum to one.
        """
        check_is_fitted(self)
        pool = Pool((_num_samples(X), len(self.classes_)), self.pooling)
        for proba, columns in self._answers(X, "predict_proba"):
            pool.add(proba, slice(None), columns)
        return pool.proba(self.pooling_temperature_)

    @available_if(_gives_intervals)
    def predict_interval(self, X: Any) -> FloatArray:
        """Return lower and upper probabilities, if the calibrator gives such intervals.

        Those of several folds are merged as in cross Venn-Abers prediction [1]_, by geometric
        means of the upper probabilities and of the complements of the lower ones. Where folds
        differ by more than their intervals are wide, these two cross, and are put in order.
        With two classes and ``pooling="logit"`` the published probability of the merged
        interval is ``predict_proba``; otherwise the interval is widened to hold it.

        Parameters
        ----------
        X : DataFrame or array-like of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, n_classes, 2), float64
            Lower and upper probability of each class, in the order of ``classes_``.
            ``pooling_temperature_`` plays no part in them.

        References
        ----------
        .. [1] V. Vovk, I. Petej and V. Fedorova, "Large-scale probabilistic predictors with
           and without guarantees of validity", NeurIPS 2015.
        """
        check_is_fitted(self)
        shape = (_num_samples(X), len(self.classes_))
        upper, doubt = Pool(shape, "logit"), Pool(shape, "logit")
        for bounds, columns in self._answers(X, "predict_interval"):
            upper.add(bounds[..., 1], slice(None), columns)
            doubt.add(1.0 - bounds[..., 0], slice(None), columns)
        ends = [1.0 - np.exp(doubt.mean()), np.exp(upper.mean()), self.predict_proba(X)]
        return np.stack([np.min(ends, axis=0), np.max(ends, axis=0)], axis=2)

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the most probable class of each row.

        Parameters
        ----------
        X : DataFrame or array-like of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,)
            Values of ``classes_``.
        """
        codes = self.predict_proba(X).argmax(axis=1)
        return self.classes_[codes]

    def set_params(self, **params: Any) -> Self:
        """Set parameters, also those of the estimator and of the calibrator.

        A calibrator that is given by name becomes an instance when one of its own parameters
        (``calibrator__shrinkage``) is set.
        """
        nested = any(name.startswith("calibrator__") for name in params)
        calibrator = params.get("calibrator", self.calibrator)
        if nested and isinstance(calibrator, str):
            params["calibrator"] = make_calibrator(calibrator)
        return super().set_params(**params)

    def get_metadata_routing(self) -> MetadataRouter:
        """Return the routing of ``fit`` parameters to the estimator and the splitter."""
        return (
            MetadataRouter(owner=type(self).__name__)
            .add_self_request(self)
            .add(
                estimator=self.estimator,
                method_mapping=MethodMapping().add(caller="fit", callee="fit"),
            )
            .add(
                splitter=GroupShuffleSplit() if is_share(self.cv) else self.cv,
                method_mapping=MethodMapping().add(caller="fit", callee="split"),
            )
        )

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "calibrated_classifiers_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        inner = get_tags(self.estimator).input_tags
        tags.input_tags.sparse = inner.sparse
        tags.input_tags.allow_nan = inner.allow_nan
        return tags

    def _answers(self, X: Any, method: str) -> Iterator[tuple[FloatArray, IntArray]]:
        """Yield each calibrator's answer and the columns that it is about."""
        for pair in self.calibrated_classifiers_:
            scores = read_rows(pair.estimator, X, pair.source, pair.reader)
            columns = encode_labels(pair.estimator.classes_, self.classes_)
            yield answer(pair.calibrator, scores, method), columns
