"""Any classifier with any calibrator."""

import warnings
from numbers import Integral
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone, is_classifier
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import check_cv
from sklearn.utils import Bunch, _safe_indexing, get_tags, indexable
from sklearn.utils._param_validation import HasMethods, StrOptions
from sklearn.utils.metadata_routing import (
    MetadataRouter,
    MethodMapping,
    _routing_enabled,
    process_routing,
)
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.parallel import Parallel, delayed
from sklearn.utils.validation import (
    _check_method_params,
    _check_y,
    _num_samples,
    check_is_fitted,
    has_fit_parameter,
)

from skcal._scores import Scores, known_classes, name_of, read_scores
from skcal._validation import (
    TINY,
    FloatArray,
    check_scores,
    check_weights,
    encode_labels,
    log_probabilities,
)
from skcal.calibration import BaseCalibrator, make_calibrator
from skcal.calibration._base import mean_log_loss

_FOLDS = 5
# Below this mean log-loss a frozen model is suspected of knowing its calibration rows.
_SUSPICIOUS_LOSS = 0.01
_SUSPICIOUS_ROWS = 30


class CalibratedClassifier(ClassifierMixin, MetaEstimatorMixin, BaseEstimator):
    """Calibrate a classifier on rows that it was not trained on.

    The estimator is cross-fitted (each row is scored by a model that did not see it), or it
    is frozen, and then every row given to ``fit`` is a calibration row.

    Parameters
    ----------
    estimator : classifier
        Any scikit-learn classifier. Wrap a fitted one in
        :class:`sklearn.frozen.FrozenEstimator`.
    calibrator : str or calibrator, default="temperature"
        "temperature", "sigmoid" (on log-odds), "isotonic", or an instance from
        :mod:`skcal.calibration`, whose parameter ``input`` is set to the kind of score that
        is read from the estimator. Any other object with ``fit(scores, y, sample_weight,
        classes=...)`` and ``predict_proba(scores)`` is given probabilities.
    cv : int, splitter, iterable of (train, test) or "prefit", default=None
        None is 5 stratified folds, or as many as the rarest class has rows if they are
        fewer. "prefit" treats ``estimator`` as frozen.
    ensemble : bool or "auto", default="auto"
        True keeps one model and one map per fold and averages their probabilities. False
        fits one map on the out-of-fold scores of all rows, and one final model on all rows.
        "auto" is True, and has no meaning for a frozen estimator.
    response : {"auto", "logits", "decision_function", "predict_proba"}, default="auto"
        What is read from the estimator. "auto" takes ``predict_logits`` if there is one,
        then ``decision_function`` if it has one column per class (or one, for two classes),
        then ``predict_proba``.
    n_jobs : int, default=None
        Folds fitted at the same time.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Class labels.
    calibrated_classifiers_ : list of Bunch(estimator, calibrator)
        One pair per fold, or a single one.
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
    A frozen model calibrated on its own training rows looks perfect there and is not
    calibrated at all. There is a warning when its log-loss on 30 or more calibration rows is
    below 0.01 nats, which held-out rows rarely give.

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
        "cv": ["cv_object", StrOptions({"prefit"})],
        "ensemble": ["boolean", StrOptions({"auto"})],
        "response": [StrOptions({"auto", "logits", "decision_function", "predict_proba"})],
        "n_jobs": [Integral, None],
    }

    def __init__(
        self,
        estimator: Any,
        calibrator: Any = "temperature",
        *,
        cv: Any = None,
        ensemble: Any = "auto",
        response: str = "auto",
        n_jobs: int | None = None,
    ) -> None:
        self.estimator = estimator
        self.calibrator = calibrator
        self.cv = cv
        self.ensemble = ensemble
        self.response = response
        self.n_jobs = n_jobs

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
        self._validate_params()
        self.__dict__.pop("calibrated_classifiers_", None)  # a failed fit leaves no model behind
        if y is None:
            raise ValueError(
                f"{type(self).__name__} requires y to be passed, but the target y is None."
            )
        X, y = indexable(X, y)
        y = _check_y(y, estimator=self)
        check_classification_targets(y)
        if _num_samples(X) == 0:
            raise ValueError("Found array with 0 sample(s) while a minimum of 1 is required.")
        if not is_classifier(self.estimator):
            raise ValueError(
                f"{name_of(self.estimator)} is not a classifier; only classifiers are calibrated."
            )
        weights = None if sample_weight is None else check_weights(sample_weight, X)
        template = make_calibrator(self.calibrator)
        if self.cv == "prefit" or isinstance(self.estimator, FrozenEstimator):
            pairs = [self._fit_frozen(X, y, weights, template)]
        else:
            pairs = self._fit_cross(X, y, weights, template, groups, fit_params)
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
        mean = np.zeros((_num_samples(X), len(self.classes_)))
        for pair in self.calibrated_classifiers_:
            scores = read_scores(pair.estimator, X, self.response)
            known = encode_labels(pair.estimator.classes_, self.classes_)
            mean[:, known] += pair.calibrator.predict_proba(_as_input(pair.calibrator, scores))
        return mean / len(self.calibrated_classifiers_)

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

    def get_metadata_routing(self) -> MetadataRouter:
        """Return the routing of ``fit`` parameters to the estimator and the splitter."""
        return (
            MetadataRouter(owner=type(self).__name__)
            .add_self_request(self)
            .add(
                estimator=self.estimator,
                method_mapping=MethodMapping().add(caller="fit", callee="fit"),
            )
            .add(splitter=self.cv, method_mapping=MethodMapping().add(caller="fit", callee="split"))
        )

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "calibrated_classifiers_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        inner = get_tags(self.estimator).input_tags
        tags.input_tags.sparse = inner.sparse
        tags.input_tags.allow_nan = inner.allow_nan
        return tags

    # -- the two ways to fit ---------------------------------------------------------------

    def _fit_frozen(self, X: Any, y: Any, weights: FloatArray | None, template: Any) -> Bunch:
        check_is_fitted(self.estimator)
        known = known_classes(self.estimator)
        unknown = np.setdiff1d(y, known)
        if len(unknown):
            raise ValueError(
                f"The calibration rows hold class {unknown.tolist()[0]!r}, which the fitted "
                f"estimator does not know (its classes are {known.tolist()}). Remove those rows, "
                "or train the estimator with the class."
            )
        scores = read_scores(self.estimator, X, self.response)
        calibrator = _fit_calibrator(template, scores, y, weights, known)
        counted = np.ones(len(y)) if weights is None else weights
        loss = mean_log_loss(_as_log(scores), encode_labels(y, known), counted)
        if loss < _SUSPICIOUS_LOSS and len(y) >= _SUSPICIOUS_ROWS:
            warnings.warn(
                f"The frozen estimator predicts its {len(y)} calibration rows almost without error "
                f"(log-loss {loss:.2g}). If it was trained on them, nothing is calibrated: use "
                "rows that it has not seen.",
                UserWarning,
                stacklevel=3,
            )
        self.classes_ = np.unique(known)
        return Bunch(estimator=self.estimator, calibrator=calibrator)

    def _fit_cross(
        self,
        X: Any,
        y: Any,
        weights: FloatArray | None,
        template: Any,
        groups: ArrayLike | None,
        fit_params: dict[str, Any],
    ) -> list[Bunch]:
        self.classes_ = np.unique(y)
        if len(self.classes_) < 2:
            raise ValueError(
                f"{type(self).__name__} needs at least two classes; the data holds one class, "
                f"{self.classes_.tolist()[0]!r}."
            )
        estimator_params, split_params = self._route(weights, groups, fit_params)
        splits = self._splits(X, y, split_params)
        parallel = Parallel(n_jobs=self.n_jobs)
        if self.ensemble in ("auto", True):
            return parallel(
                delayed(_fit_pair)(
                    clone(self.estimator),
                    template,
                    X,
                    y,
                    train,
                    test,
                    weights,
                    estimator_params,
                    self.response,
                )
                for train, test in splits
            )
        held_out = parallel(
            delayed(_score_held_out)(
                clone(self.estimator),
                X,
                y,
                train,
                test,
                estimator_params,
                self.response,
                self.classes_,
            )
            for train, test in splits
        )
        total, counts = np.zeros((len(y), len(self.classes_))), np.zeros(len(y))
        for (_, test), part in zip(splits, held_out, strict=True):
            np.add.at(total, test, part.values)
            np.add.at(counts, test, 1)
        # A splitter need not score every row (time series), nor only once (repeated folds).
        scored = counts > 0
        scores = Scores(total[scored] / counts[scored, None], held_out[0].kind)
        calibrator = _fit_calibrator(
            template, scores, y[scored], None if weights is None else weights[scored], self.classes_
        )
        final = _fit_estimator(clone(self.estimator), X, y, np.arange(len(y)), estimator_params)
        return [Bunch(estimator=final, calibrator=calibrator)]

    def _route(
        self, weights: FloatArray | None, groups: ArrayLike | None, fit_params: dict[str, Any]
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return what the estimator's ``fit`` and the splitter get."""
        if _routing_enabled():
            offered = {"sample_weight": weights, "groups": groups, **fit_params}
            offered = {name: value for name, value in offered.items() if value is not None}
            routed = process_routing(self, "fit", **offered)
            return dict(routed.estimator.fit), dict(routed.splitter.split)
        estimator_params = dict(fit_params)
        if weights is not None:
            if has_fit_parameter(self.estimator, "sample_weight"):
                estimator_params["sample_weight"] = weights
            else:
                warnings.warn(
                    f"{type(self.estimator).__name__} takes no sample_weight: it is trained "
                    "without weights, and only the calibrator uses them.",
                    UserWarning,
                    stacklevel=4,
                )
        return estimator_params, {} if groups is None else {"groups": groups}

    def _splits(self, X: Any, y: Any, split_params: dict[str, Any]) -> list[tuple[Any, Any]]:
        """Return the folds, having checked that each can be scored."""
        if hasattr(self.cv, "__next__"):
            raise ValueError(
                "cv is a generator, which can be read only once; pass the splitter itself, or "
                "cv=list(splitter.split(X, y))."
            )
        classes, counts = np.unique(y, return_counts=True)
        rarest = f"class {classes.tolist()[int(counts.argmin())]!r} has {counts.min()}"
        if self.cv is None and counts.min() < 2:
            raise ValueError(
                "Calibrating by cross-validation needs at least 2 samples of each class, but "
                f"{rarest}. Merge or remove the rare class."
            )
        if isinstance(self.cv, Integral) and counts.min() < self.cv:
            raise ValueError(
                f"{self.cv}-fold cross-validation needs at least {self.cv} samples of each class, "
                f"but {rarest}. Use a smaller cv, or merge or remove the rare class."
            )
        folds = min(_FOLDS, int(counts.min())) if self.cv is None else self.cv
        cv = check_cv(folds, y, classifier=True)
        splits = list(cv.split(X, y, **split_params))
        for fold, (train, test) in enumerate(splits, start=1):
            if len(np.intersect1d(train, test)):
                raise ValueError(
                    f"Fold {fold} calibrates on rows that it also trains on; use a splitter whose "
                    "training and test parts have no row in common."
                )
            unknown = np.setdiff1d(y[test], y[train])
            if len(unknown):
                raise ValueError(
                    f"Class {unknown.tolist()[0]!r} is not in the training part of fold {fold}, so "
                    "the model of that fold cannot score it. Use a stratified or shuffled splitter."
                )
        return splits


