"""What decisions cost."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_consistent_length

from skcal._validation import IntArray, check_labels, check_weights, encode_labels
from skcal.metrics._decisions.cost_matrix import (
    check_costs,
    realised_costs,
    refer_label_of,
    with_refer,
)


def mean_cost(
    y_true: ArrayLike,
    y_pred: ArrayLike,
    cost_matrix: Any = None,
    *,
    actions: ArrayLike | None = None,
    refer_cost: float | None = None,
    refer_label: Any = None,
    sample_weight: ArrayLike | None = None,
    labels: ArrayLike | None = None,
) -> float:
    r"""Return the mean cost per row of decisions, given what was true.

    .. math:: \frac{1}{\sum_i w_i} \sum_i w_i \, C_{y_i, a_i}

    with :math:`C_{ka}` the cost of action :math:`a` when the truth is class :math:`k`.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        True labels.
    y_pred : array-like of shape (n_samples,)
        The action taken on each row: a class, another action, or `refer_label`.
    cost_matrix : array-like, dict or DataFrame, default=None
        Costs, in any unit; gains are negative. None is a cost of 1 for each wrong class.

        - An array of shape (n_classes, n_actions): **rows are truths and columns actions**,
          as in a confusion matrix. Or of shape (n_samples, n_classes, n_actions), where each
          row of data has its own costs.
        - A dict ``{truth: {action: cost}}``, or a DataFrame with the truths in its index and
          the actions in its columns.
    actions : array-like of shape (n_actions,), optional
        What the columns of an array stand for; by default the classes.
    refer_cost : float, optional
        Cost of one more action, whatever the truth is: to refer the row to someone else.
    refer_label : object, optional
        The value in `y_pred` that stands for referring; by default "refer", or -1 where
        actions are numbers.
    sample_weight : array-like of shape (n_samples,), optional
        Non-negative weights.
    labels : array-like of shape (n_classes,), optional
        The class of each row of an array. Needed only where `y_true` lacks a class.

    Returns
    -------
    float
        Mean cost per row, in the unit of the costs.

    Raises
    ------
    ValueError
        If the costs do not fit the classes, or `y_pred` holds something that has no cost.

    See Also
    --------
    skcal.CostSensitiveClassifier : Takes the action of least expected cost.

    Notes
    -----
    The mean over independent rows has no bias. Its standard error falls with the root of the
    number of rows, and is large where a rare class is dear.

    References
    ----------
    .. [1] C. Elkan, "The Foundations of Cost-Sensitive Learning", IJCAI, 2001. (There, rows
       of the matrix are predictions and columns truths.)

    Examples
    --------
    >>> from skcal.metrics import mean_cost
    >>> costs = {"bad": {"lend": 5, "decline": 0}, "good": {"lend": 0, "decline": 1}}
    >>> mean_cost(["bad", "good", "good", "bad"], ["lend", "lend", "decline", "decline"], costs)
    1.5
    >>> mean_cost([0, 1, 1], [0, -1, 0], refer_cost=0.25)
    0.4166666666666667
    """
    check_consistent_length(y_true, y_pred)
    truths = check_labels(y_true, name="y_true")
    weights = check_weights(sample_weight, truths)
    classes = _classes_of(truths, cost_matrix, labels)
    costs = check_costs(cost_matrix, classes, actions, n_rows=len(truths))
    values, names = costs.values, costs.actions.tolist()
    if refer_cost is not None:
        names.append(refer_label_of(costs.actions, refer_label))
        values = with_refer(values, refer_cost)
    realised = realised_costs(encode_labels(truths, classes), _columns(y_pred, names), values)
    return float(np.average(realised, weights=weights))


def _classes_of(truths: NDArray[Any], cost_matrix: Any, labels: ArrayLike | None) -> NDArray[Any]:
    """Return the class of each row of the costs."""
    found = np.unique(truths)
    if labels is None:
        height = np.shape(cost_matrix)[-2:-1]
        if height and not hasattr(cost_matrix, "columns") and height[0] != len(found):
            raise ValueError(
                f"cost_matrix has {height[0]} rows but y_true holds {len(found)} classes, "
                f"{found.tolist()}; name the class of each row (labels=...)."
            )
        return found
    classes = check_labels(labels, name="labels")
    unknown = np.setdiff1d(found, classes)
    if len(unknown):
        raise ValueError(
            f"y_true holds class {unknown.tolist()[0]!r}, which is not among "
            f"labels={classes.tolist()}."
        )
    return classes


def _columns(y_pred: ArrayLike, names: list[Any]) -> IntArray:
    """Return the column of each action; the names may be of different kinds."""
    taken = np.asarray(y_pred, dtype=object)
    if taken.ndim != 1:
        raise ValueError(f"y_pred must be one-dimensional; got shape {taken.shape}.")
    columns = np.full(taken.shape, -1, dtype=np.intp)
    for column, name in enumerate(names):
        columns[taken == name] = column
    if (columns < 0).any():
        row = int(np.argmax(columns < 0))
        raise ValueError(
            f"y_pred holds {taken[row]!r} in row {row}, an action without a cost; there are "
            f"costs for {names}. Referring has one with refer_cost=..."
        )
    return columns
