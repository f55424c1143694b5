"""Calibration errors over all rows: how far probabilities are from frequencies.

With bins: ``binned`` (ECE), ``binned_presets`` (MCE, ACE), ``binned_cumulative``,
``reliability_curve``. Without: ``cumulative`` (ECCE, KS), ``smooth``, ``mmce``, ``skce``.
"""
