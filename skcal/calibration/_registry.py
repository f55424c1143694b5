"""Calibrators by name."""

from __future__ import annotations

from difflib import get_close_matches
from functools import partial
from typing import Any

from sklearn.base import clone

from skcal.calibration._auto import AutoCalibration
from skcal.calibration._beta import BetaCalibration
from skcal.calibration._dirichlet import DirichletCalibration
from skcal.calibration._ensemble_temperature import EnsembleTemperatureScaling
from skcal.calibration._histogram import HistogramBinning
from skcal.calibration._identity import IdentityCalibration
from skcal.calibration._isotonic import IsotonicCalibration
from skcal.calibration._matrix import MatrixScaling
from skcal.calibration._platt import PlattScaling
from skcal.calibration._quadratic import QuadraticScaling
from skcal.calibration._scaling_binning import ScalingBinning
from skcal.calibration._structured import StructuredMatrixScaling
from skcal.calibration._temperature import TemperatureScaling
from skcal.calibration._vector import VectorScaling
from skcal.calibration._venn_abers import VennAbersCalibration

_BY_NAME: dict[str, Any] = {
    "identity": IdentityCalibration,
    "temperature": TemperatureScaling,
    "ets": EnsembleTemperatureScaling,
    "sigmoid": PlattScaling,
    "platt": PlattScaling,
    "quadratic": QuadraticScaling,
    "beta": BetaCalibration,
    "isotonic": IsotonicCalibration,
    "histogram": HistogramBinning,
    "scaling_binning": ScalingBinning,
    "venn_abers": VennAbersCalibration,
    "vector": VectorScaling,
    "matrix": MatrixScaling,
    "dirichlet": DirichletCalibration,
    "svs": partial(StructuredMatrixScaling, structure="vector"),
    "sms": StructuredMatrixScaling,
    "auto": AutoCalibration,
}
CALIBRATOR_NAMES = tuple(_BY_NAME)


def make_calibrator(calibrator: Any) -> Any:
    """Return an unfitted calibrator for a name or an instance.

    Parameters
    ----------
    calibrator : str or calibrator
        A name: scikit-learn's "temperature", "sigmoid" (or "platt") and "isotonic", and
        "identity", "ets", "quadratic", "beta", "histogram", "scaling_binning", "venn_abers",
        "vector", "matrix", "dirichlet", "svs", "sms" and "auto". Or an object with
        ``fit(scores, y, sample_weight, classes=...)`` and ``predict_proba(scores)``, which is
        cloned.

    Returns
    -------
    calibrator

    Raises
    ------
    ValueError
        If the name is unknown.
    TypeError
        If it is neither a name nor a calibrator.

    Examples
    --------
    >>> from skcal.calibration import make_calibrator
    >>> make_calibrator("sigmoid")
    PlattScaling()
    """
    if isinstance(calibrator, str):
        if calibrator not in _BY_NAME:
            near = get_close_matches(calibrator, _BY_NAME, n=1)
            hint = f" Did you mean {near[0]!r}?" if near else ""
            raise ValueError(
                f"Unknown calibrator {calibrator!r}; the names are {sorted(_BY_NAME)}.{hint}"
            )
        return _BY_NAME[calibrator]()
    if isinstance(calibrator, type) or not (
        hasattr(calibrator, "fit") and hasattr(calibrator, "predict_proba")
    ):
        raise TypeError(
            "calibrator must be a name or an instance with fit and predict_proba; got "
            f"{calibrator!r}."
        )
    return clone(calibrator, safe=False)
