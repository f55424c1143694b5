"""Optuna, which is not installed everywhere."""

from __future__ import annotations

from types import ModuleType


def import_optuna() -> ModuleType:
    """Return Optuna, or say how to install it."""
    try:
        import optuna
    except ImportError as error:
        raise ImportError(
            "Tuning needs Optuna, which is not installed: pip install 'skcal[tune]'."
        ) from error
    return optuna
