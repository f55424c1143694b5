"""A linear model of the codewords, in the place of the classifier."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from sklearn.linear_model import LogisticRegression

from skcal._rows import log_softmax
from skcal._validation import FloatArray, IntArray

# Log-odds of a class that no row has.
_NEVER = -20.0
_MAX_ITER = 1000


class Head(NamedTuple):
    """Coefficients (columns, n_classes) and intercepts (n_classes,) of a linear classifier."""

    coef: FloatArray
    intercept: FloatArray

    def log_proba(self, vectors: FloatArray) -> FloatArray:
        """Return log-probabilities (n, n_classes) of quantised features (n, columns)."""
        return log_softmax(vectors @ self.coef + self.intercept)


def fit_head(vectors: FloatArray, codes: IntArray, weights: FloatArray, n_classes: int) -> Head:
    """Return a head trained by penalised cross-entropy on quantised features."""
    coef, intercept = np.zeros((vectors.shape[1], n_classes)), np.full(n_classes, _NEVER)
    found = np.unique(codes)
    if len(found) < 2:  # without rows at all, all classes are alike
        intercept[found] = 0.0
        return Head(coef, intercept)
    model = LogisticRegression(max_iter=_MAX_ITER).fit(vectors, codes, sample_weight=weights)
    if len(found) == 2:  # one margin, of the second class
        coef[:, found[1]], intercept[found] = model.coef_[0], [0.0, model.intercept_[0]]
    else:
        coef[:, found], intercept[found] = model.coef_.T, model.intercept_
    return Head(coef, intercept)


def held_out_log_proba(
    vectors: FloatArray, codes: IntArray, weights: FloatArray, folds: IntArray, n_classes: int
) -> FloatArray:
    """Return log-probabilities (n, n_classes) of each row, by heads of the other folds."""
    answer = np.empty((len(codes), n_classes))
    for fold in np.unique(folds):
        out, rest = folds == fold, folds != fold
        head = fit_head(vectors[rest], codes[rest], weights[rest], n_classes)
        answer[out] = head.log_proba(vectors[out])
    return answer
