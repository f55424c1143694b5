"""Several networks that differ by their seeds, and answer as one."""

from __future__ import annotations

from collections.abc import Iterator
from numbers import Integral
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin
from sklearn.utils import _safe_indexing, check_random_state, get_tags, indexable
from sklearn.utils._metadata_requests import UNUSED
from sklearn.utils._param_validation import HasMethods, Interval, StrOptions
from sklearn.utils.metadata_routing import (
    MetadataRouter,
    MethodMapping,
    _routing_enabled,
    process_routing,
)
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.parallel import Parallel, delayed
from sklearn.utils.validation import _check_y, _num_samples, check_is_fitted

from skcal._rows import FloatArray, log_softmax
from skcal._validation import check_weights
from skcal.calibrated._folds import as_log
from skcal.calibrated._scores import read_scores
from skcal.neural._disagreement import disagreement
from skcal.neural._members import (
    check_classes,
    check_member,
    check_takes_weights,
    fit_member,
    seeded,
    source_of,
    warn_of_copies,
)
from skcal.neural.mlp import NeSCalMLP

# Training rows on which members are asked what they can tell, and compared.
_COMPARED = 50


class DeepEnsembleClassifier(ClassifierMixin, MetaEstimatorMixin, BaseEstimator):
    r"""Train the same network several times from different seeds, and average.

    A deep ensemble [1]_: each member sees all rows, and differs from the others by its
    initial weights, the order of its batches, and the rows it holds out to stop. It costs M
    times the training and the prediction of one member, and is what cheaper ways to better
    probabilities are measured against.

    Parameters
    ----------
    estimator : classifier, default=None
        The member: any classifier or pipeline with ``predict_proba`` and a ``random_state``
        in itself or in its parts. It is cloned, and each ``random_state`` of a copy is
        replaced by a seed of its own. None is ``NeSCalMLP(preset="fast", smoothing=0)``, a
        single network trained on the cross-entropy.
    n_members : int, default=5
        Number of members, M.
    averaging : {"proba", "logit"}, default="proba"
        The mean of the members' probabilities, or of their logits: the geometric mean of the
        probabilities, divided by its sum.
    n_jobs : int, default=None
        Members trained at the same time.
    random_state : int, RandomState instance or None, default=None
        Draws the members' seeds, one after the other: the members of a smaller ensemble are
        the first of a greater one.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Class labels.
    estimators_ : list of classifiers
        The fitted members.
    n_features_in_ : int
        Number of columns, if the members tell it.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Column names, if the members tell them.

    See Also
    --------
    NeSCalMLP : Its ``n_members`` train together and share weights, at less cost.
    skcal.CalibratedClassifier : Calibrates an ensemble like any other classifier.

    Notes
    -----
    On any rows, the log-loss of the average is at most the mean log-loss of the members, for
    both kinds of average: the loss is convex in either. It may be greater than that of the
    best member.

    **An average is less sure than its members**: the entropy of the mean probability exceeds
    their mean entropy by what ``disagreement`` returns. The mean probability of calibrated
    members is under-confident where they differ [2]_, so calibrate the ensemble, and not
    only its members.

    Members are bit for bit the same for every ``n_jobs``, as far as they are for every number
    of threads: worker processes may give torch fewer threads than the main process has.

    References
    ----------
    .. [1] B. Lakshminarayanan, A. Pritzel and C. Blundell, "Simple and Scalable Predictive
       Uncertainty Estimation using Deep Ensembles", NeurIPS 2017.
    .. [2] R. Ranjan and T. Gneiting, "Combining probability forecasts", Journal of the Royal
       Statistical Society B, 2010.

    Examples
    --------
    >>> from skcal import DeepEnsembleClassifier, NeSCalMLP
    >>> from skcal.datasets import make_calibration_data
    >>> X, y, _ = make_calibration_data(600, random_state=0)
    >>> member = NeSCalMLP(preset="fast", smoothing=0, max_epochs=5)
    >>> model = DeepEnsembleClassifier(member, n_members=3, random_state=0).fit(X[:400], y[:400])
    >>> model.predict_proba(X[400:]).shape
    (200, 2)
    >>> model.predict_proba(X[400:], per_member=True).shape
    (200, 3, 2)
    >>> model.disagreement(X[400:]).shape
    (200,)
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "estimator": [HasMethods(["fit"]), None],
        "n_members": [Interval(Integral, 1, None, closed="left")],
        "averaging": [StrOptions({"proba", "logit"})],
        "n_jobs": [Integral, None],
        "random_state": ["random_state"],
    }

    # Weights are for the members; nothing else in ``fit`` uses them.
    __metadata_request__fit: ClassVar[dict[str, str]] = {"sample_weight": UNUSED}

    def __init__(
        self,
        estimator: Any = None,
        *,
        n_members: int = 5,
        averaging: str = "proba",
        n_jobs: int | None = None,
        random_state: Any = None,
    ) -> None:
        self.estimator = estimator
        self.n_members = n_members
        self.averaging = averaging
        self.n_jobs = n_jobs
        self.random_state = random_state

    def fit(
        self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None, **fit_params: Any
    ) -> Self:
        """Train the members, each on all rows.

        Parameters
        ----------
        X : DataFrame or array-like of shape (n_samples, n_features)
            Handed to the members as it is.
        y : array-like of shape (n_samples,)
            Labels of any kind.
        sample_weight : array-like of shape (n_samples,), optional
            Handed to the members' ``fit``.
        **fit_params
            Handed to the members' ``fit``.

        Returns
        -------
        self

        Raises
        ------
        TypeError
            If the estimator has no ``predict_proba``.
        ValueError
            If there are weights and the estimator takes none, or if it has no
            ``random_state``, so that its copies would all be the same. A failed ``fit``
            leaves the ensemble unfitted.
        """
        self.__dict__.pop("estimators_", None)  # a failed fit leaves no model behind
        self._validate_params()
        if y is None:
            raise ValueError(
                f"{type(self).__name__} requires y to be passed, but the target y is None."
            )
        member = self._member()
        check_member(member, self.n_members)
        X, y = indexable(X, y)
        labels: NDArray[Any] = _check_y(y, estimator=self)
        check_classification_targets(labels)
        known = np.unique(labels)
        if len(known) < 2:
            raise ValueError(
                f"{type(self).__name__} needs at least two classes; the data holds "
                + (f"one class, {known.tolist()[0]!r}." if len(known) else "no row.")
            )
        params = self._route(member, X, sample_weight, fit_params)
        rng = check_random_state(self.random_state)
        members = [seeded(member, rng) for _ in range(self.n_members)]
        fitted = Parallel(n_jobs=self.n_jobs)(
            delayed(fit_member)(one, X, labels, params) for one in members
        )
        check_classes(fitted)
        rows = np.unique(np.linspace(0, _num_samples(X) - 1, _COMPARED).astype(int))
        probe = _safe_indexing(X, rows)
        # What further rows hold must not change what is read of them.
        sources = [source_of(one, probe) for one in fitted]
        warn_of_copies(fitted, probe)
        self.classes_ = fitted[0].classes_
        for name in ("n_features_in_", "feature_names_in_"):
            if hasattr(fitted[0], name):
                setattr(self, name, getattr(fitted[0], name))
            elif hasattr(self, name):  # of an earlier fit
                delattr(self, name)
        self._sources, self._averaging = sources, self.averaging
        self.estimators_ = fitted
        return self

    def predict_proba(self, X: Any, *, per_member: bool = False) -> FloatArray:
        """Return the mean of the members' probabilities, arithmetic or geometric.

        Parameters
        ----------
        X : DataFrame or array-like of shape (n_samples, n_features)
        per_member : bool, default=False
            Return the members' own probabilities instead.

        Returns
        -------
        ndarray of shape (n_samples, n_classes), float64
            Columns in the order of ``classes_``; rows sum to one. With ``per_member``, of
            shape (n_samples, n_members, n_classes), in the order of ``estimators_``.
        """
        return np.exp(self._stack(X) if per_member else self.predict_logits(X))

    def predict_logits(self, X: Any) -> FloatArray:
        """Return the logarithms of the averaged probabilities: what a calibrator should get.

        Parameters
        ----------
        X : DataFrame or array-like of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, n_classes), float64
            From the members' exact logits where they have any, and from their probabilities
            otherwise, of which an exact zero counts as 2.2e-308.
        """
        check_is_fitted(self)
        answers = self._log_proba(X)
        total = next(answers).copy()
        for log_proba in answers:
            if self._averaging == "logit":
                total += log_proba
            else:
                np.logaddexp(total, log_proba, out=total)
        if self._averaging == "logit":
            total /= len(self.estimators_)
        return log_softmax(total)

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the class of the greatest averaged probability.

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

    def disagreement(self, X: Any) -> FloatArray:
        r"""Return how much the members disagree on each row, in nats.

        The entropy of the mean probability less the mean entropy of the members' [1]_,

        .. math:: H\Big(\frac1M \sum_m p_m\Big) - \frac1M \sum_m H(p_m).

        It is the part of the uncertainty that comes from not knowing which member is right,
        and 0 where all are equally unsure. The mean is that of probabilities, also with
        ``averaging="logit"``.

        Parameters
        ----------
        X : DataFrame or array-like of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,), float64
            From 0, where all members say the same, to ln M, where each is sure of another
            class.

        References
        ----------
        .. [1] L. Smith and Y. Gal, "Understanding Measures of Uncertainty for Adversarial
           Example Detection", UAI 2018.
        """
        return disagreement(self._stack(X))

    def get_metadata_routing(self) -> MetadataRouter:
        """Return the routing of ``fit`` parameters to the members."""
        return (
            MetadataRouter(owner=type(self).__name__)
            .add_self_request(self)
            .add(
                estimator=self._member(),
                method_mapping=MethodMapping().add(caller="fit", callee="fit"),
            )
        )

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "estimators_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        inner = get_tags(self._member()).input_tags
        tags.input_tags.sparse = inner.sparse
        tags.input_tags.allow_nan = inner.allow_nan
        return tags

    def _member(self) -> Any:
        if self.estimator is None:
            return NeSCalMLP(preset="fast", smoothing=0)
        return self.estimator

    def _log_proba(self, X: Any) -> Iterator[FloatArray]:
        """Yield each member's log-probabilities (n, K)."""
        for member, source in zip(self.estimators_, self._sources, strict=True):
            yield log_softmax(as_log(read_scores(member, X, source)))

    def _stack(self, X: Any) -> FloatArray:
        check_is_fitted(self)
        return np.stack(list(self._log_proba(X)), axis=1)

    def _route(
        self, member: Any, X: Any, sample_weight: ArrayLike | None, fit_params: dict[str, Any]
    ) -> dict[str, Any]:
        """Return what the members' ``fit`` gets."""
        weights = None if sample_weight is None else check_weights(sample_weight, X)
        offered = {"sample_weight": weights, **fit_params}
        offered = {name: value for name, value in offered.items() if value is not None}
        if _routing_enabled():
            return dict(process_routing(self, "fit", **offered).estimator.fit)
        if weights is not None:
            check_takes_weights(member)
        return offered
