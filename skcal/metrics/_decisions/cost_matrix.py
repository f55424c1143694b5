"""Cost matrices of any spelling as arrays, and what follows from them.

Rows are truths and columns are actions, as in a confusion matrix.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from skcal._validation import FloatArray, IntArray, check_labels

# Expected costs that differ by less than this share of the greatest cost count as equal:
# rounding must not choose between actions that cost the same.
_TOLERANCE = 1e-12


class Costs(NamedTuple):
    """A checked cost matrix.

    Attributes
    ----------
    values : ndarray of shape (n_classes, n_actions) or (n_samples, n_classes, n_actions)
    actions : ndarray of shape (n_actions,)
        What the columns stand for.
    """

    values: FloatArray
    actions: NDArray[Any]


def check_costs(
    cost_matrix: Any,
    classes: NDArray[Any],
    actions: ArrayLike | None = None,
    *,
    n_rows: int | None = None,
    name: str = "cost_matrix",
) -> Costs:
    """Return the costs of actions (columns) under each class (rows) as an array.

    Parameters
    ----------
    cost_matrix : array-like, dict of dicts, DataFrame or None
        None is a cost of 1 for each wrong class. Of a dict, ``{truth: {action: cost}}``, and
        a DataFrame the rows are found by class; rows of further classes are left out, as a
        part of a table may lack a class.
    classes : ndarray of shape (n_classes,)
    actions : array-like of shape (n_actions,), optional
        What the columns of an array stand for; by default the classes.
    n_rows : int, optional
        The rows of data that costs of shape (n_samples, n_classes, n_actions) must have.
    name : str, default="cost_matrix"
        What to call the argument in error messages.

    Raises
    ------
    ValueError
        If the shape does not fit, a class is missing, or a cost is no finite number.
    """
    if cost_matrix is None:
        values: FloatArray = 1.0 - np.eye(len(classes))
    elif isinstance(cost_matrix, Mapping) or hasattr(cost_matrix, "columns"):
        if actions is not None:
            raise ValueError(f"{name} names its actions itself; leave actions=None.")
        values, actions = _from_table(cost_matrix, classes, name)
    else:
        values = _as_costs(cost_matrix, name)
    if values.ndim not in (2, 3) or values.shape[-2] != len(classes) or values.shape[-1] == 0:
        raise ValueError(
            f"{name} must have one row per class, {len(classes)} in the order of "
            f"{classes.tolist()}, and one column per action; got shape {values.shape}."
        )
    if values.ndim == 3 and len(values) != n_rows:
        raise ValueError(f"{name} holds costs of {len(values)} rows; the data has {n_rows}.")
    named = _action_names(actions, classes, values.shape[-1], name)
    wrong = ~np.isfinite(values)
    if wrong.any():
        place = np.argwhere(wrong)[0]
        truth, action = classes.tolist()[place[-2]], named.tolist()[place[-1]]
        raise ValueError(
            f"{name} must hold finite costs; that of action {action!r} under class {truth!r} is "
            f"{values[tuple(place)]}. Give an action that must not be taken a very high cost."
        )
    return Costs(values, named)


def _as_costs(costs: Any, name: str) -> FloatArray:
    try:
        return np.asarray(costs, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"{name} must hold one number for each class (row) and action (column) ({error})."
        ) from error


def _from_table(
    table: Any, classes: NDArray[Any], name: str
) -> tuple[FloatArray, NDArray[Any] | None]:
    """Return the rows of the classes of a dict of dicts or a DataFrame, and the actions."""
    if not isinstance(table, Mapping):
        if table.index.has_duplicates or table.columns.has_duplicates:
            raise ValueError(f"{name} names a class or an action twice.")
        values = _as_costs(table, name)
        table = {
            truth: dict(zip(table.columns.tolist(), row, strict=True))
            for truth, row in zip(table.index.tolist(), values, strict=True)
        }
    missing = [label for label in classes.tolist() if label not in table]
    if missing:
        raise ValueError(
            f"{name} has no row for class {missing[0]!r}; it needs one for each of "
            f"{classes.tolist()} and has {list(table)}. Rows are truths, columns actions."
        )
    rows = [table[label] for label in classes.tolist()]
    if not all(isinstance(row, Mapping) for row in rows):
        raise ValueError(f"{name} must be a dict of dicts, {{truth: {{action: cost}}}}.")
    actions = list(rows[0])
    for label, row in zip(classes.tolist(), rows, strict=True):
        if set(row) != set(actions):
            raise ValueError(
                f"Each class in {name} needs a cost for the same actions; class {label!r} has "
                f"{list(row)}, class {classes.tolist()[0]!r} has {actions}."
            )
    if set(actions) == set(classes.tolist()):
        actions = classes.tolist()
    values = _as_costs([[row[action] for action in actions] for row in rows], name)
    return values, classes if actions == classes.tolist() else np.array(actions, dtype=object)


def _action_names(
    actions: ArrayLike | None, classes: NDArray[Any], n_actions: int, name: str
) -> NDArray[Any]:
    if actions is None or actions is classes:
        if n_actions != len(classes):
            raise ValueError(
                f"{name} has {n_actions} columns for {len(classes)} classes; name the action of "
                "each column, as in actions=['approve', 'review', 'reject']."
            )
        return classes
    # As objects, so that numpy does not make strings of numbers among them.
    named = check_labels(np.asarray(actions, dtype=object), name="actions")
    if named.dtype.kind == "O":
        named = np.array(named.tolist())  # strings of one length, as scikit-learn likes them
    if len(named) != n_actions:
        raise ValueError(f"{name} has {n_actions} columns but {len(named)} actions are named.")
    if len(np.unique(named)) != len(named):
        raise ValueError(f"The actions must be distinct; got {named.tolist()}.")
    return named


def expected_costs(proba: FloatArray, values: FloatArray) -> FloatArray:
    """Return the cost (n, n_actions) of each action that the probabilities (n, K) promise."""
    if values.ndim == 2:
        return proba @ values
    return np.einsum("nk,nka->na", proba, values)


def realised_costs(codes: IntArray, chosen: IntArray, values: FloatArray) -> FloatArray:
    """Return what the chosen actions (n,) cost under the true classes (n,)."""
    if values.ndim == 2:
        return values[codes, chosen]
    return values[np.arange(len(codes)), codes, chosen]


def cheapest(expected: FloatArray, values: FloatArray) -> IntArray:
    """Return the first of the actions (n, n_actions) of least expected cost."""
    scale = np.abs(values).max() if values.ndim == 2 else np.abs(values).max(axis=(1, 2))
    reach = expected.min(axis=1) + _TOLERANCE * scale
    return (expected <= reach[:, None]).argmax(axis=1)


def refer_label_of(actions: NDArray[Any], refer_label: Any) -> Any:
    """Return the value that stands for referring: by default "refer", or -1 among numbers.

    Raises
    ------
    ValueError
        If an action is called so already.
    """
    if refer_label is None:
        refer_label = "refer" if actions.dtype.kind in "OSU" else -1
    if refer_label in actions.tolist():
        raise ValueError(
            f"refer_label must differ from the actions {actions.tolist()}; {refer_label!r} is one "
            "of them. Choose another."
        )
    return refer_label


def with_refer(values: FloatArray, refer_cost: float) -> FloatArray:
    """Return the costs with a last action that costs the same whatever the truth is."""
    return np.concatenate([values, np.full((*values.shape[:-1], 1), float(refer_cost))], axis=-1)
