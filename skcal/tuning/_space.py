"""What the parameters of a trial are drawn from."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

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
    known = estimator.get_params(deep=True)
    # A name below another is known to scikit-learn only once that other is set.
    unknown = [n for n in space if n not in known and n.rpartition("__")[0] not in known]
    if unknown:
        raise ValueError(
            f"{type(estimator).__name__} has no parameter {unknown[0]!r}; get_params() lists "
            "those it has. A step of a pipeline or a wrapped estimator is reached by "
            "'step__parameter'."
        )
    return space


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
