"""Proper scores, what they are made of, and metrics and scorers by name."""
