"""Tuning: Optuna's samplers behind scikit-learn's search interface.

From the ground up:

- ``_space``: what parameters are drawn from
- ``_study``: what Optuna is asked and told
- ``_evaluation``: one trial over the folds
- ``_search``: ``OptunaSearch``
"""

from skcal.tuning._search import OptunaSearch

__all__ = ["OptunaSearch"]
