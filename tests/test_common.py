"""scikit-learn's own checks, over every public estimator.

The environment variable ``SCIPY_ARRAY_API=1`` must be set before scipy is imported, or
scikit-learn skips its array-API check.
"""

import numpy as np
import pandas as pd
import pytest
from _public import public_estimators
from optuna.distributions import FloatDistribution
from sklearn.linear_model import LogisticRegression
from sklearn.utils.estimator_checks import parametrize_with_checks

from skcal import (
    CalibratedClassifier,
    CostSensitiveClassifier,
    DeepEnsembleClassifier,
    MultiHeadMLP,
    NeSCalClassifier,
    NeSCalMLP,
    TabularEncoder,
)
from skcal.calibration import BaseCalibrator
from skcal.neural import MultiHeadClassifier, NetClassifier
from skcal.tuning import OptunaSearch

# Enough training for the checks that ask for a good accuracy, and no more.
FAST = {"max_epochs": 15, "lr": 0.02}
# Where a weight of two can be the same as a row repeated: no neighbours, no split, no dropout,
# and every row in each step.
EXACT = FAST | {
    "dtype": "float64",
    "early_stopping": False,
    "batch_size": -1,
    "random_state": 0,
}

ESTIMATORS = [
    NeSCalMLP(**FAST),
    NeSCalMLP(smoothing=0, dropout=0.0, **EXACT),
    NeSCalClassifier(**FAST),
    NetClassifier(**FAST),
    MultiHeadMLP(**FAST),
    MultiHeadMLP(dropout=0.0, **EXACT),
    MultiHeadClassifier(**FAST),
    CalibratedClassifier(LogisticRegression()),
    CalibratedClassifier(LogisticRegression(), ensemble=False),
    CalibratedClassifier(LogisticRegression(), cv=0.2, random_state=0),
    CalibratedClassifier(LogisticRegression(), "sigmoid"),
    CalibratedClassifier(LogisticRegression(), "isotonic"),
    CostSensitiveClassifier(LogisticRegression()),
    DeepEnsembleClassifier(NeSCalMLP(**FAST), n_members=2),
    DeepEnsembleClassifier(
        NeSCalMLP(smoothing=0, dropout=0.0, **EXACT), n_members=2, averaging="logit", random_state=0
    ),
    TabularEncoder(),
    OptunaSearch(
        LogisticRegression(),
        {"C": FloatDistribution(0.1, 10, log=True)},
        n_trials=3,
        cv=2,
        random_state=0,
    ),
]


def expected_failures(estimator):
    is_ensemble = isinstance(estimator, DeepEnsembleClassifier)
    net = estimator.estimator if is_ensemble else estimator
    if isinstance(net, NetClassifier) and net.batch_size != -1:
        return {
            "check_sample_weight_equivalence_on_dense_data": (
                # scikit-learn's words for estimators of its own, then the reasons here.
                "sample_weight is not equivalent to removing/repeating samples. "
                "A repeated row becomes its own neighbour, and a table with other rows is "
                "split otherwise into training and validation rows."
            )
        }
    return {}


@parametrize_with_checks(ESTIMATORS, expected_failed_checks=expected_failures, xfail_strict=True)
def test_check(estimator, check):
    check(estimator)


def test_every_public_estimator_is_checked():
    # Calibrators take scores, one column per class, which these checks cannot give them.
    expected = {cls for cls in public_estimators() if not issubclass(cls, BaseCalibrator)}
    assert NeSCalMLP in expected  # the walk finds something
    assert {type(estimator) for estimator in ESTIMATORS} == expected


# --- Weights are repetition, where they can be -------------------------------------------


def nets(**params):
    return [
        NetClassifier(module__dropout=0.0, **EXACT | params),
        NeSCalClassifier(module__dropout=0.0, smoothing=0, **EXACT | params),
        NeSCalMLP(dropout=0.0, smoothing=0, **EXACT | params),
        MultiHeadMLP(dropout=0.0, **EXACT | params),
        MultiHeadClassifier(module__dropout=0.0, **EXACT | params),
    ]


def name_of(estimator):
    return type(estimator).__name__


def weighted_table(seed=0, n=60):
    """Return a mixed table with missing cells, labels, and weights of 0, 1, 2 and 3."""
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(
        {
            "number": np.where(rng.random(n) < 0.2, np.nan, rng.normal(5, 3, n)),
            "other": rng.normal(size=n),
            "level": rng.choice(["a", "b", "c"], n),
        }
    )
    y = np.array(["x", "y", "z"])[np.arange(n) % 3]
    weight = np.arange(n) // 3 % 4
    # What only a row of weight zero holds must not leave a trace in the encoder either.
    X.loc[1, ["number", "other", "level"]] = [1e9, np.nan, "nowhere else"]
    assert weight[1] == 0
    return X, y, weight


def repeat(X, y, weight):
    rows = np.repeat(np.arange(len(y)), weight)
    return X.iloc[rows].reset_index(drop=True), y[rows]


@pytest.mark.parametrize("net", nets() + nets(class_weight="balanced"), ids=name_of)
def test_weights_are_repetition(net):
    X, y, weight = weighted_table()
    new = X.drop(index=1)  # without the level that does not count
    weighted = net.fit(X, y, sample_weight=weight).predict_proba(new)
    repeated = net.fit(*repeat(X, y, weight)).predict_proba(new)
    unweighted = net.fit(X, y).predict_proba(new)
    np.testing.assert_allclose(weighted, repeated, rtol=1e-6, atol=1e-9)
    assert np.abs(weighted - unweighted).max() > 0.01


@pytest.mark.parametrize("net", nets(early_stopping=True, n_iter_no_change=3), ids=name_of)
def test_validation_weights_are_repetition(net):
    X, y, weight = weighted_table()
    X_val, y_val, weight_val = weighted_table(seed=1, n=48)

    def fit(*train, val):
        return net.fit(*train, X_val=val[0], y_val=val[1], sample_weight_val=val[2])

    weighted = fit(X, y, weight, val=(X_val, y_val, weight_val))
    losses = weighted.history[:, "valid_loss"]
    repeated = fit(*repeat(X, y, weight), val=(*repeat(X_val, y_val, weight_val), None))
    np.testing.assert_allclose(losses, repeated.history[:, "valid_loss"], rtol=1e-6)


@pytest.mark.parametrize("net", nets(), ids=name_of)
def test_the_scale_of_weights_does_not_matter(net):
    X, y, weight = weighted_table()
    new = X.drop(index=1)  # without the level that does not count
    one = net.fit(X, y, sample_weight=weight).predict_proba(new)
    thousandth = net.fit(X, y, sample_weight=weight / 1000).predict_proba(new)
    np.testing.assert_allclose(one, thousandth, rtol=1e-6, atol=1e-9)
