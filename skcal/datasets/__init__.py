"""Tables to try calibration on: one real, one drawn with known probabilities."""

from skcal.datasets._credit import load_credit
from skcal.datasets._folder import load_dataset
from skcal.datasets._synthetic import make_calibration_data

__all__ = ["load_credit", "load_dataset", "make_calibration_data"]
