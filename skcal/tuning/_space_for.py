"""Small spaces for skcal's own estimators, put together along nested parameters."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sklearn.frozen import FrozenEstimator

from skcal.tuning._optuna import import_optuna

Distributions = Mapping[str, Any]


def space_for(estimator: Any) -> dict[str, Any]:
    """Return the distributions that an estimator is worth tuning over.

    Of the estimator itself and of every one of skcal's below it: the steps of a pipeline, the
    estimator and the calibrator of a calibrated classifier. A network that is trained on a named
    loss is tuned over the loss's parameters, too. What skcal did not make is left alone, and so
    is what is frozen. A calibrator that is given by its name has no parameters; give an instance.

    Parameters
    ----------
    estimator : estimator

    Returns
    -------
    dict of Optuna distributions
        By the names of parameters, as in ``set_params``; an ordinary dictionary, for you to
        add to and take from. Empty where there is nothing to tune, as in temperature scaling.
        ``smoothing`` is among them where it is not 0, and 0, which is plain training, among its
        values.

    Raises
    ------
    ImportError
        Without Optuna.

    Examples
    --------
    >>> from skcal import CalibratedClassifier, NeSCalMLP
    >>> from skcal.calibration import VectorScaling
    >>> from skcal.tuning import space_for
    >>> space = space_for(CalibratedClassifier(NeSCalMLP(), VectorScaling()))
    >>> for name, distribution in space.items():
    ...     print(name, distribution)
    calibrator__reg FloatDistribution(high=1.0, log=True, low=0.0001, step=None)
    estimator__smoothing CategoricalDistribution(choices=(0.0, 0.3, 1.0, 3.0))
    estimator__dropout CategoricalDistribution(choices=(0.0, 0.1, 0.3))
    estimator__lr FloatDistribution(high=0.01, log=True, low=0.001, step=None)
    estimator__weight_decay CategoricalDistribution(choices=(0.0, 0.01, 0.1))
    """
    parts = {"": estimator} | {
        f"{name}__": value
        for name, value in estimator.get_params(deep=True).items()
        if hasattr(value, "get_params") and not isinstance(value, type)
    }
    frozen = [prefix for prefix, part in parts.items() if isinstance(part, FrozenEstimator)]
    return {
        prefix + name: distribution
        for prefix, part in parts.items()
        if not any(prefix != above and prefix.startswith(above) for above in frozen)
        for name, distribution in _own_space(part).items()
    }


def _own_space(estimator: Any) -> Distributions:
    """Return the distributions of an estimator's own parameters, by the nearest known class."""
    known = _of_classes()
    for cls in type(estimator).__mro__:
        if cls.__name__ in known and cls.__module__.startswith("skcal."):
            space = dict(known[cls.__name__])
            break
    else:
        return {}
    if getattr(estimator, "smoothing", None) == 0:
        space.pop("smoothing", None)
    if getattr(estimator, "weighting", None) == "none":  # of heads, which then weigh alike
        space.pop("head_weight", None)
    for parameter in ("loss", "criterion"):
        named = getattr(estimator, parameter, None)
        if isinstance(named, str):
            of_loss = _of_losses().get(named, {})
            space |= {f"{parameter}__{name}": values for name, values in of_loss.items()}
    return space


def _of_classes() -> dict[str, Distributions]:
    optuna = import_optuna().distributions
    whole, choice = optuna.IntDistribution, optuna.CategoricalDistribution
    network = {
        "smoothing": choice([0.0, 0.3, 1.0, 3.0]),
        "lr": _log(5e-4, 1e-2),
        "weight_decay": choice([0.0, 0.01, 0.1]),
    }
    for_tables = {
        "smoothing": network["smoothing"],
        "dropout": choice([0.0, 0.1, 0.3]),
        "lr": _log(1e-3, 1e-2),
        "weight_decay": network["weight_decay"],
    }
    plain = {name: network[name] for name in ("lr", "weight_decay")}
    head_weight = {"head_weight": _log(1.0, 10.0)}
    strength = {"reg": _log(1e-4, 1.0)}
    factor = {"reg": _log(0.01, 100.0)}
    return {
        # Networks.
        "NetClassifier": plain,
        "NeSCalClassifier": network,
        "NeSCalMLP": for_tables,
        "MultiHeadClassifier": network | head_weight,
        "MultiHeadMLP": for_tables | head_weight,
        # Calibrators.
        "VectorScaling": strength,
        "MatrixScaling": strength,
        "StructuredMatrixScaling": factor,
        "DirichletCalibration": {"reg_lambda": _log(1e-4, 1.0), "reg_mu": _log(1e-4, 1.0)},
        "BetaCalibration": {"parameters": choice(["abm", "ab", "am"])},
        "IsotonicCalibration": {"centered": choice([False, True])},
        "HistogramBinning": {
            "n_bins": whole(5, 50, log=True),
            "strategy": choice(["quantile", "uniform"]),
        },
        "ScalingBinning": {"n_bins": whole(5, 50, log=True)},
        # Local maps.
        "VQDirichletCalibration": {
            "reg_scale": _log(1.0, 100.0),
            "reg_bias": _log(1.0, 100.0),
        },
        "LocalTemperatureScaling": {"alpha": _log(3.0, 300.0)},
        "LocalCalibrationNetwork": {
            "bandwidth": _log(1.0, 20.0),
            "js_weight": _log(0.1, 10.0),
        },
        "KernelCalibration": {
            "projection": choice(["skip_elu", "linear", "pca"]),
            "n_components": choice([8, 16, 32]),
        },
        "ProximityCalibration": {
            "n_neighbors": whole(5, 50, log=True),
            "prior": _log(0.1, 10.0),
        },
        "MultiCalibration": {
            "learning_rate": _log(0.03, 0.3),
            "max_leaf_nodes": choice([4, 8, 16]),
            "l2_regularization": _log(1.0, 100.0),
        },
    }


def _of_losses() -> dict[str, Distributions]:
    optuna = import_optuna().distributions
    decimal = optuna.FloatDistribution
    weight = "penalty_weight"
    return {
        "label_smoothing": {"label_smoothing": _log(0.01, 0.2)},
        "focal": {"gamma": decimal(0.5, 4.0)},
        "flsd": {"gamma": optuna.CategoricalDistribution([2.0, 3.0])},
        "dual_focal": {"gamma": decimal(1.0, 6.0)},
        "label_relaxation": {"alpha": _log(0.01, 0.2)},
        "mixup": {"alpha": _log(0.1, 1.0)},
        "mmce": {weight: _log(0.1, 8.0)},
        "mdca": {weight: _log(0.25, 10.0)},
        "dca": {weight: _log(0.25, 10.0)},
        "soft_avuc": {
            weight: _log(0.03, 1.0),
            "temperature": _log(0.1, 1.0),
            "threshold": decimal(0.3, 0.7),
        },
        "soft_ece": {weight: _log(0.05, 1.0)},
        "mbls": {weight: _log(0.03, 1.0), "margin": decimal(0.5, 8.0)},
    }


def _log(low: float, high: float) -> Any:
    return import_optuna().distributions.FloatDistribution(low, high, log=True)
