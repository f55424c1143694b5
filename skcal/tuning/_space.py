"""What the parameters of a trial are drawn from."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from sklearn.base import clone

from skcal.tuning._optuna import import_optuna
from skcal.tuning._space_for import space_for

Space: TypeAlias = Mapping[str, Any] | Callable[[Any], Mapping[str, Any]]


def check_space(space: Any, estimator: Any) -> Space:
    """Return the space, or the estimator's own for "auto".

    Raises
    ------
    TypeError
        If ``space`` is neither a dictionary of Optuna distributions nor callable.
    ValueError
        If it is empty, or names a parameter that is not there.
    """
    optuna = import_optuna()
    if isinstance(space, str) and space == "auto":
        space = space_for(estimator)
        if not space:
            raise ValueError(
                f"space='auto' knows nothing to tune in {estimator!r}; give a dictionary of "
                "Optuna distributions by parameter name."
            )
    if callable(space):
        return space
    if not isinstance(space, Mapping):
        raise TypeError(
            "space must be 'auto', a dictionary of Optuna distributions, such as "
            "{'C': optuna.distributions.FloatDistribution(1e-3, 1e3, log=True)}, or a function "
            f"of a trial that returns parameters; got {space!r}."
        )
    if not space:
        raise ValueError("space is empty: there is nothing to tune.")
    for name, distribution in space.items():
        if not isinstance(distribution, optuna.distributions.BaseDistribution):
            raise TypeError(
                f"space[{name!r}] must be an Optuna distribution (FloatDistribution, "
                f"IntDistribution or CategoricalDistribution); got {distribution!r}."
            )
    unknown = [name for name in space if not _is_taken(estimator, name, space)]
    if unknown:
        raise ValueError(
            f"{type(estimator).__name__} has no parameter {unknown[0]!r}; get_params() lists "
            "those it has. A step of a pipeline or a wrapped estimator is reached by "
            "'step__parameter'."
        )
    return space


def _is_taken(estimator: Any, name: str, space: Mapping[str, Any]) -> bool:
    """Return whether the estimator takes a parameter of this name, which it may not list.

    Boosting libraries take more than they list. A name below another one of the space is known
    only once that other is set.
    """
    known = estimator.get_params(deep=True)
    parts = name.split("__")
    above = ["__".join(parts[:n]) for n in range(1, len(parts))]
    if name in known or any(other in space and other in known for other in above):
        return True
    distribution = space[name]
    value = distribution.choices[0] if hasattr(distribution, "choices") else distribution.low
    try:
        clone(estimator).set_params(**{name: value})
    except (AttributeError, TypeError, ValueError):
        return False
    return True


def parameters_of(trial: Any, space: Space) -> dict[str, Any]:
    """Return the parameters of a trial by name: what was drawn, or what a function makes of it.

    Raises
    ------
    TypeError
        If the function returns no dictionary.
    """
    parameters = space(trial) if callable(space) else trial.params
    if not isinstance(parameters, Mapping):
        raise TypeError(
            "A space that is a function must return a dictionary of parameters, such as "
            "{'C': trial.suggest_float('C', 1e-3, 1e3, log=True)}; got "
            f"{parameters!r}."
        )
    return dict(parameters)
