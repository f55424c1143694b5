"""The calibration report.

``calibration_report`` puts together ``lines`` of numbers and the ``sentences`` about them;
``rendering`` shows them as text, table, page or dictionary.
"""
