"""Calibrators of this package and of others behind one call, for the benchmarks here.

Each contestant is a function of calibration scores and labels that returns a function of test
scores: `predict = contestant.fit(scores, y); proba = predict(test)`. Libraries that are not
installed, and maps that this version does not have, are left out and named in `MISSING`.
"""

import contextlib
import importlib
import io
import logging
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.calibration import (
    CalibratedClassifierCV,
    _SigmoidCalibration,
    _TemperatureScaling,
)
from sklearn.frozen import FrozenEstimator
from sklearn.isotonic import IsotonicRegression

import skcal.calibration

Array = NDArray[np.float64]
MISSING: list[str] = []


class Scores(NamedTuple):
    """What a classifier said, in both forms, so that each library gets its best."""

    proba: Array
    logits: Array


Predict = Callable[[Scores], Array]


class Contestant(NamedTuple):
    """A calibrator of some library; those of one family are compared with each other."""

    library: str
    name: str
    family: str
    fit: Callable[[Scores, NDArray[np.intp]], Predict]
    binary_only: bool = False


def load(module: str) -> Any:
    """Return a module, or None and a note in MISSING."""
    try:
        with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return importlib.import_module(module)
    except Exception as error:  # whatever a foreign package does on import
        MISSING.append(f"{module} ({type(error).__name__}: {error})")
        return None


def one_vs_rest(scores: Array, y: NDArray[np.intp], fit_column: Any) -> Callable[[Array], Array]:
    """Fit a map of one column to the second of two columns, or to each; divide by the sum."""
    columns = [1] if scores.shape[1] == 2 else range(scores.shape[1])
    maps = [fit_column(scores[:, k], (y == k).astype(np.float64)) for k in columns]

    def predict(new: Array) -> Array:
        found = np.column_stack([f(new[:, k]) for k, f in zip(columns, maps, strict=True)])
        if new.shape[1] == 2:
            return np.hstack([1 - found, found])
        return found / np.maximum(found.sum(axis=1, keepdims=True), 1e-300)

    return predict


# --- skcal ---------------------------------------------------------------------------------

OWN = [
    # family, class, parameters, binary only
    ("identity", "IdentityCalibration", {}, False),
    ("temperature", "TemperatureScaling", {}, False),
    ("ensemble temperature", "EnsembleTemperatureScaling", {}, False),
    ("sigmoid", "PlattScaling", {}, False),
    ("quadratic", "QuadraticScaling", {}, True),
    ("vector", "VectorScaling", {}, False),
    ("vector", "StructuredMatrixScaling", {"structure": "vector"}, False),
    ("vector", "DirichletCalibration", {"penalty": "diagonal"}, False),
    ("matrix", "MatrixScaling", {}, False),
    ("matrix", "StructuredMatrixScaling", {}, False),
    ("matrix", "DirichletCalibration", {}, False),
    ("isotonic", "IsotonicCalibration", {}, False),
    ("beta", "BetaCalibration", {}, False),
    ("venn-abers", "VennAbersCalibration", {}, False),
    ("binning", "HistogramBinning", {}, False),
    ("binning", "ScalingBinning", {}, False),
    ("auto", "AutoCalibration", {}, False),
]


def own(kind: str = "logits") -> list[Contestant]:
    """Return this package's maps at their defaults, fed with probabilities or logits."""
    found = []
    for family, name, parameters, binary in OWN:
        cls = getattr(skcal.calibration, name, None)
        if cls is None:
            MISSING.append(f"skcal.calibration.{name}")
            continue
        settings = ", ".join(f"{k}={v}" for k, v in parameters.items())

        def fit(scores: Scores, y: Any, cls: Any = cls, parameters: Any = parameters) -> Predict:
            calibrator = cls(input=kind, **parameters)
            calibrator.fit(getattr(scores, kind), y, classes=np.arange(scores.proba.shape[1]))
            return lambda new: calibrator.predict_proba(getattr(new, kind))

        found.append(Contestant("skcal", f"{name}({settings})", family, fit, binary))
    return found


# --- scikit-learn --------------------------------------------------------------------------


class Stub(ClassifierMixin, BaseEstimator):
    """A fitted classifier whose rows are its scores."""

    def __init__(self, n_classes: int = 2) -> None:
        self.n_classes = n_classes

    def fit(self, X: Any, y: Any) -> "Stub":
        """Do nothing."""
        return self

    def predict(self, X: Array) -> NDArray[np.intp]:
        """Return the class of the largest score."""
        return X.argmax(axis=1)

    @property
    def classes_(self) -> NDArray[np.intp]:
        """The class of each column."""
        return np.arange(self.n_classes)

    def __sklearn_is_fitted__(self) -> bool:
        return True


