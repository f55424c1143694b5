"""Training methods by name: what each trains, and what it is tuned over."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from itertools import product
from typing import Any, NamedTuple

from scipy.stats import qmc

from skcal._options import find_name
from skcal.calibration import make_calibrator
from skcal.experiments._config import Calibrator, Config, ConfigError, Method, Regime
from skcal.tuning import space_for


class Recipe(NamedTuple):
    """How a known method is made.

    Attributes
    ----------
    make : callable
        Given parameters, returns an estimator.
    is_network : bool
        Whether it takes the network's parameters, and validation rows in ``fit``.
    own : tuple of str
        Parameters that are the method's own, and tuned at the network that was chosen.
    tuned_as : str
        The method whose parameters it takes, instead of trials of its own.
    n_networks : int
        Networks that answer together: what a prediction costs.
    """

    make: Callable[..., Any]
    is_network: bool = True
    own: tuple[str, ...] = ()
    tuned_as: str = ""
    n_networks: int = 1


def _mlp(**fixed: Any) -> Callable[..., Any]:
    def make(**params: Any) -> Any:
        from skcal.neural import NeSCalMLP

        return NeSCalMLP(**{"smoothing": 0, **fixed, **params})

    return make


def _published(**params: Any) -> Any:
    from skcal.neural import NeSCalMLP

    return NeSCalMLP.published(**params)


def _multi_head(**params: Any) -> Any:
    from skcal.neural import MultiHeadMLP

    return MultiHeadMLP(**{k: v for k, v in params.items() if k != "n_members"})


def _ensemble(n_members: int) -> Callable[..., Any]:
    def make(**params: Any) -> Any:
        from skcal.neural import DeepEnsembleClassifier, NeSCalMLP

        seed = params.pop("random_state", None)
        member = NeSCalMLP(**{"smoothing": 0, **params})
        return DeepEnsembleClassifier(member, n_members=n_members, random_state=seed)

    return make


def _scikit_learn_network(**params: Any) -> Any:
    from sklearn.neural_network import MLPClassifier
    from sklearn.pipeline import make_pipeline

    from skcal.tabular import TabularEncoder

    network = MLPClassifier(**{"early_stopping": True, "hidden_layer_sizes": (256, 256), **params})
    return make_pipeline(TabularEncoder(), network)


def _boosting(**params: Any) -> Any:
    from sklearn.ensemble import HistGradientBoostingClassifier

    return HistGradientBoostingClassifier(
        **{"categorical_features": "from_dtype", "early_stopping": True, **params}
    )


def _of_loss(loss: str, *own: str) -> Recipe:
    return Recipe(_mlp(loss=loss), own=tuple(f"loss__{name}" for name in own))


METHODS: Mapping[str, Recipe] = {
    "cross_entropy": Recipe(_mlp()),
    "label_smoothing": _of_loss("label_smoothing", "label_smoothing"),
    "focal": _of_loss("focal", "gamma"),
    "mmce": _of_loss("mmce", "penalty_weight"),
    "mdca": _of_loss("mdca", "penalty_weight"),
    "soft_avuc": _of_loss("soft_avuc", "penalty_weight", "temperature", "threshold"),
    "mbls": _of_loss("mbls", "penalty_weight", "margin"),
    "brier": Recipe(_mlp(loss="brier")),
    "mixup": _of_loss("mixup", "alpha"),
    "mhml": Recipe(_multi_head, own=("head_weight",)),
    "nescal": Recipe(_mlp(smoothing=1.0), own=("smoothing",)),
    "nescal_published": Recipe(_published, own=("smoothing",)),
    "nescal_strong": Recipe(_mlp(smoothing=1.0, honest_folds=2), tuned_as="nescal"),
    "nescal_random": Recipe(_mlp(smoothing=1.0, graph="random"), tuned_as="nescal"),
    "nescal_permuted": Recipe(_mlp(smoothing=1.0, graph="permuted"), tuned_as="nescal"),
    "nescal_self": Recipe(_mlp(smoothing=1.0, graph="self"), tuned_as="nescal"),
    "ensemble_2": Recipe(_ensemble(2), tuned_as="cross_entropy", n_networks=2),
    "ensemble_5": Recipe(_ensemble(5), tuned_as="cross_entropy", n_networks=5),
    "mlp_classifier": Recipe(
        _scikit_learn_network, is_network=False, own=("mlpclassifier__alpha",)
    ),
    "hist_gradient_boosting": Recipe(
        _boosting, is_network=False, own=("learning_rate", "max_leaf_nodes", "l2_regularization")
    ),
}
# What networks of all methods share, and cross-entropy is tuned over.
BASE = "cross_entropy"
_NETWORK = ("dropout", "lr", "weight_decay")


def recipe_of(method: Method) -> Recipe:
    """Return how a method is made; of an estimator or predictions of one's own, that it is not."""
    if method.estimator or method.predictions:
        return Recipe(lambda **params: import_thing(method.estimator)(**params), is_network=False)
    name = find_name(method.method or method.name, METHODS, f"methods: {method.name}")
    return METHODS[name]


