"""Tests of the hypothesis that the labels were drawn from the probabilities."""
