"""Probabilities that can be acted on, for scikit-learn users.

Train calibrated networks, calibrate any classifier after training, and measure and see how
far its probabilities can be trusted. Public names load when they are first used, so that
``import skcal`` costs nothing and never imports torch, pandas or matplotlib by itself.
"""

import importlib
from typing import TYPE_CHECKING, Any

from skcal._version import __version__

if TYPE_CHECKING:
    from skcal import calibration, datasets, diagnostics, metrics, neural, plots, testing
    from skcal.calibrated import CalibratedClassifier
    from skcal.calibration import TemperatureScaling
    from skcal.decisions import CostSensitiveClassifier
    from skcal.neural import (
        DeepEnsembleClassifier,
        MultiHeadClassifier,
        MultiHeadMLP,
        NeighborhoodSmoothing,
        NeSCalClassifier,
        NeSCalMLP,
    )
    from skcal.plots import ReliabilityDisplay
    from skcal.tabular import TabularEncoder

_HOMES = {
    "CalibratedClassifier": "skcal.calibrated",
    "CostSensitiveClassifier": "skcal.decisions",
    "DeepEnsembleClassifier": "skcal.neural",
    "MultiHeadClassifier": "skcal.neural",
    "MultiHeadMLP": "skcal.neural",
    "NeSCalClassifier": "skcal.neural",
    "NeSCalMLP": "skcal.neural",
    "NeighborhoodSmoothing": "skcal.neural",
    "ReliabilityDisplay": "skcal.plots",
    "TabularEncoder": "skcal.tabular",
    "TemperatureScaling": "skcal.calibration",
}
_ROOMS = (
    "calibration",
    "datasets",
    "diagnostics",
    "metrics",
    "neural",
    "plots",
    "testing",
    "tuning",
)

__all__ = [
    "CalibratedClassifier",
    "CostSensitiveClassifier",
    "DeepEnsembleClassifier",
    "MultiHeadClassifier",
    "MultiHeadMLP",
    "NeSCalClassifier",
    "NeSCalMLP",
    "NeighborhoodSmoothing",
    "ReliabilityDisplay",
    "TabularEncoder",
    "TemperatureScaling",
    "__version__",
    "calibration",
    "datasets",
    "diagnostics",
    "metrics",
    "neural",
    "plots",
    "testing",
    "tuning",
]


def __getattr__(name: str) -> Any:
    if name in _ROOMS:
        return importlib.import_module(f"skcal.{name}")
    if name in _HOMES:
        value = getattr(importlib.import_module(_HOMES[name]), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module 'skcal' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
