"""Tests of the hypothesis that the labels were drawn from the probabilities.

One file each; ``result`` has what they return and which probabilities they look at.
"""
