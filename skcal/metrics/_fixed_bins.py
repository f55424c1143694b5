"""The default calibration error for many sets of weights or labels at once."""

import numpy as np

from skcal._validation import FloatArray, IntArray
from skcal.metrics._bins import assign_bins, bin_edges
from skcal.metrics._events import top_label

# Those of expected_calibration_error.
_N_BINS = 15


def binned_confidence(proba: FloatArray) -> tuple[IntArray, FloatArray, FloatArray]:
    """Return predicted columns (n,), their probabilities (n,) and bins (n, n_bins) as 0 or 1.

    Bins of equal width depend neither on labels nor on weights, so that the error of each
    draw is a product with this matrix.
    """
    predicted = proba.argmax(axis=1)
    confidence, _ = top_label(predicted, proba)
    edges = bin_edges(confidence, np.ones(len(proba)), _N_BINS, "uniform")
    return predicted, confidence, np.eye(_N_BINS)[assign_bins(confidence, edges)]
