"""Tuning: Optuna's samplers behind scikit-learn's search interface.

From the ground up:

- ``_optuna``: Optuna, or what to install
- ``_space_for``: small spaces for skcal's own estimators
- ``_space``: what parameters are drawn from
- ``_scoring``: scores by name
- ``_study``: what Optuna is asked and told
- ``_evaluation``: one trial over the folds
- ``_search``: ``OptunaSearch``
- ``_report``: ``SearchReport``
- ``_confirmation``: ``tune_and_confirm``
"""

from skcal.tuning._confirmation import Confirmation, tune_and_confirm
from skcal.tuning._report import SearchReport
from skcal.tuning._search import OptunaSearch
from skcal.tuning._space_for import space_for

__all__ = ["Confirmation", "OptunaSearch", "SearchReport", "space_for", "tune_and_confirm"]
