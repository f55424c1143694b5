"""Train, calibrate and score the contestants over several seeds."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.exceptions import ConvergenceWarning
from sklearn.frozen import FrozenEstimator
from sklearn.impute import SimpleImputer
from sklearn.metrics import accuracy_score
from sklearn.model_selection import train_test_split
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from skcal._repeats import mean_and_half_width
from skcal.calibrated import CalibratedClassifier
from skcal.metrics import brier_score_loss, expected_calibration_error, log_loss

METRICS = ("NLL", "Brier", "ECE", "accuracy")
RAW, SCALED = "raw", "temperature"


@dataclass(frozen=True)
class Method:
    """A contestant: how to make it from a seed, and how to calibrate it once it is fitted."""

    name: str
    make: Callable[[int], Any]
    calibrate: Callable[[Any], Any]


@dataclass
class Comparison:
    """Scores of every method, raw and temperature-scaled, for every seed.

    Attributes
    ----------
    scores : dict of (method, form) to list of dict
        One dict of metrics per seed.
    predictions : dict of (method, form) to ndarray of shape (n_test, n_classes)
        Test probabilities of the first seed.
    y_test : ndarray of shape (n_test,)
        Test labels of the first seed.
    classes : ndarray of shape (n_classes,)
    sizes : tuple of int
        Rows for training, calibration and test.
    seeds : list of int
    seconds : float
        Wall time of the whole comparison.
    """

    scores: dict[tuple[str, str], list[dict[str, float]]] = field(default_factory=dict)
    predictions: dict[tuple[str, str], NDArray[Any]] = field(default_factory=dict)
    y_test: NDArray[Any] = field(default_factory=lambda: np.empty(0))
    classes: NDArray[Any] = field(default_factory=lambda: np.empty(0))
    sizes: tuple[int, ...] = ()
    seeds: list[int] = field(default_factory=list)
    seconds: float = 0.0

    def interval(self, key: tuple[str, str], metric: str) -> tuple[float, float]:
        """Return the mean over seeds and the half-width of its 95 % interval.

        The seeds split one table again and again, so that their scores are not independent:
        the interval is widened for it.
        """
        return self._interval([scores[metric] for scores in self.scores[key]])

    def difference(
        self, key: tuple[str, str], reference: tuple[str, str], metric: str
    ) -> tuple[float, float]:
        """Return the mean paired difference over seeds and its half-width."""
        pairs = zip(self.scores[key], self.scores[reference], strict=True)
        return self._interval([a[metric] - b[metric] for a, b in pairs])

    def _interval(self, values: list[float]) -> tuple[float, float]:
        train, _, test = self.sizes
        return mean_and_half_width(values, test / train)


def contestants() -> list[Method]:
    """Return cross-entropy, NeSCal and scikit-learn's network as its users set it up."""
    from skcal.neural import NeSCalMLP

    def scaled(fitted: Any) -> Any:
        return CalibratedClassifier(FrozenEstimator(fitted), "temperature")

    def scikit_learn_scaled(fitted: Any) -> Any:
        return CalibratedClassifierCV(FrozenEstimator(fitted), method="temperature")

    def usual(seed: int) -> Any:
        numbers = make_pipeline(SimpleImputer(), StandardScaler())
        table = make_column_transformer(
            (numbers, make_column_selector(dtype_include="number")),
            (OneHotEncoder(handle_unknown="ignore"), make_column_selector(dtype_exclude="number")),
        )
        return make_pipeline(table, MLPClassifier(random_state=seed))

    return [
        Method("Cross-entropy", lambda seed: NeSCalMLP(smoothing=0, random_state=seed), scaled),
        # With the usual warm-up training on this table stops before the smoothing begins.
        Method("NeSCal", lambda seed: NeSCalMLP(warmup=5, random_state=seed), scaled),
        Method("MLPClassifier", usual, scikit_learn_scaled),
    ]


def compare(
    X: Any,
    y: Any,
    *,
    seeds: Iterable[int] = range(5),
    progress: Callable[[Iterable[Any], int], Iterable[Any]] = lambda steps, total: steps,
) -> Comparison:
    """Run every contestant on stratified splits, one per seed.

    Parameters
    ----------
    X : DataFrame of shape (n_samples, n_features)
    y : array-like of shape (n_samples,)
    seeds : iterable of int, default=range(5)
        Each seeds a split into 60 % training, 20 % calibration and 20 % test rows, and the
        networks trained on it.
    progress : callable, optional
        Wraps the iteration over fits, given their number.

    Returns
    -------
    Comparison

    Examples
    --------
    >>> from skcal.datasets import load_credit
    >>> from skcal.demo import compare
    >>> X, y = load_credit(return_X_y=True)
    >>> result = compare(X.head(400), y.head(400), seeds=[0])
    >>> sorted({method for method, _ in result.scores})
    ['Cross-entropy', 'MLPClassifier', 'NeSCal']
    """
    start = time.perf_counter()
    # torch loads parts of itself at the first step; no contestant shall pay for it.
    contestants()[0].make(0).set_params(max_epochs=1).fit(X[:100], np.arange(len(X[:100])) % 2)
    result = Comparison(classes=np.unique(y), seeds=list(seeds))
    # An array: scikit-learn's temperature scaling looks up y[0], which a Series may not have.
    y = np.asarray(y)
    steps = [(seed, method) for seed in result.seeds for method in contestants()]
    for seed, method in progress(steps, len(steps)):
        rest, X_test, y_rest, y_test = train_test_split(
            X, y, test_size=0.2, stratify=y, random_state=seed
        )
        X_train, X_cal, y_train, y_cal = train_test_split(
            rest, y_rest, test_size=0.25, stratify=y_rest, random_state=seed
        )
        fits = _fit_both(method, seed, X_train, y_train, X_cal, y_cal)
        for form, (model, seconds) in fits.items():
            key = (method.name, form)
            proba = model.predict_proba(X_test)
            scores = _score(y_test, proba, result.classes) | {"seconds": seconds}
            result.scores.setdefault(key, []).append(scores)
            if seed == result.seeds[0]:
                result.predictions[key] = proba
        if seed == result.seeds[0]:
            result.y_test = y_test
            result.sizes = (len(X_train), len(X_cal), len(X_test))
    result.seconds = time.perf_counter() - start
    return result


def _fit_both(
    method: Method, seed: int, X_train: Any, y_train: Any, X_cal: Any, y_cal: Any
) -> dict[str, tuple[Any, float]]:
    """Fit a model, calibrate it on other rows, and time both."""
    start = time.perf_counter()
    with warnings.catch_warnings():
        # Two hundred epochs are MLPClassifier's default, whether it has converged or not.
        warnings.simplefilter("ignore", ConvergenceWarning)
        raw = clone(method.make(seed)).fit(X_train, y_train)
    fitted = time.perf_counter()
    scaled = method.calibrate(raw).fit(X_cal, y_cal)
    done = time.perf_counter()
    return {RAW: (raw, fitted - start), SCALED: (scaled, done - start)}


def _score(y_test: Any, proba: NDArray[Any], classes: NDArray[Any]) -> dict[str, float]:
    return {
        "NLL": log_loss(y_test, proba, labels=classes),
        "Brier": brier_score_loss(y_test, proba, labels=classes),
        "ECE": expected_calibration_error(y_test, proba, labels=classes),
        "accuracy": float(accuracy_score(y_test, classes[proba.argmax(axis=1)])),
    }
