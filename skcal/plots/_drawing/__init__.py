"""How displays are drawn.

Shared by them: ``style`` (colours and lines), ``axes`` (new, empty and shared ones), ``panels``
(below a diagram). Of one picture each: ``reliability``, ``calibration_map``.
"""
