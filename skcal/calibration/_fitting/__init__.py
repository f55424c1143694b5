"""What maps are fitted with, on clean arrays.

One file per problem: ``temperature``, ``affine`` (a matrix or a diagonal), ``logistic`` (a
curve); and ``sorted_scores`` (ties and bins), ``folds`` (cross-validation of calibrators).
"""
