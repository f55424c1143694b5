"""The calibration fold as validation data of estimators that stop early."""

from __future__ import annotations

import warnings
from typing import Any

from sklearn.pipeline import Pipeline
from sklearn.utils import Bunch
from sklearn.utils.metadata_routing import _routing_enabled
from sklearn.utils.validation import has_fit_parameter

from skcal.calibrated._scores import name_of

# The names under which libraries take the weights of the rows in ``eval_set``.
_EVAL_WEIGHTS = ("eval_sample_weight", "sample_weight_eval_set")  # LightGBM, XGBoost


def check_validation_fold(estimator: Any, *, frozen: bool, refitted: bool) -> None:
    """Refuse ``validation_fold`` where it cannot be, and warn of what it costs."""
    if frozen:
        raise ValueError(
            "validation_fold=True cannot be: a frozen estimator is not trained any more."
        )
    if refitted:
        raise ValueError(
            "validation_fold=True needs the model that was stopped on a fold to be the one "
            "that is calibrated, but ensemble=False trains another one on all rows. Use "
            "ensemble=True, or hold rows out once (cv=0.2)."
        )
    _check_takes_validation(estimator)
    warnings.warn(
        "validation_fold=True: the same rows stop the training and fit the calibrator, which "
        "finds the model better on them than it is. Where rows are plenty, let the estimator "
        "split off its own.",
        UserWarning,
        stacklevel=3,
    )


def _check_takes_validation(estimator: Any) -> None:
    """Refuse an estimator whose ``fit`` takes no validation rows.

    Raises
    ------
    ValueError
        If neither of the two spellings is known to it, or a pipeline would hand the rows on
        untransformed.
    """
    last = estimator
    while isinstance(last, Pipeline):
        routed = _routing_enabled() and len(last) > 1
        if routed and "X_val" not in (last.transform_input or ()):
            raise ValueError(
                "With metadata routing, a Pipeline transforms validation rows only if told to: "
                "set Pipeline(..., transform_input=['X_val']), and set_fit_request(X_val=True, "
                "y_val=True) on its last step."
            )
        last = last[-1]
    takes_val = has_fit_parameter(last, "X_val") and has_fit_parameter(last, "y_val")
    if not takes_val and not has_fit_parameter(last, "eval_set"):
        raise ValueError(
            f"validation_fold=True needs an estimator whose fit takes X_val= and y_val=, or "
            f"eval_set=[(X, y)]; {name_of(last)} takes neither. Leave validation_fold out."
        )


def fit_with_validation(
    estimator: Any, X: Any, y: Any, params: dict[str, Any], validation: Bunch
) -> Any:
    """Fit an estimator that is told when to stop by other rows.

    Parameters
    ----------
    estimator : estimator or Pipeline
        The last step of a pipeline gets the rows as the fitted earlier steps transform them.
    X, y : training rows
    params : dict
        Of ``fit``, for the training rows.
    validation : Bunch(X, y, params)
        Validation rows, and the parameters of ``fit`` for them: of these, their weights are
        handed on where the estimator takes any.
    """
    if isinstance(estimator, Pipeline) and not _routing_enabled():
        return _fit_pipeline(estimator, X, y, params, validation)
    last = estimator
    while isinstance(last, Pipeline):
        last = last[-1]
    weights = validation.params.get("sample_weight")
    if has_fit_parameter(last, "X_val"):
        extra = {"X_val": validation.X, "y_val": validation.y}
        if weights is not None and has_fit_parameter(last, "sample_weight_val"):
            extra["sample_weight_val"] = weights
    else:
        extra = {"eval_set": [(validation.X, validation.y)]}
        if weights is not None:
            extra |= {n: [weights] for n in _EVAL_WEIGHTS if has_fit_parameter(last, n)}
    twice = sorted(params.keys() & extra.keys())
    if twice:
        raise ValueError(
            f"validation_fold=True passes {twice[0]} to fit, and so do you; leave one of them out."
        )
    return estimator.fit(X, y, **params, **extra)


def _fit_pipeline(
    pipeline: Pipeline, X: Any, y: Any, params: dict[str, Any], validation: Bunch
) -> Pipeline:
    """Fit a pipeline in two parts, so that its last step sees transformed validation rows."""
    name, last = pipeline.steps[-1]
    mine = f"{name}__"

    def of_last(given: dict[str, Any]) -> dict[str, Any]:
        return {key[len(mine) :]: value for key, value in given.items() if key.startswith(mine)}

    X_val = validation.X
    if len(pipeline) > 1:
        steps = pipeline[:-1]
        earlier = {key: value for key, value in params.items() if not key.startswith(mine)}
        X = steps.fit_transform(X, y, **earlier)
        X_val = steps.transform(X_val)
        pipeline.steps[:-1] = steps.steps  # with a memory, fitted steps are copies
    rows = Bunch(X=X_val, y=validation.y, params=of_last(validation.params))
    fit_with_validation(last, X, y, of_last(params), rows)
    return pipeline
