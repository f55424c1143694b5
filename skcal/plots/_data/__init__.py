"""What displays show, found without matplotlib.

``inputs`` reads what a display is given. The other files: ``fitted_curve`` and ``reliability``
(curves of one event), ``class_choice`` (which of many classes), ``projection`` (rows in two
coordinates), ``calibration_map`` (what a map says, and where it is asked).
"""