def make_estimator(
    method: Method, config: Config, regime: Regime, chosen: Mapping[str, Any], seed: int
) -> Any:
    """Return an unfitted estimator, with what was chosen for it, in a regime and of a seed."""
    recipe = recipe_of(method)
    params = {**(config.network if recipe.is_network else {}), **method.params}
    if recipe.is_network and regime.epochs is not None:
        params |= {"early_stopping": False, "max_epochs": regime.epochs}
    model = recipe.make(**params)
    prefix = "estimator__" if recipe.n_networks > 1 else ""
    model.set_params(**{prefix + name: value for name, value in chosen.items()})
    for name in model.get_params(deep=True):
        if name == "random_state" or name == "mlpclassifier__random_state":
            model.set_params(**{name: seed})
    return model


def candidates(method: Method, config: Config, regime: Regime, network: Mapping[str, Any]) -> Any:
    """Return the settings that are tried for a method: its default first, the rest spread evenly.

    Parameters
    ----------
    network : dict
        What was chosen for the network already; empty for cross-entropy, which chooses it.
    """
    recipe, tuning = recipe_of(method), config.tuning
    n_trials = tuning.method_trials + (0 if network else tuning.network_trials)
    is_base = (method.method or method.name) == BASE
    names = _NETWORK if is_base else recipe.own
    if not names or n_trials < 1 or recipe.tuned_as:
        return [dict(network)]
    model = make_estimator(method, config, regime, network, 0)
    known = {**_spaces_of_others(), **space_for(model)}
    space = {name: known[name] for name in names if name in known}
    return [{**network, **one} for one in spread(space, model.get_params(deep=True), n_trials)]


def spread(
    space: Mapping[str, Any], default: Mapping[str, Any], n_trials: int
) -> list[dict[str, Any]]:
    """Return settings of a space: all of a small grid, else the default and Halton's points."""
    from optuna.distributions import CategoricalDistribution

    if all(isinstance(one, CategoricalDistribution) for one in space.values()):
        grid = [
            dict(zip(space, values, strict=True))
            for values in product(*(one.choices for one in space.values()))
        ]
        if len(grid) <= n_trials:
            return grid
    # What is left to the estimator by default stays so.
    given = {name: default[name] for name in space if name in default}
    first = {name: value for name, value in given.items() if value not in (None, "auto")}
    points = qmc.Halton(len(space), scramble=False).random(n_trials)[1:]  # the first is a corner
    return [first, *({n: _at(space[n], u) for n, u in zip(space, p, strict=True)} for p in points)]


def _at(distribution: Any, share: float) -> Any:
    """Return the value of a distribution below which this share of it lies."""
    choices = getattr(distribution, "choices", None)
    if choices is not None:
        return choices[int(share * len(choices))]
    low, high = distribution.low, distribution.high
    value = low * (high / low) ** share if distribution.log else low + share * (high - low)
    return round(value) if isinstance(low, int) else float(value)


def _spaces_of_others() -> dict[str, Any]:
    """Return spaces of scikit-learn's estimators."""
    from optuna.distributions import FloatDistribution, IntDistribution

    return {
        "mlpclassifier__alpha": FloatDistribution(1e-5, 1.0, log=True),
        "learning_rate": FloatDistribution(0.02, 0.3, log=True),
        "max_leaf_nodes": IntDistribution(7, 63, log=True),
        "l2_regularization": FloatDistribution(1e-3, 10.0, log=True),
    }


def make_calibrator_of(calibrator: Calibrator) -> Any:
    """Return an unfitted calibrator, or None for "none"."""
    if calibrator.estimator:
        return import_thing(calibrator.estimator)(**calibrator.params)
    name = calibrator.calibrator or calibrator.name
    if name == "none":
        return None
    return make_calibrator(name).set_params(**calibrator.params)


def import_thing(path: str | None) -> Any:
    """Return what "package.module:Name" names."""
    module, _, name = str(path).partition(":")
    if not module or not name:
        raise ConfigError(f"{path!r} is no import path; write 'package.module:Class'.")
    try:
        return getattr(import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise ConfigError(f"{path!r} cannot be imported: {error}") from error