def _as_log(scores: Scores) -> FloatArray:
    return log_probabilities(check_scores(scores.values, input=scores.kind), input=scores.kind)


def _as_input(calibrator: Any, scores: Scores) -> Any:
    """Return scores of the kind that a calibrator reads; someone else's reads probabilities."""
    if isinstance(calibrator, BaseCalibrator) or scores.kind == "proba":
        return scores.values
    return np.exp(_as_log(scores))


def _fit_calibrator(
    template: Any, scores: Scores, y: Any, weights: FloatArray | None, classes: NDArray[Any]
) -> Any:
    calibrator = clone(template, safe=False)
    if isinstance(calibrator, BaseCalibrator):
        calibrator.set_params(input=scores.kind)
    return calibrator.fit(_as_input(calibrator, scores), y, weights, classes=classes)


def _fit_estimator(estimator: Any, X: Any, y: Any, rows: Any, fit_params: dict[str, Any]) -> Any:
    params = _check_method_params(X, fit_params, indices=rows)
    return estimator.fit(_safe_indexing(X, rows), _safe_indexing(y, rows), **params)


def _fit_pair(
    estimator: Any,
    template: Any,
    X: Any,
    y: Any,
    train: Any,
    test: Any,
    weights: FloatArray | None,
    fit_params: dict[str, Any],
    response: str,
) -> Bunch:
    estimator = _fit_estimator(estimator, X, y, train, fit_params)
    scores = read_scores(estimator, _safe_indexing(X, test), response)
    held_out = None if weights is None else weights[test]
    calibrator = _fit_calibrator(template, scores, y[test], held_out, known_classes(estimator))
    return Bunch(estimator=estimator, calibrator=calibrator)


def _score_held_out(
    estimator: Any,
    X: Any,
    y: Any,
    train: Any,
    test: Any,
    fit_params: dict[str, Any],
    response: str,
    classes: NDArray[Any],
) -> Scores:
    """Return probabilities or log-probabilities of the held-out rows, over all classes."""
    estimator = _fit_estimator(estimator, X, y, train, fit_params)
    scores = read_scores(estimator, _safe_indexing(X, test), response)
    values, unknown = (
        (_as_log(scores), np.log(TINY))
        if scores.kind == "logits"
        else (check_scores(scores.values, input="proba"), 0.0)
    )
    full = np.full((len(test), len(classes)), unknown)
    full[:, encode_labels(known_classes(estimator), classes)] = values
    return Scores(full, scores.kind)
