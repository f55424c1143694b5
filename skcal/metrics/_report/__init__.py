"""The calibration report: its numbers, what they say, and how they are shown."""
