"""Intervals for a metric of one model and for the difference of two."""