class LogitStub(Stub):
    """Its scores are logits."""

    def decision_function(self, X: Array) -> Array:
        """Return them, for two classes their difference."""
        return X[:, 1] - X[:, 0] if self.n_classes == 2 else X


class ProbaStub(Stub):
    """Its scores are probabilities."""

    def predict_proba(self, X: Array) -> Array:
        """Return them."""
        return X


def sklearn_wrapper(method: str, kind: str) -> Any:
    """CalibratedClassifierCV on a frozen stub, which it asks five times."""
    stub = {"logits": LogitStub, "proba": ProbaStub}[kind]

    def fit(scores: Scores, y: Any) -> Predict:
        model = FrozenEstimator(stub(scores.proba.shape[1]))
        wrapper = CalibratedClassifierCV(model, method=method, ensemble=False)
        wrapper.fit(getattr(scores, kind), y)
        return lambda new: wrapper.predict_proba(getattr(new, kind))

    return fit


def sklearn_temperature(scores: Scores, y: Any) -> Predict:
    inner = _TemperatureScaling().fit(_stacked(scores.logits), y)
    return lambda new: inner.predict(_stacked(new.logits))


def _stacked(logits: Array) -> Array:
    return logits[:, 1] - logits[:, 0] if logits.shape[1] == 2 else logits


def sklearn_sigmoid(scores: Scores, y: Any) -> Predict:
    predict = one_vs_rest(
        _margins(scores.logits), y, lambda s, hit: _SigmoidCalibration().fit(s, hit).predict
    )
    return lambda new: predict(_margins(new.logits))


def _margins(logits: Array) -> Array:
    difference = logits[:, 1] - logits[:, 0]
    return np.column_stack([-difference, difference]) if logits.shape[1] == 2 else logits


def sklearn_isotonic(scores: Scores, y: Any) -> Predict:
    predict = one_vs_rest(
        scores.proba,
        y,
        lambda s, hit: IsotonicRegression(out_of_bounds="clip").fit(s, hit).predict,
    )
    return lambda new: predict(new.proba)


SKLEARN = [
    Contestant(
        "scikit-learn", "CalibratedClassifierCV", "temperature",
        sklearn_wrapper("temperature", "logits"),
    ),
    Contestant("scikit-learn", "its private class", "temperature", sklearn_temperature),
    Contestant(
        "scikit-learn", "CalibratedClassifierCV, logits", "sigmoid",
        sklearn_wrapper("sigmoid", "logits"),
    ),
    Contestant(
        "scikit-learn", "CalibratedClassifierCV, proba", "sigmoid",
        sklearn_wrapper("sigmoid", "proba"),
    ),
    Contestant("scikit-learn", "its private class, logits", "sigmoid", sklearn_sigmoid),
    Contestant(
        "scikit-learn", "CalibratedClassifierCV", "isotonic", sklearn_wrapper("isotonic", "proba")
    ),
    Contestant("scikit-learn", "IsotonicRegression", "isotonic", sklearn_isotonic),
]  # fmt: skip


# --- the others ----------------------------------------------------------------------------


def probmetrics_fit(make: Any, kind: str = "logits") -> Any:
    torch, distributions = load("torch"), load("probmetrics.distributions")
    if kind == "proba":

        def fit(scores: Scores, y: Any) -> Predict:
            calibrator = make().fit(scores.proba, y)
            return lambda new: np.asarray(calibrator.predict_proba(new.proba))

        return fit

    def as_logits(scores: Scores) -> Any:
        return distributions.CategoricalLogits(torch.from_numpy(scores.logits))

    def fit_logits(scores: Scores, y: Any) -> Predict:
        calibrator = make().fit_torch(as_logits(scores), torch.from_numpy(y))
        return lambda new: calibrator.predict_proba_torch(as_logits(new)).get_probs().numpy()

    return fit_logits


