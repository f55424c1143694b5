"""Calibration errors: how far probabilities are from frequencies, over bins or without them."""
