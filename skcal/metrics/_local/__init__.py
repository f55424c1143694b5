"""Calibration of some of the rows.

By ``features``: around each row (``neighbourhoods``) and where rows are few (``proximity``).
By ``segments``: ``groups`` that do not overlap, and ``multicalibration`` over many that do.
"""
