"""One suite of checks for every calibrator, this package's and your own.

Needs numpy, scipy, scikit-learn and pandas; torch tensors are tried where torch is installed.
"""

from skcal.testing._suite import calibrator_checks, check_calibrator

__all__ = ["calibrator_checks", "check_calibrator"]
