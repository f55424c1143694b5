"""Calibrators by name."""

from difflib import get_close_matches
from typing import Any

from sklearn.base import clone

from skcal.calibration._isotonic import IsotonicCalibration
from skcal.calibration._platt import PlattScaling
from skcal.calibration._temperature import TemperatureScaling

_BY_NAME = {
    "temperature": TemperatureScaling,
    "sigmoid": PlattScaling,
    "isotonic": IsotonicCalibration,
}
CALIBRATOR_NAMES = tuple(_BY_NAME)


def make_calibrator(calibrator: Any) -> Any:
    """Return an unfitted calibrator for a name or an instance.

    Parameters
    ----------
    calibrator : str or calibrator
        "temperature", "sigmoid" or "isotonic" (scikit-learn's names), or an object with
        ``fit(scores, y, sample_weight, classes=...)`` and ``predict_proba(scores)``, which
        is cloned.

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