def probmetrics() -> list[Contestant]:
    module = load("probmetrics.calibrators")
    if module is None:
        return []
    logging.getLogger("probmetrics").setLevel(logging.ERROR)
    entries = [
        ("temperature", "temp-scaling", "temp-scaling", "logits", False),
        ("temperature", "temp-scaling, mixed", "ts-mix", "proba", False),
        ("ensemble temperature", "ETSCalibrator", "ETSCalibrator", "proba", False),
        ("vector", "VectorScalingCalibrator", "VectorScalingCalibrator", "logits", False),
        ("vector", "SVS", "svs", "proba", False),
        ("matrix", "MatrixScalingCalibrator", "MatrixScalingCalibrator", "logits", False),
        ("matrix", "SMS", "sms", "proba", False),
        ("quadratic", "quadratic-scaling", "quadratic-scaling", "proba", True),
    ]
    found = []
    for family, label, key, kind, binary in entries:
        make = getattr(module, key, None) or (lambda key=key: module.get_calibrator(key))
        found.append(Contestant("probmetrics", label, family, probmetrics_fit(make, kind), binary))
    return found


def netcal() -> list[Contestant]:
    scaling, binning = load("netcal.scaling"), load("netcal.binning")
    if scaling is None or binning is None:
        return []

    def entry(make: Any) -> Any:
        def fit(scores: Scores, y: Any) -> Predict:
            calibrator = make()
            calibrator.fit(_one_column(scores.proba), y)

            def predict(new: Scores) -> Array:
                found = calibrator.transform(_one_column(new.proba))
                return np.column_stack([1 - found, found]) if found.ndim == 1 else found

            return predict

        return fit

    classes = [
        ("temperature", scaling.TemperatureScaling),
        ("vector", scaling.LogisticCalibration),
        ("beta", scaling.BetaCalibration),
        ("isotonic", binning.IsotonicRegression),
        ("binning", binning.HistogramBinning),
    ]
    return [Contestant("netcal", c.__name__, family, entry(c)) for family, c in classes]


def _one_column(proba: Array) -> Array:
    return proba[:, 1] if proba.shape[1] == 2 else proba


def betacal() -> list[Contestant]:
    module = load("betacal")
    if module is None:
        return []

    def fit(scores: Scores, y: Any) -> Predict:
        with warnings.catch_warnings():  # its fit changes the filters of the process
            predict = one_vs_rest(
                scores.proba,
                y,
                lambda s, hit: module.BetaCalibration("abm").fit(s, hit).predict,
            )
        return lambda new: predict(new.proba)

    return [Contestant("betacal", "BetaCalibration", "beta", fit)]


def venn_abers() -> list[Contestant]:
    with np.errstate():  # its import changes numpy's error state
        module = load("venn_abers")
    if module is None:
        return []

    def entry(kind: str) -> Any:
        def fit(scores: Scores, y: Any) -> Predict:
            # Only K = 2 has a fit of its own; with more classes all work is in the prediction.
            if scores.proba.shape[1] == 2:
                calibrator = module.VennAbers()
                calibrator.fit(scores.proba, y)
                return lambda new: calibrator.predict_proba(new.proba)[0]
            return lambda new: module.VennAbersCalibrator().predict_proba(
                p_cal=scores.proba, y_cal=y, p_test=new.proba, va_type=kind
            )

        return fit

    return [
        Contestant("venn-abers", f"VennAbersCalibrator, {kind}", "venn-abers", entry(kind))
        for kind in ("one_vs_one", "one_vs_rest")
    ]


def everyone(kind: str = "logits", *, peers: bool = True) -> list[Contestant]:
    """Return all contestants, this package's first."""
    found = own(kind)
    if peers:
        found += [*SKLEARN, *probmetrics(), *netcal(), *betacal(), *venn_abers()]
    return found


def log_loss(proba: Array, y: NDArray[np.intp], floor: float = 1e-12) -> tuple[float, int]:
    """Return the mean log-loss in nats, and how many true classes got exactly zero.

    Rows are taken as they are. Values below the floor count as the floor: no library is charged
    an infinite loss, though it earned one.
    """
    true = proba[np.arange(len(y)), y]
    return float(-np.log(np.maximum(true, floor)).mean()), int((true <= 0).sum())


def both_forms(logits: Array) -> Scores:
    """Return probabilities and logits of two classes or more."""
    if logits.shape[1] == 2:
        second = expit(logits[:, 1] - logits[:, 0])
        return Scores(np.column_stack([1 - second, second]), logits)
    powers = np.exp(logits - logits.max(axis=1, keepdims=True))
    return Scores(powers / powers.sum(axis=1, keepdims=True), logits)
