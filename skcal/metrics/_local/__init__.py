"""Calibration of some rows: around each row, in sparse regions, in groups and segments."""
