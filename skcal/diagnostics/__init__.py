"""Diagnostics of Neighborhood Smoothing: its inequalities on a fitted network.

From the ground up:

- ``_divergences``: how far two predictions are apart, in every measure
- ``_inequalities``: each inequality with both of its sides
- ``_diagnostics``: all of them for a network, in words and as a picture
"""

from skcal.diagnostics._diagnostics import NeSCalDiagnostics
from skcal.diagnostics._divergences import Divergences
from skcal.diagnostics._inequalities import Inequality

__all__ = ["Divergences", "Inequality", "NeSCalDiagnostics"]
