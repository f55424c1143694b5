"""Decisions by expected cost."""

from __future__ import annotations

from numbers import Real
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone, is_classifier
from sklearn.frozen import FrozenEstimator
from sklearn.utils import get_tags
from sklearn.utils._metadata_requests import UNUSED
from sklearn.utils._param_validation import HasMethods, Interval
from sklearn.utils.metadata_routing import (
    MetadataRouter,
    MethodMapping,
    _routing_enabled,
    process_routing,
)
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_y, _num_samples, check_is_fitted

from skcal._validation import (
    FloatArray,
    check_proba,
    check_weights,
    encode_labels,
    resolve_classes,
)
from skcal.calibrated._scores import name_of
from skcal.metrics._decisions.cost_matrix import (
    cheapest,
    check_costs,
    expected_costs,
    realised_costs,
    refer_label_of,
    with_refer,
)


class CostSensitiveClassifier(ClassifierMixin, MetaEstimatorMixin, BaseEstimator):
    r"""Take the action of least expected cost.

    With the probabilities :math:`p_k` of a classifier and the cost :math:`C_{ka}` of action
    :math:`a` when the truth is class :math:`k`, the action is

    .. math:: \arg\min_a \sum_k p_k \, C_{ka}.

    For two classes this is a threshold on the probability [1]_; with a cost for referring a
    row to someone else it is Chow's rule [2]_. No threshold is tuned: the costs imply it, if
    the probabilities are calibrated. With other costs only ``predict`` changes.

    Parameters
    ----------
    estimator : classifier
        Any classifier with ``predict_proba``, best a calibrated one. Wrap a fitted one in
        :class:`sklearn.frozen.FrozenEstimator`; any other is cloned and fitted.
    cost_matrix : array-like, dict, DataFrame or callable, default=None
        Costs, in any unit; gains are negative. None is a cost of 1 for each wrong class.

        - An array of shape (n_classes, n_actions): **rows are truths and columns actions**,
          as in a confusion matrix, with classes in the order of ``classes_``.
        - A dict ``{truth: {action: cost}}``, or a DataFrame with the truths in its index and
          the actions in its columns, in any order. Rows of classes that the estimator does
          not know are left out.
        - A function of ``X``, as the estimator sees it, that returns an array of shape
          (n_samples, n_classes, n_actions): costs that differ from row to row, such as the
          amount of a transaction.
    actions : array-like of shape (n_actions,), default=None
        What the columns of an array stand for; by default the classes. Tables name their
        actions themselves.
    refer_cost : float, default=None
        Cost of one more action, whatever the truth is: to refer the row to someone else.
        None is no such action.
    refer_label : str or number, default=None
        What ``predict`` returns where referring is cheapest; of the kind of the other
        actions. None is "refer", or -1 where actions are numbers.

    Attributes
    ----------
    estimator_ : classifier
        The fitted estimator.
    classes_ : ndarray of shape (n_classes,)
        Class labels, the columns of ``predict_proba``.
    actions_ : ndarray of shape (n_actions,)
        Names of the actions, the columns of ``expected_cost``. Referring is the last one.
    cost_matrix_ : ndarray of shape (n_classes, n_actions) or None
        The costs, in the order of ``classes_`` and ``actions_``. None where they come from a
        function.
    n_features_in_ : int
        Number of columns, if the estimator tells it.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Column names, if the estimator tells them.

    See Also
    --------
    skcal.CalibratedClassifier : Probabilities that such decisions need.
    skcal.metrics.mean_cost : What decisions cost.
    sklearn.model_selection.TunedThresholdClassifierCV : Searches a threshold on held-out rows.

    Notes
    -----
    Where actions cost the same, the first one is taken; costs that differ by less than 1e-12
    of the greatest count as the same.

    Adding a number to the costs of a class changes no decision. What an action costs under a
    class that it suits need not be zero.

    References
    ----------
    .. [1] C. Elkan, "The Foundations of Cost-Sensitive Learning", IJCAI, 2001. (There, rows
       of the matrix are predictions and columns truths.)
    .. [2] C. K. Chow, "On Optimum Recognition Error and Reject Tradeoff", IEEE Transactions
       on Information Theory, 1970.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.model_selection import train_test_split
    >>> from sklearn.naive_bayes import GaussianNB
    >>> from skcal import CalibratedClassifier, CostSensitiveClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0)
    >>> costs = [[0, 20], [1, 0]]  # to take a malignant tumour (0) for benign (1) costs 20
    >>> model = CalibratedClassifier(GaussianNB(), "isotonic")
    >>> careful = CostSensitiveClassifier(model, costs, refer_cost=0.5).fit(X_train, y_train)
    >>> careful.expected_cost(X_test).shape
    (143, 3)
    >>> careful.decide(X_test[:2])
    array([0, 1], dtype=object)
    >>> bool(0 < (careful.predict(X_test) == -1).mean() < 0.3)  # the share that is referred
    True
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "estimator": [HasMethods(["fit"])],
        "cost_matrix": ["array-like", dict, callable, None],
        "actions": ["array-like", None],
        "refer_cost": [Interval(Real, None, None, closed="neither"), None],
        "refer_label": [str, Real, None],
    }

    # Weights are for the estimator; nothing else in ``fit`` uses them.
    __metadata_request__fit: ClassVar[dict[str, str]] = {"sample_weight": UNUSED}

    def __init__(
        self,
        estimator: Any,
        cost_matrix: Any = None,
        *,
        actions: ArrayLike | None = None,
        refer_cost: float | None = None,
        refer_label: Any = None,
    ) -> None:
        self.estimator = estimator
        self.cost_matrix = cost_matrix
        self.actions = actions
        self.refer_cost = refer_cost
        self.refer_label = refer_label

    def fit(
        self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None, **fit_params: Any
    ) -> Self:
        """Fit the estimator and check the costs.

        Parameters
        ----------
        X : DataFrame or array-like of shape (n_samples, n_features)
            Handed to the estimator as it is.
        y : array-like of shape (n_samples,)
            Labels of any kind.
        sample_weight : array-like of shape (n_samples,), optional
            Handed to the estimator's ``fit``.
        **fit_params
            Handed to the estimator's ``fit``.

        Returns
        -------
        self

        Raises
        ------
        TypeError
            If the estimator has no ``predict_proba``.
        ValueError
            If the costs do not fit the classes, or `refer_label` the actions.
        """
        self._validate_params()
        self.__dict__.pop("estimator_", None)  # a failed fit leaves no model behind
        if y is None:
            raise ValueError(
                f"{type(self).__name__} requires y to be passed, but the target y is None."
            )
        if not is_classifier(self.estimator):
            raise ValueError(
                f"{name_of(self.estimator)} is not a classifier; costs are weighed by the "
                "probabilities of classes."
            )
        if not hasattr(self.estimator, "predict_proba"):
            raise TypeError(
                f"{name_of(self.estimator)} has no predict_proba. CalibratedClassifier makes "
                "probabilities of its scores; wrap it in one."
            )
        labels: NDArray[Any] = _check_y(y, estimator=self)
        check_classification_targets(labels)
        # Mistakes in the costs should come to light before a long training, not after it.
        frozen = isinstance(self.estimator, FrozenEstimator) and hasattr(self.estimator, "classes_")
        self._resolve(X, self.estimator.classes_ if frozen else np.unique(labels))
        estimator = clone(self.estimator).fit(X, labels, **self._route(sample_weight, fit_params))
        self.classes_ = estimator.classes_
        values, self._labels, self.actions_ = self._resolve(X, self.classes_)
        self.cost_matrix_ = None if callable(self.cost_matrix) else values
        for name in ("n_features_in_", "feature_names_in_"):
            if hasattr(estimator, name):
                setattr(self, name, getattr(estimator, name))
            elif hasattr(self, name):  # of an earlier fit
                delattr(self, name)
        self.estimator_ = estimator
        return self

    def predict_proba(self, X: Any) -> FloatArray:
        """Return the estimator's probabilities.

        Parameters
        ----------
        X : DataFrame or array-like of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            Columns in the order of ``classes_``.
        """
        check_is_fitted(self)
        return self.estimator_.predict_proba(X)

    def expected_cost(self, X: Any) -> FloatArray:
        """Return what each action costs in expectation.

        Parameters
        ----------
        X : DataFrame or array-like of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, n_actions), float64
            Columns in the order of ``actions_``, in the unit of the costs.
        """
        return self._weigh(X)[0]

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the action of least expected cost.

        Parameters
        ----------
        X : DataFrame or array-like of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,)
            Classes, or other actions if the costs name any, and `refer_label`.
        """
        chosen = cheapest(*self._weigh(X))
        return self._labels[chosen]

    def decide(self, X: Any) -> NDArray[Any]:
        """Return the names of the actions of least expected cost.

        They are those of ``predict``, but that referring is called "refer" among numbers, too.

        Parameters
        ----------
        X : DataFrame or array-like of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,), object
            Values of ``actions_``.
        """
        chosen = cheapest(*self._weigh(X))
        return self.actions_[chosen]

    def score(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
        """Return the mean cost of the decisions, negated: greater is better.

        This is what searches maximise by default, instead of the accuracy, which knows
        neither costs nor referring. Scores under different costs cannot be compared.

        Parameters
        ----------
        X : DataFrame or array-like of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
            True labels.
        sample_weight : array-like of shape (n_samples,), optional
            Non-negative weights.

        Returns
        -------
        float
            In the unit of the costs.

        Raises
        ------
        ValueError
            If `y` holds a class the estimator does not know.
        """
        expected, values = self._weigh(X)
        resolve_classes(y, len(self.classes_), self.classes_)
        codes = encode_labels(y, self.classes_)
        realised = realised_costs(codes, cheapest(expected, values), values)
        return -float(np.average(realised, weights=check_weights(sample_weight, codes)))

    def get_metadata_routing(self) -> MetadataRouter:
        """Return the routing of ``fit`` parameters to the estimator."""
        return (
            MetadataRouter(owner=type(self).__name__)
            .add_self_request(self)
            .add(
                estimator=self.estimator,
                method_mapping=MethodMapping().add(caller="fit", callee="fit"),
            )
        )

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "estimator_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        inner = get_tags(self.estimator).input_tags
        tags.input_tags.sparse = inner.sparse
        tags.input_tags.allow_nan = inner.allow_nan
        return tags

    def _weigh(self, X: Any) -> tuple[FloatArray, FloatArray]:
        """Return the expected costs of some rows and the costs behind them."""
        proba = check_proba(self.predict_proba(X), name="predict_proba(X)")
        values = self.cost_matrix_
        if values is None:
            values = self._resolve(X, self.classes_)[0]
        return expected_costs(proba, values), values

    def _resolve(
        self, X: Any, classes: NDArray[Any]
    ) -> tuple[FloatArray, NDArray[Any], NDArray[Any]]:
        """Return the costs with those of referring, what to predict, and the actions' names."""
        given = self.cost_matrix
        if callable(given):
            given = np.asarray(given(X))
            if given.ndim != 3:
                raise ValueError(
                    "cost_matrix(X) must return an array of shape (n_samples, n_classes, "
                    f"n_actions); got {given.shape}."
                )
        values, actions = check_costs(given, classes, self.actions, n_rows=_num_samples(X))
        names = actions.astype(object)
        if self.refer_cost is None:
            if self.refer_label is not None:
                raise ValueError(
                    f"refer_label={self.refer_label!r} needs a refer_cost: without one, no row "
                    "is ever referred."
                )
            return values, actions, names
        label = refer_label_of(actions, self.refer_label)
        name = label if isinstance(label, str) else "refer"
        values = with_refer(values, self.refer_cost)
        return values, _append_label(actions, label), np.append(names, name)

    def _route(self, sample_weight: ArrayLike | None, fit_params: dict[str, Any]) -> dict[str, Any]:
        """Return what the estimator's ``fit`` gets."""
        offered = {"sample_weight": sample_weight, **fit_params}
        offered = {name: value for name, value in offered.items() if value is not None}
        if _routing_enabled():
            return dict(process_routing(self, "fit", **offered).estimator.fit)
        return offered


def _append_label(actions: NDArray[Any], label: Any) -> NDArray[Any]:
    """Return the actions and one more value of their kind."""
    if actions.dtype.kind in "OU":
        fits, kind = isinstance(label, str), "a string"
    else:
        fits, kind = isinstance(label, Real) and float(label).is_integer(), "a whole number"
    if actions.dtype.kind == "b" or isinstance(label, bool):
        raise ValueError(
            f"There is no third truth value for referring (refer_label={label!r}); name the "
            "actions with actions=..., or encode the classes as 0 and 1."
        )
    if not fits:
        raise ValueError(
            f"refer_label must be {kind}, as the actions {actions.tolist()} are; got {label!r}."
        )
    return np.append(actions, np.array([label], dtype="O" if actions.dtype.kind == "O" else None))
