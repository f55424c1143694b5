"""Intervals for a metric of ``one_model``, and for the difference of ``two_models``.

Both come from ``estimate``: in closed form (``analytic``) or by drawing rows (``bootstrap``).
"""
